"""The activity that a pane shows, and the CPU time of everything in it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ackd.core.effects import RemindAgent
from ackd.core.events import AgentShowed, Event, NotTold, Told
from ackd.core.idleness import Doing
from ackd.endpoints.tmux.activity import CpuActivity, PaneActivity
from ackd.system.process_tree import ProcessTable
from tests.endpoints.tmux.fake_pane import ID, PLACE, FakePane, message, tell
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.endpoints.tmux.endpoint import TerminalEndpoint

REMINDER = RemindAgent("worker", 1, message(), PLACE, 1)


def shown(fake_pane: FakePane) -> list[Doing]:
    return [event.doing for event in fake_pane.heard(AgentShowed)]


async def becomes(fake_pane: FakePane, doing: Doing) -> None:
    await until(lambda: shown(fake_pane)[-1:] == [doing], f"a pane that shows {doing.value}")


async def test_every_change_is_said_once(fake_pane: FakePane) -> None:
    await fake_pane.agent("--spinner")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await becomes(fake_pane, Doing.IDLE)
        for state, doing in (("busy", Doing.BUSY), ("prompt", Doing.UNCLEAR), ("ready", Doing.IDLE)):
            fake_pane.control(state)
            await becomes(fake_pane, doing)
            await fake_pane.looks(3, endpoint)
    assert shown(fake_pane) == [Doing.IDLE, Doing.BUSY, Doing.UNCLEAR, Doing.IDLE]


async def test_what_is_told_is_followed_by_what_it_shows_though_it_be_the_same(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        await endpoint.tell(tell(1))
        await becomes(fake_pane, Doing.IDLE)
        await endpoint.tell(tell(2))
        await until(lambda: len(shown(fake_pane)) == 2, "a second word")
    assert shown(fake_pane) == [Doing.IDLE, Doing.IDLE]


async def test_words_on_its_input_line_are_not_idle(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        await endpoint.tell(tell())
        await becomes(fake_pane, Doing.IDLE)
        fake_pane.control("write half a thought")
        await becomes(fake_pane, Doing.UNCLEAR)
        assert isinstance(await endpoint.remind(REMINDER), NotTold)
    assert all("not finished" not in line for line in fake_pane.submitted())


async def _settled(fake_pane: FakePane, endpoint: TerminalEndpoint) -> None:
    """Wait until the screen is known, and drop the signs of life seen so far."""
    await fake_pane.looks(2, endpoint)
    endpoint.pulse()


async def test_a_spinner_alone_is_no_sign_of_life_and_new_rows_are(
    fake_pane: FakePane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fake_pane.agent("--spinner", "--tick-s", "0.05")
    async with fake_pane.endpoint(table=None) as endpoint:
        await endpoint.tell(tell())
        fake_pane.control("busy")
        await becomes(fake_pane, Doing.BUSY)
        monkeypatch.setattr(CpuActivity, "take", lambda _self, _pid, **_: None)  # a spinner costs some
        await _settled(fake_pane, endpoint)
        await fake_pane.shows(f"Working ({int(time.monotonic() * 5) + 1},")
        await fake_pane.looks(2, endpoint)
        assert endpoint.pulse() is None
        fake_pane.control("say a word of its own")
        await fake_pane.shows("a word of its own")
        await fake_pane.looks(1, endpoint)
        assert endpoint.pulse() == "its pane changed"


async def test_a_child_that_its_turn_started_is_a_sign_of_life(
    fake_pane: FakePane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        await endpoint.tell(tell())
        fake_pane.control("busy")
        await becomes(fake_pane, Doing.BUSY)
        monkeypatch.setattr(CpuActivity, "take", lambda _self, _pid, **_: None)  # a spinner costs some
        await _settled(fake_pane, endpoint)
        assert endpoint.pulse() is None
        fake_pane.control("child sleep 600")
        endpoint.table.max_age_s = 0
        await until(lambda: (endpoint.pulse() or "").startswith("a child is at work"), "a sign of the child")


async def test_a_reminder_names_the_commands_and_is_typed_only_into_ready_and_empty(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        fake_pane.control("busy")
        await fake_pane.shows("Working")
        refused = await endpoint.remind(REMINDER)
        assert isinstance(refused, NotTold)
        assert fake_pane.given() == b""
        fake_pane.control("ready")
        await fake_pane.shows("? help")
        assert isinstance(await endpoint.remind(REMINDER), Told)
    (line,) = fake_pane.submitted()
    assert all(f"ackd {word} {ID}" in line for word in ("done", "defer", "refuse"))


async def test_a_pane_that_tmux_says_nothing_of_for_long_is_unclear() -> None:
    """A single failure, on a machine with trouble, does not make it unclear."""
    said: list[Event] = []
    activity = PaneActivity(agent="worker", finder=None, post=said.append, cpu=None)  # type: ignore[arg-type]
    for _ in range(4):
        activity.is_blind("no server")
    assert said == []
    activity.is_blind("no server")
    assert said == [AgentShowed("worker", Doing.UNCLEAR, "no server")]


# --- CPU time ---------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def pane(script: str) -> Iterator[int]:
    """Run the script in a session of its own, like that of every tmux pane."""
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def test_what_computes_without_a_word_on_the_screen_is_at_work() -> None:
    cpu = CpuActivity(ProcessTable(max_age_s=0.2))
    with pane("while :; do :; done") as pid:
        assert cpu.take(pid) is None  # nothing to compare with
        await until(lambda: (sign := cpu.take(pid)) is not None and sign.endswith("s of CPU time"))


async def test_what_waits_is_not() -> None:
    table = ProcessTable(max_age_s=0)
    cpu = CpuActivity(table)
    with pane("exec sleep 60") as pid:
        await until(lambda: table.cpu_s(pid) >= 0)
        signs = [cpu.take(pid) for _ in range(5)]
    assert signs == [None] * 5


@dataclass
class GivenTable:
    """A process table that answers with given numbers."""

    spent_s: float = 0.0
    looked_at: float = 0.0

    def cpu_s(self, session: int) -> float:
        return self.spent_s


@pytest.mark.parametrize(
    ("spent_s", "within_s", "is_sign"),
    [(0.04, 0.1, False), (0.05, 0.1, True), (0.3, 30, False), (1.5, 30, True), (0.0, 0.0, False)],
)
def test_a_few_ticks_of_what_blinks_are_no_sign(spent_s: float, within_s: float, is_sign: bool) -> None:
    table = GivenTable()
    cpu = CpuActivity(table)  # type: ignore[arg-type]
    cpu.take(7)
    table.spent_s, table.looked_at = spent_s, within_s
    assert (cpu.take(7) is not None) is is_sign
    assert cpu.take(8) is None  # another pane: what it used before is not known


@pytest.mark.parametrize(("spent_s", "is_sign"), [(2.6, False), (7.5, True)])
def test_what_a_spinner_costs_is_no_sign_and_what_a_build_costs_is(spent_s: float, is_sign: bool) -> None:
    """The numbers were measured with real programs that hang: up to 0.09 of a core."""
    table = GivenTable()
    cpu = CpuActivity(table)  # type: ignore[arg-type]
    cpu.take(7, busy=True)
    table.spent_s, table.looked_at = spent_s, 30.0
    assert (cpu.take(7, busy=True) is not None) == is_sign
