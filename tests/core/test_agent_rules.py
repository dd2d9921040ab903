"""Rules for agents: parked, down, paused, hindered by the machine; and the states of their workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import MONITOR, USER
from ackd.core.policy import NEVER, AgentPolicy
from ackd.core.worker import WorkerState
from tests.core.engine_world import PANE, PROCESS, TEAM, World, make_message

if TYPE_CHECKING:
    from collections.abc import Callable


def away(reason: str = "pane gone") -> Callable[[fx.TellAgent], list[ev.Event]]:
    return lambda order: [ev.EndpointAway(order.key, reason)]


def world_with_absent(agent: str = "runner") -> World:
    world = World()
    world.on_tell[agent] = away()
    return world


# --- away -------------------------------------------------------------------------------------------------------------
def test_an_endpoint_that_is_away_parks_its_agent_and_counts_no_failure() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    assert (world.agent("runner").state.value, world.agent("runner").reason) == ("parked", "pane gone")
    assert (world.delivery("m1").retries, world.state_of("m1")) == (0, "retrying")
    retry = world.fact("message_retry", "m1")
    assert (retry["counted"], retry["retry_count"], retry["delay_s"]) == (False, 0, 5.0)


def test_park_times_grow_to_a_cap() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    world.wait(1000)
    assert [d["delay_s"] for d in world.facts("message_retry")] == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_an_absent_agent_comes_back_by_itself() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    world.wait(4.9)
    del world.on_tell["runner"]
    assert world.told("runner") == ["m1"]
    world.wait(0.2)
    assert (world.told("runner"), world.state_of("m1")) == (["m1", "m1"], "delivered")
    assert world.agent("runner").parks == 0


def test_an_agent_that_may_be_at_work_for_ever_stays_parked_and_nobody_is_told_until_it_says_that_it_is_ready() -> None:
    world = World({**TEAM, "worker": (replace(PANE, busy_timeout_s=NEVER), "tmux")})
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "it works", order.attempt, ev.Absence.BUSY)]
    world.send(make_message("m1"))
    del world.on_tell["worker"]
    lines = len(world.log)
    world.wait(100_000)
    assert (world.told("worker"), world.agent("worker").state.value) == (["m1"], "parked")
    assert len(world.log) == lines
    world.tell(ev.AgentReady("worker", "it waits for a line"))
    assert world.told("worker") == ["m1", "m1"]


def test_no_timer_runs_for_a_message_of_an_agent_whose_times_never_end() -> None:
    own = AgentPolicy(processing_timeout_s=NEVER, task_timeout_s=NEVER)
    world = World({**TEAM, "worker": (own, "tmux")})
    world.on_tell["worker"] = lambda _order: []
    world.send(make_message("m1"))
    world.wait(10_000_000)
    assert world.state_of("m1") == "processing"
    world.tell(ev.Told(world.delivery("m1").key, "typed"))
    world.tell(ev.ReceiptCame(world.receipt("ack", "m1")))
    world.wait(10_000_000)
    assert (world.state_of("m1"), world.facts("message_overdue")) == ("acked", [])


def test_an_absence_is_escalated_once_and_the_next_absence_again() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    world.wait(1000)
    assert [e["cause"] for e in world.facts("escalation")] == ["away"]
    del world.on_tell["runner"]
    world.wait(400)
    world.says("done", "m1", "runner")
    world.on_tell["runner"] = away()
    world.send(make_message("m2", "runner"))
    assert [e["counted"] for e in world.facts("escalation")] == [1, 1]
    assert (len(world.mail("escalation")), world.fact("escalation_closed")["how"]) == (2, "over")


def test_many_messages_that_come_back_from_one_absence_are_one_park() -> None:
    world = World({**TEAM, "crowd": (TEAM[USER][0], "inbox")})
    world.handle(ev.AgentPaused("crowd"))
    for number in range(10):
        world.send(make_message(f"m{number}", "crowd"))
    world.on_tell["crowd"] = away()
    world.tell(ev.AgentResumed("crowd"))
    assert world.agent("crowd").parks == 1
    assert len(world.facts("escalation")) == 1


def test_our_own_mail_to_an_absent_agent_does_not_use_up_the_escalation_of_its_absence() -> None:
    world = world_with_absent()
    world.send(make_message("ours", "runner", sender=MONITOR, type="dead_letter"))
    assert world.facts("escalation") == []
    world.send(make_message("theirs", "runner"))
    world.wait(20)
    assert [e["cause"] for e in world.facts("escalation")] == ["away"]


def test_an_escalation_for_an_absent_leader_is_passed_on_to_a_person_once() -> None:
    world = world_with_absent("leader")
    world.send(make_message("e1", "leader", sender=MONITOR, type="escalation"))
    world.wait(1000)
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER]
    assert len(world.facts("escalation")) == 1


def test_a_sign_of_life_ends_a_park() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    del world.on_tell["runner"]
    world.tell(ev.SignOfLife("runner", "it wrote something"))
    assert world.state_of("m1") == "delivered"


# --- the disk ---------------------------------------------------------------------------------------------------------
def test_a_disk_that_refuses_a_claim_parks_the_agent_and_the_claim_is_tried_again() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    world.send(make_message("m1"))
    assert (world.agent("worker").state.value, world.state_of("m1")) == ("parked", "queued")
    assert world.fact("io_error")["error"] == "No space left on device"
    world.refused = set()
    world.wait(5)
    assert world.state_of("m1") == "delivered"


# --- by hand ----------------------------------------------------------------------------------------------------------
def test_a_paused_agent_is_offered_nothing_until_it_is_resumed() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.tell(ev.SignOfLife("worker", "the pane changed"))
    world.wait(10_000)
    assert world.told("worker") == []
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1"]
    assert [d["state"] for d in world.facts("agent_state")] == ["paused", "available"]


def test_a_paused_agent_is_neither_nudged_nor_declared_dead() -> None:
    """Workers run on through a pause; an agent that a person has taken aside is not woken."""
    world = World()
    world.send(make_message("m1"))
    world.tell(ev.AgentPaused("worker"))
    world.wait(3000)
    assert world.facts("nudge") == []
    assert world.state_of("m1") == "delivered"
    world.tell(ev.AgentResumed("worker"))
    world.wait(60)
    assert [d["rung"] for d in world.facts("nudge")] == [1]


def test_a_pause_keeps_its_reason_whatever_happens_meanwhile() -> None:
    world = World()
    world.handle(ev.AgentJoined("worker", PANE, "tmux"))
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.on_tell["worker"] = away()
    world.handle(ev.AgentPaused("worker"))
    world.settle()
    assert (world.agent("worker").state.value, world.agent("worker").reason) == ("paused", "by hand")
    assert world.agent("worker").parked is None


def test_a_resumed_agent_starts_with_a_clean_slate() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(240)
    assert world.agent("worker").state.value == "down"
    world.send(make_message("m2"))
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1", "m2"]
    assert world.agent("worker").ladder is None


# --- faults of the machine --------------------------------------------------------------------------------------------
def hindered(order: fx.TellAgent) -> list[ev.Event]:
    return [ev.Hindered(order.key, "could not start ./tool: No space left on device")]


def test_what_the_machine_hinders_counts_for_nothing_and_is_tried_again_by_itself() -> None:
    world = World()
    world.on_tell["runner"] = hindered
    world.send(make_message("m1", "runner"))
    world.wait(2_000)
    assert (world.agent("runner").state.value, world.state_of("m1")) == ("parked", "retrying")
    assert {retry["counted"] for retry in world.facts("message_retry")} == {False}
    assert {fact["what"] for fact in world.facts("io_error")} == {"tell"}
    assert world.facts("escalation") == [], "its agent is not away"
    del world.on_tell["runner"]
    world.wait(300)
    assert world.state_of("m1") == "delivered"


def test_a_handler_that_the_machine_hindered_is_offered_its_message_again() -> None:
    world = World()
    world.on_tell["runner"] = lambda order: [
        ev.Told(order.key, "handler called", seen=True),
        ev.RunEnded(order.key, ev.Outcome.HINDERED, "OSError: No space left on device", order.attempt),
    ]
    world.send(make_message("m1", "runner"))
    world.wait(2_000)
    assert world.state_of("m1") == "retrying"
    assert world.facts("message_dead") == world.facts("escalation") == []


def test_when_a_fault_is_over_nobody_waits_longer_for_it() -> None:
    world = World()
    world.on_tell["runner"] = hindered
    world.refused = {fx.ClaimMessage, fx.ArchiveMessage}
    world.send(make_message("m1", "runner"))
    world.send(make_message("m2", "worker"))
    world.wait(1_000)
    world.on_tell.clear()
    world.refused = set()
    world.tell(ev.FaultEnded())
    assert [world.agent(name).state.value for name in ("runner", "worker")] == ["busy", "busy"]
    assert (world.state_of("m1"), world.state_of("m2")) == ("delivered", "delivered")


def test_a_move_that_the_disk_refused_is_made_when_the_fault_is_over() -> None:
    world = World()
    world.send(make_message("m1", "worker"))
    world.refused = {fx.ArchiveMessage}
    world.says("done", "m1")
    world.wait(1)
    world.refused = set()
    world.tell(ev.FaultEnded())
    world.wait(0)
    assert len(world.facts("message_completed")) == 1


def test_an_agent_that_is_away_by_itself_is_not_called_back_by_the_end_of_a_fault() -> None:
    world = world_with_absent()
    world.send(make_message("m1", "runner"))
    world.tell(ev.FaultEnded())
    assert world.agent("runner").state.value == "parked"


# --- workers ----------------------------------------------------------------------------------------------------------
def process_team() -> World:
    return World({**TEAM, "worker": (PROCESS, "process")})


def worker_states(world: World) -> list[object]:
    return [d["state"] for d in world.facts("worker_state")]


def test_a_task_from_assignment_to_idle() -> None:
    world = process_team()
    world.send(make_message("m1"))
    key = world.delivery("m1").key
    world.tell(ev.WorkerSaid("worker", key, state=WorkerState.EXECUTING))
    world.ends("m1", ev.Outcome.DONE, "complete")
    assert worker_states(world) == ["assigned", "executing", "verifying", "self_review", "complete", "idle"]
    passed = [d["state"] for d in world.facts("worker_state") if d.get("passed")]
    assert passed == ["verifying", "self_review"], "nobody said so: it went from executing to complete"


def test_a_failure_is_walked_to_and_ends_idle() -> None:
    world = process_team()
    world.send(make_message("m1"))
    world.ends("m1", ev.Outcome.FAILED, "tests fail")
    assert worker_states(world) == ["assigned", "executing", "failed", "idle"]


def test_a_crash_forces_failed_from_anywhere() -> None:
    world = process_team()
    world.send(make_message("m1"))
    world.tell(ev.WorkerSaid("worker", world.delivery("m1").key, state=WorkerState.SELF_REVIEW))
    world.tell(ev.AgentDied("worker", "exit 1", again_in_s=1))
    assert worker_states(world)[-2:] == ["failed", "idle"]  # idle: what it had in hand is taken back


def test_a_step_that_the_table_does_not_have_is_written_down_and_changes_nothing() -> None:
    world = process_team()
    world.send(make_message("m1"))
    key = world.delivery("m1").key
    world.tell(
        ev.WorkerSaid("worker", key, state=WorkerState.COMPLETE),
        ev.WorkerSaid("worker", key, state=WorkerState.EXECUTING),
    )
    refused = [(d["state"], d["refused"]) for d in world.facts("worker_state") if "refused" in d]
    assert (refused, world.agent("worker").worker) == ([("complete", "executing")], WorkerState.COMPLETE)


def test_agents_behind_which_nothing_lives_have_no_worker() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.DONE, "exit 0")
    assert world.facts("worker_state") == []


def test_a_worker_with_several_tasks_is_idle_when_the_last_is_gone() -> None:
    world = World({**TEAM, "worker": (replace(PROCESS, max_in_flight=2), "process")})
    world.send(make_message("m1"))
    world.send(make_message("m2"))
    world.ends("m1", ev.Outcome.DONE)
    assert world.agent("worker").worker is WorkerState.ASSIGNED
    world.ends("m2", ev.Outcome.DONE)
    assert world.agent("worker").worker is WorkerState.IDLE
