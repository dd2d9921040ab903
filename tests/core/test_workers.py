"""The worker's states as they are walked and written down."""

from __future__ import annotations

from dataclasses import replace

from ackd.core import events as ev
from ackd.core.worker import WorkerState
from tests.core.driving import PROCESS, TEAM, World, letter

S = WorkerState


def a_team() -> World:
    return World({**TEAM, "worker": (PROCESS, "process")})


def states(world: World) -> list[object]:
    return [d["state"] for d in world.facts("worker_state")]


def test_a_task_from_assignment_to_idle() -> None:
    world = a_team()
    world.send(letter("m1"))
    key = world.delivery("m1").key
    world.tell(ev.WorkerSaid("worker", key, state=S.EXECUTING))
    world.ends("m1", ev.Outcome.DONE, "complete")
    assert states(world) == ["assigned", "executing", "verifying", "self_review", "complete", "idle"]


def test_a_failure_is_walked_to_and_ends_idle() -> None:
    world = a_team()
    world.send(letter("m1"))
    world.ends("m1", ev.Outcome.FAILED, "tests fail")
    assert states(world) == ["assigned", "executing", "failed", "idle"]


def test_a_crash_forces_failed_from_anywhere() -> None:
    world = a_team()
    world.send(letter("m1"))
    world.tell(ev.WorkerSaid("worker", world.delivery("m1").key, state=S.SELF_REVIEW))
    world.tell(ev.AgentDied("worker", "exit 1", again_in_s=1))
    assert states(world)[-2:] == ["failed", "idle"]  # idle: what it had in hand is taken back


def test_a_step_that_the_table_does_not_have_is_written_down_and_changes_nothing() -> None:
    world = a_team()
    world.send(letter("m1"))
    key = world.delivery("m1").key
    world.tell(ev.WorkerSaid("worker", key, state=S.COMPLETE), ev.WorkerSaid("worker", key, state=S.EXECUTING))
    refused = [(d["state"], d["refused"]) for d in world.facts("worker_state") if "refused" in d]
    assert (refused, world.agent("worker").worker) == ([("complete", "executing")], S.COMPLETE)


def test_agents_behind_which_nothing_lives_have_no_worker() -> None:
    world = World()
    world.send(letter("m1", "runner"))
    world.ends("m1", ev.Outcome.DONE, "exit 0")
    assert world.facts("worker_state") == []


def test_a_worker_with_several_tasks_is_idle_when_the_last_is_gone() -> None:
    world = World({**TEAM, "worker": (replace(PROCESS, max_in_flight=2), "process")})
    world.send(letter("m1"))
    world.send(letter("m2"))
    world.ends("m1", ev.Outcome.DONE)
    assert world.agent("worker").worker is S.ASSIGNED
    world.ends("m2", ev.Outcome.DONE)
    assert world.agent("worker").worker is S.IDLE
