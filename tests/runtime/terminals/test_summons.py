"""A pane that somebody names. What the rungs do in it: tests/test_ack.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters import root_lock
from ackd.adapters.clock import SystemClock
from ackd.dialects.screen import profile_of
from ackd.runtime.terminals.summons import Summons
from tests.runtime.terminals.stage import TABLE

if TYPE_CHECKING:
    from tests.runtime.terminals.stage import Stage

LINES = ("ackd: task t waits", "ackd: you are worker 1")


def summons(stage: Stage, target: str) -> Summons:
    profile = profile_of(TABLE, "fake")
    return Summons(tmux=stage.tmux, profile=profile, clock=SystemClock(), target=target, drawn_within_s=0.3)


async def test_a_pane_is_named_by_its_id_or_its_target_and_not_marked(stage: Stage) -> None:
    await stage.agent()
    pane = (await stage.tmux.look(stage.pane_id)).pane
    for target in (pane.pane_id, pane.target):
        assert (await summons(stage, target).climb(1, *LINES)).startswith("the line stands in its transcript")
    assert (await stage.tmux.look(stage.pane_id)).pane.agent == ""


async def test_another_program_in_the_same_pane_is_not_who_was_named(stage: Stage) -> None:
    await stage.agent()
    one = summons(stage, stage.pane_id)
    await one.regard()
    stage._run("respawn-pane", "-k", "-t", stage.pane_id, "sleep 600")
    assert "what ran in it has ended" in await one.climb(1, *LINES)


async def test_a_mark_is_heeded_while_its_daemon_runs_and_a_strange_one_never(stage: Stage) -> None:
    await stage.agent()
    root = stage.place / ".ackd"
    held = root_lock.hold(root / "run")
    await stage.tmux.mark(stage.pane_id, f"{root}:worker")
    assert "serves this pane" in await summons(stage, stage.pane_id).climb(2, *LINES)
    await stage.tmux.mark(stage.pane_id, "../etc:worker")
    assert "transcript" in await summons(stage, stage.pane_id).climb(1, *LINES)
    held.release()


async def test_no_server_is_an_answer(stage: Stage) -> None:
    one = summons(stage, "%1")
    await one.regard()
    assert await one.climb(1, *LINES) == "nothing typed: no pane %1"
    stage.tmux.program = "no-such-tmux"
    assert (await summons(stage, "%1").climb(3, *LINES)).startswith("nothing typed: cannot run no-such-tmux")
