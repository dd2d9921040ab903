"""Waking in a pane that the caller names. The rungs themselves are tested in tests/test_ack.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.endpoints.tmux.screen import profile_of
from ackd.endpoints.tmux.standalone_wake import StandaloneWake
from ackd.storage import root_lock
from ackd.system.clock import SystemClock
from tests.endpoints.tmux.fake_pane import TABLE

if TYPE_CHECKING:
    from tests.endpoints.tmux.fake_pane import FakePane

LINES = ("ackd: task t waits", "ackd: you are worker 1")


def wake_of(fake_pane: FakePane, target: str) -> StandaloneWake:
    profile = profile_of(TABLE, "fake")
    return StandaloneWake(tmux=fake_pane.tmux, profile=profile, clock=SystemClock(), target=target, drawn_within_s=0.3)


async def test_a_pane_is_named_by_its_id_or_its_target_and_not_marked(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    pane = (await fake_pane.tmux.look(fake_pane.pane_id)).pane
    for target in (pane.pane_id, pane.target):
        assert (await wake_of(fake_pane, target).climb(1, *LINES)).startswith("the line stands in its transcript")
    assert (await fake_pane.tmux.look(fake_pane.pane_id)).pane.agent == ""


async def test_another_program_in_the_same_pane_is_not_who_was_named(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    one = wake_of(fake_pane, fake_pane.pane_id)
    await one.note_screen()
    fake_pane._run("respawn-pane", "-k", "-t", fake_pane.pane_id, "sleep 600")
    assert "what ran in it has ended" in await one.climb(1, *LINES)


async def test_a_mark_is_heeded_while_its_daemon_runs_and_a_strange_one_never(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    root = fake_pane.place / ".ackd"
    held = root_lock.hold(root / "run")
    await fake_pane.tmux.mark(fake_pane.pane_id, f"{root}:worker")
    assert "serves this pane" in await wake_of(fake_pane, fake_pane.pane_id).climb(2, *LINES)
    await fake_pane.tmux.mark(fake_pane.pane_id, "../etc:worker")
    assert "transcript" in await wake_of(fake_pane, fake_pane.pane_id).climb(1, *LINES)
    held.release()


async def test_no_server_is_an_answer(fake_pane: FakePane) -> None:
    one = wake_of(fake_pane, "%1")
    await one.note_screen()
    assert await one.climb(1, *LINES) == "nothing typed: no pane %1"
    fake_pane.tmux.program = "no-such-tmux"
    assert (await wake_of(fake_pane, "%1").climb(3, *LINES)).startswith("nothing typed: cannot run no-such-tmux")
