"""What is said of a pane while its agent holds work: idle, busy, unclear; and what is a sign of life in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ackd.core.effects import RemindAgent
from ackd.core.events import AgentShowed, Event, NotTold, Told
from ackd.core.idleness import Doing
from ackd.runtime.terminals import TerminalEndpoint
from ackd.runtime.terminals.doings import Doings
from ackd.runtime.terminals.exertion import Exertion
from tests.runtime.terminals.stage import ID, PLACE, Stage, message, tell
from tests.waiting import until

if TYPE_CHECKING:
    import pytest

REMINDER = RemindAgent("worker", 1, message(), PLACE, 1)


def shown(stage: Stage) -> list[Doing]:
    return [event.doing for event in stage.heard(AgentShowed)]


async def becomes(stage: Stage, doing: Doing) -> None:
    await until(lambda: shown(stage)[-1:] == [doing], f"a pane that shows {doing.value}")


async def test_every_change_is_said_once(stage: Stage) -> None:
    await stage.agent("--spinner")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await becomes(stage, Doing.IDLE)
        for state, doing in (("busy", Doing.BUSY), ("prompt", Doing.UNCLEAR), ("ready", Doing.IDLE)):
            stage.control(state)
            await becomes(stage, doing)
            await stage.looks(3, endpoint)
    assert shown(stage) == [Doing.IDLE, Doing.BUSY, Doing.UNCLEAR, Doing.IDLE]


async def test_what_is_told_is_followed_by_what_it_shows_though_it_be_the_same(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        await endpoint.tell(tell(1))
        await becomes(stage, Doing.IDLE)
        await endpoint.tell(tell(2))
        await until(lambda: len(shown(stage)) == 2, "a second word")
    assert shown(stage) == [Doing.IDLE, Doing.IDLE]


async def test_words_on_its_input_line_are_not_idle(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        await endpoint.tell(tell())
        await becomes(stage, Doing.IDLE)
        stage.control("write half a thought")
        await becomes(stage, Doing.UNCLEAR)
        assert isinstance(await endpoint.remind(REMINDER), NotTold)
    assert all("not finished" not in line for line in stage.submitted())


async def _settled(stage: Stage, endpoint: TerminalEndpoint) -> None:
    """Its screen is known, and what was seen of it so far has been asked for."""
    await stage.looks(2, endpoint)
    endpoint.pulse()


async def test_a_spinner_alone_is_no_sign_of_life_and_new_rows_are(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.agent("--spinner", "--tick-s", "0.05")
    async with stage.endpoint(table=None) as endpoint:
        await endpoint.tell(tell())
        stage.control("busy")
        await becomes(stage, Doing.BUSY)
        monkeypatch.setattr(Exertion, "take", lambda _self, _pid, **_: None)  # a spinner costs some
        await _settled(stage, endpoint)
        await stage.shows(f"Working ({int(time.monotonic() * 5) + 1},")
        await stage.looks(2, endpoint)
        assert endpoint.pulse() is None
        stage.control("say a word of its own")
        await stage.shows("a word of its own")
        await stage.looks(1, endpoint)
        assert endpoint.pulse() == "its pane changed"


async def test_a_child_that_its_turn_started_is_a_sign_of_life(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        await endpoint.tell(tell())
        stage.control("busy")
        await becomes(stage, Doing.BUSY)
        monkeypatch.setattr(Exertion, "take", lambda _self, _pid, **_: None)  # a spinner costs some
        await _settled(stage, endpoint)
        assert endpoint.pulse() is None
        stage.control("child sleep 600")
        endpoint.table.max_age_s = 0
        await until(lambda: (endpoint.pulse() or "").startswith("a child is at work"), "a sign of the child")


async def test_a_reminder_names_the_commands_and_is_typed_only_into_ready_and_empty(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        stage.control("busy")
        await stage.shows("Working")
        refused = await endpoint.remind(REMINDER)
        assert isinstance(refused, NotTold)
        assert stage.given() == b""
        stage.control("ready")
        await stage.shows("? help")
        assert isinstance(await endpoint.remind(REMINDER), Told)
    (line,) = stage.submitted()
    assert all(f"ackd {word} {ID}" in line for word in ("done", "defer", "refuse"))


async def test_a_pane_that_tmux_says_nothing_of_for_long_is_unclear() -> None:
    """Not after one hard moment of the machine."""
    said: list[Event] = []
    doings = Doings(agent="worker", eye=None, post=said.append, exertion=None)  # type: ignore[arg-type]
    for _ in range(4):
        doings.is_blind("no server")
    assert said == []
    doings.is_blind("no server")
    assert said == [AgentShowed("worker", Doing.UNCLEAR, "no server")]
