"""How agents are treated: parked, down, paused, believed alive, told on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.escalations import OpenEscalation
from ackd.core.message import MONITOR, USER
from tests.core.driving import PANE, TEAM, WATCHED_PANE, World, letter

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
    world.send(letter("m1", "runner"))
    assert (world.agent("runner").state.value, world.agent("runner").reason) == ("parked", "pane gone")
    assert (world.delivery("m1").retries, world.state_of("m1")) == (0, "retrying")
    retry = world.fact("message_retry", "m1")
    assert (retry["counted"], retry["retry_count"], retry["delay_s"]) == (False, 0, 5.0)


def test_park_times_grow_to_a_cap() -> None:
    world = world_with_absent()
    world.send(letter("m1", "runner"))
    world.wait(1000)
    assert [d["delay_s"] for d in world.facts("message_retry")] == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_an_absent_agent_comes_back_by_itself() -> None:
    world = world_with_absent()
    world.send(letter("m1", "runner"))
    world.wait(4.9)
    del world.on_tell["runner"]
    assert world.told("runner") == ["m1"]
    world.wait(0.2)
    assert (world.told("runner"), world.state_of("m1")) == (["m1", "m1"], "delivered")
    assert world.agent("runner").parks == 0


def test_an_absence_is_escalated_once_and_the_next_absence_again() -> None:
    world = world_with_absent()
    world.send(letter("m1", "runner"))
    world.wait(1000)
    assert [e["cause"] for e in world.facts("escalation")] == ["away"]
    del world.on_tell["runner"]
    world.wait(400)
    world.says("done", "m1", "runner")
    world.on_tell["runner"] = away()
    world.send(letter("m2", "runner"))
    assert [e["counted"] for e in world.facts("escalation")] == [1, 1]
    assert (len(world.mail("escalation")), world.fact("escalation_closed")["how"]) == (2, "over")


def test_many_messages_that_come_back_from_one_absence_are_one_park() -> None:
    world = World({**TEAM, "crowd": (TEAM[USER][0], "inbox")})
    world.handle(ev.AgentPaused("crowd"))
    for number in range(10):
        world.send(letter(f"m{number}", "crowd"))
    world.on_tell["crowd"] = away()
    world.tell(ev.AgentResumed("crowd"))
    assert world.agent("crowd").parks == 1
    assert len(world.facts("escalation")) == 1


def test_our_own_mail_to_an_absent_agent_does_not_use_up_the_escalation_of_its_absence() -> None:
    world = world_with_absent()
    world.send(letter("ours", "runner", sender=MONITOR, type="dead_letter"))
    assert world.facts("escalation") == []
    world.send(letter("theirs", "runner"))
    world.wait(20)
    assert [e["cause"] for e in world.facts("escalation")] == ["away"]


def test_an_escalation_for_an_absent_leader_is_passed_on_to_a_person_once() -> None:
    world = world_with_absent("leader")
    world.send(letter("e1", "leader", sender=MONITOR, type="escalation"))
    world.wait(1000)
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER]
    assert len(world.facts("escalation")) == 1


def test_a_sign_of_life_ends_a_park() -> None:
    world = world_with_absent()
    world.send(letter("m1", "runner"))
    del world.on_tell["runner"]
    world.tell(ev.SignOfLife("runner", "it wrote something"))
    assert world.state_of("m1") == "delivered"


# --- the disk ---------------------------------------------------------------------------------------------------------
def test_a_disk_that_refuses_a_claim_parks_the_agent_and_the_claim_is_tried_again() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    world.send(letter("m1"))
    assert (world.agent("worker").state.value, world.state_of("m1")) == ("parked", "queued")
    assert world.fact("io_error")["error"] == "No space left on device"
    world.refused = set()
    world.wait(5)
    assert world.state_of("m1") == "delivered"


# --- by hand ----------------------------------------------------------------------------------------------------------
def test_a_paused_agent_is_offered_nothing_until_it_is_resumed() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(letter("m1"))
    world.tell(ev.SignOfLife("worker", "the pane changed"))
    world.wait(10_000)
    assert world.told("worker") == []
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1"]
    assert [d["state"] for d in world.facts("agent_state")] == ["paused", "available"]


def test_a_paused_agent_is_neither_nudged_nor_declared_dead() -> None:
    """Workers run on through a pause; nobody wakes one that a person has taken aside."""
    world = World()
    world.send(letter("m1"))
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
    world.handle(world.arrival(world.drop(letter("m1"))))
    world.on_tell["worker"] = away()
    world.handle(ev.AgentPaused("worker"))
    world.settle()
    assert (world.agent("worker").state.value, world.agent("worker").reason) == ("paused", "by hand")
    assert world.agent("worker").until is None


def test_a_resumed_agent_starts_with_a_clean_slate() -> None:
    world = World()
    world.send(letter("m1"))
    world.wait(240)
    assert world.agent("worker").state.value == "down"
    world.send(letter("m2"))
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1", "m2"]
    assert world.agent("worker").ladder is None


# --- who is told ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("event", [ev.AgentPaused("leader"), None])
def test_escalations_go_to_the_leader_or_if_nobody_answers_there_to_a_person(event: ev.Event | None) -> None:
    world = World()
    if event is not None:
        world.tell(event)
    world.send(letter("m1"))
    world.says("refuse", "m1")
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER if event else "leader"]


def test_an_escalation_to_one_who_left_the_team_keeps_nobody_from_hearing_of_the_next_case() -> None:
    world = World()
    world.engine.desk.escalations.open(OpenEscalation("e@x", "worker", "refused", "boss", world.wall, told=True))
    world.send(letter("m1"))
    world.says("refuse", "m1", reason="not mine")
    assert [one.draft.recipient for one in world.mail("escalation")] == ["leader"]
    assert world.fact("escalation_closed")["escalation_id"] == "e@x"


def test_what_is_wrong_with_the_leader_is_told_to_a_person() -> None:
    world = World()
    world.send(letter("m1", "leader", sender="worker"))
    world.says("refuse", "m1", "leader")
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER]


# --- faults of the machine --------------------------------------------------------------------------------------------
def hindered(order: fx.TellAgent) -> list[ev.Event]:
    return [ev.Hindered(order.key, "could not start ./tool: No space left on device")]


def test_what_the_machine_hinders_counts_for_nothing_and_is_tried_again_by_itself() -> None:
    world = World()
    world.on_tell["runner"] = hindered
    world.send(letter("m1", "runner"))
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
    world.send(letter("m1", "runner"))
    world.wait(2_000)
    assert world.state_of("m1") == "retrying"
    assert world.facts("message_dead") == world.facts("escalation") == []


def test_when_a_fault_is_over_nobody_waits_longer_for_it() -> None:
    world = World()
    world.on_tell["runner"] = hindered
    world.refused = {fx.ClaimMessage, fx.ArchiveMessage}
    world.send(letter("m1", "runner"))
    world.send(letter("m2", "worker"))
    world.wait(1_000)
    world.on_tell.clear()
    world.refused = set()
    world.tell(ev.FaultEnded())
    assert [world.agent(name).state.value for name in ("runner", "worker")] == ["busy", "busy"]
    assert (world.state_of("m1"), world.state_of("m2")) == ("delivered", "delivered")


def test_a_move_that_the_disk_refused_is_made_when_the_fault_is_over() -> None:
    world = World()
    world.send(letter("m1", "worker"))
    world.refused = {fx.ArchiveMessage}
    world.says("done", "m1")
    world.wait(1)
    world.refused = set()
    world.tell(ev.FaultEnded())
    world.wait(0)
    assert len(world.facts("message_completed")) == 1


def test_an_agent_that_is_away_by_itself_is_not_called_back_by_the_end_of_a_fault() -> None:
    world = world_with_absent()
    world.send(letter("m1", "runner"))
    world.tell(ev.FaultEnded())
    assert world.agent("runner").state.value == "parked"


# --- what ends an escalation ------------------------------------------------------------------------------------------
def panes() -> World:
    return World({**TEAM, "worker": (WATCHED_PANE, "tmux")})


def asks(world: World, what: str, until: float | None = None) -> None:
    world.tell(ev.AgentStuck("worker", f"a permission prompt waits for a person: {what}", until))


def open_causes(world: World) -> list[str]:
    return sorted(one.cause for one in world.engine.desk.escalations.all())


def test_a_stuck_escalation_closes_by_itself_when_the_agent_goes_on_and_a_new_prompt_is_a_new_one() -> None:
    world = panes()
    world.send(letter("m1"))
    asks(world, "Bash: touch x")
    assert open_causes(world) == ["stuck"]
    world.tell(ev.AgentReady("worker", "it works again"))
    closed = world.fact("escalation_closed")
    assert (closed["cause"], closed["how"], closed["why"], closed["by"]) == ("stuck", "over", "it goes on", MONITOR)
    asks(world, "Bash: touch x")
    assert (len(world.mail("escalation")), open_causes(world)) == (2, ["stuck"])


def test_another_prompt_at_once_is_a_new_escalation_and_the_same_one_again_is_none() -> None:
    world = panes()
    asks(world, "Bash: touch x")
    asks(world, "Bash: touch x")
    assert [e["counted"] for e in world.facts("escalation")] == [1]
    asks(world, "Bash: rm y")
    said = [str(e.draft.body["summary"]) for e in world.mail("escalation")]
    assert ["Bash: touch x." in said[0], "Bash: rm y." in said[1], len(said)] == [True, True, 2]
    assert (len(world.facts("escalation_closed")), open_causes(world)) == (1, ["stuck"])


def test_a_limit_that_counts_down_is_one_escalation() -> None:
    world = panes()
    for minutes in (5, 4, 3):
        asks(world, f"resets in {minutes} min", world.wall + 60 * minutes)
    assert (len(world.mail("escalation")), world.agent("worker").reason[-5:]) == (1, "3 min")


def test_what_it_waits_for_in_other_words_is_the_same_escalation() -> None:
    world = panes()
    asks(world, "a limit without a time, 5 min left")
    for left in (4, 3):
        world.tell(ev.AgentStuck("worker", f"a limit without a time, {left} min left", new=False))
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "still a limit", why=ev.Absence.STUCK)]
    world.send(letter("m1"))
    world.wait(1000)  # tried again now and then
    assert (len(world.mail("escalation")), world.agent("worker").reason) == (1, "still a limit")


def test_a_prompt_of_an_agent_that_was_away_is_told_of_too() -> None:
    """Someone opens its pane again, and it asks whether the folder is trusted: another thing than its absence."""
    world = panes()
    world.on_tell["worker"] = away()
    world.send(letter("m1"))
    asks(world, "Do you trust this folder?")
    assert [e["cause"] for e in world.facts("escalation")] == ["away", "stuck"]


def test_the_reason_of_a_park_follows_what_the_endpoint_says_now() -> None:
    world = panes()
    asks(world, "Bash: touch x")
    asks(world, "Bash: rm y")
    assert world.agent("worker").reason.endswith("Bash: rm y")
    assert ["touch x" in str(d["reason"]) for d in world.facts("agent_state")] == [True, False]
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "no pane", attempt=order.attempt)]
    world.tell(ev.AgentReady("worker", "ready"))
    world.send(letter("m1"))
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "a shell is there", attempt=order.attempt)]
    world.wait(6)
    assert world.agent("worker").reason == "a shell is there"


def test_what_was_said_of_a_message_is_over_when_it_has_ended() -> None:
    world = panes()
    world.send(letter("m1"))
    world.says("ack", "m1")
    world.tell(ev.WorkBlocked(world.delivery("m1").key, "no schema", None))
    assert open_causes(world) == ["blocked"]
    world.says("done", "m1")
    assert (open_causes(world), world.fact("escalation_closed")["why"]) == ([], "m1 is completed")


def test_a_death_is_over_when_all_its_letters_live_again() -> None:
    world = panes()
    for name in ("m1", "m2"):
        world.send(letter(name))
        world.says("refuse", name)
    assert [e["counted"] for e in world.facts("escalation")] == [1, 2]
    world.dig_up("requeue", "m1", "worker")
    assert open_causes(world) == ["refused"]
    world.dig_up("done", "m2", "worker")
    assert open_causes(world) == []


def test_a_death_is_over_when_a_person_has_removed_its_letters() -> None:
    world = panes()
    world.send(letter("m1"))
    world.says("refuse", "m1")
    world.tell(ev.LetterPurged("m1", "worker"), ev.LetterPurged("m1", "worker"))
    assert (open_causes(world), world.fact("escalation_closed")["how"]) == ([], "over")


def test_one_that_was_down_and_lives_again_is_told_of_anew_when_it_falls_silent_again() -> None:
    world = panes()
    for name in ("m1", "m2"):
        world.send(letter(name))
        world.wait(300)
        assert world.agent("worker").state.value == "down"
        world.tell(ev.SignOfLife("worker", "its pane changed"))
    assert [e["cause"] for e in world.facts("escalation")] == ["silent", "silent"]
    assert (len(world.mail("escalation")), open_causes(world)) == (2, [])
