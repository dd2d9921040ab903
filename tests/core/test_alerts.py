"""The readers of escalations, and the events that end an escalation."""

from __future__ import annotations

import pytest

from ackd.core import events as ev
from ackd.core.escalations import OpenEscalation
from ackd.core.message import MONITOR, USER
from ackd.core.policy import AgentPolicy, EnginePolicy
from tests.core.engine_world import TEAM, WATCHED_PANE, World, make_message


# --- who is told ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("event", [ev.AgentPaused("leader"), None])
def test_escalations_go_to_the_leader_or_if_nobody_answers_there_to_a_person(event: ev.Event | None) -> None:
    world = World()
    if event is not None:
        world.tell(event)
    world.send(make_message("m1"))
    world.says("refuse", "m1")
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER if event else "leader"]


def test_an_escalation_to_one_who_left_the_team_keeps_nobody_from_hearing_of_the_next_case() -> None:
    world = World()
    world.engine.state.escalations.open(OpenEscalation("e@x", "worker", "refused", "boss", world.wall, told=True))
    world.send(make_message("m1"))
    world.says("refuse", "m1", reason="not mine")
    assert [one.draft.recipient for one in world.mail("escalation")] == ["leader"]
    assert world.fact("escalation_closed")["escalation_id"] == "e@x"


def test_what_is_wrong_with_the_leader_is_told_to_a_person() -> None:
    world = World()
    world.send(make_message("m1", "leader", sender="worker"))
    world.says("refuse", "m1", "leader")
    assert [e.draft.recipient for e in world.mail("escalation")] == [USER]


@pytest.mark.parametrize(
    ("paused", "expected"),
    [((), "crew"), (("leader",), "crew"), (("leader", "evaluator"), USER)],
    ids=["all there", "one there", "nobody there"],
)
def test_escalations_go_to_a_group_of_whom_somebody_answers_besides_the_one_it_is_about(
    paused: tuple[str, ...], expected: str
) -> None:
    group = (AgentPolicy(unwatched=True), "handler")
    members = ("leader", "worker", "evaluator")
    world = World(
        {**TEAM, "evaluator": TEAM["leader"], "crew": group}, EnginePolicy(escalate_to="crew", groups={"crew": members})
    )
    for name in paused:
        world.tell(ev.AgentPaused(name))
    world.send(make_message("m1"))
    world.says("refuse", "m1")
    assert [one.draft.recipient for one in world.mail("escalation")] == [expected]


# --- what ends an escalation ------------------------------------------------------------------------------------------
def panes() -> World:
    return World({**TEAM, "worker": (WATCHED_PANE, "tmux")})


def asks(world: World, what: str, until: float | None = None) -> None:
    world.tell(ev.AgentStuck("worker", f"a permission prompt waits for a person: {what}", until))


def open_causes(world: World) -> list[str]:
    return sorted(one.cause for one in world.engine.state.escalations.all())


def test_a_stuck_escalation_closes_by_itself_when_the_agent_goes_on_and_a_new_prompt_is_a_new_one() -> None:
    world = panes()
    world.send(make_message("m1"))
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
    world.send(make_message("m1"))
    world.wait(1000)  # tried again now and then
    assert (len(world.mail("escalation")), world.agent("worker").reason) == (1, "still a limit")


def test_a_prompt_of_an_agent_that_was_away_is_told_of_too() -> None:
    """Someone opens the pane again, and it asks whether the folder is trusted: that is another thing than its
    absence."""
    world = panes()
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "pane gone")]
    world.send(make_message("m1"))
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
    world.send(make_message("m1"))
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "a shell is there", attempt=order.attempt)]
    world.wait(6)
    assert world.agent("worker").reason == "a shell is there"


def test_what_was_said_of_a_message_is_over_when_it_has_ended() -> None:
    world = panes()
    world.send(make_message("m1"))
    world.says("ack", "m1")
    world.tell(ev.WorkBlocked(world.delivery("m1").key, "no schema", None))
    assert open_causes(world) == ["blocked"]
    world.says("done", "m1")
    assert (open_causes(world), world.fact("escalation_closed")["why"]) == ([], "m1 is completed")


def test_a_death_is_over_when_all_its_letters_live_again() -> None:
    world = panes()
    for name in ("m1", "m2"):
        world.send(make_message(name))
        world.says("refuse", name)
    assert [e["counted"] for e in world.facts("escalation")] == [1, 2]
    world.dig_up("requeue", "m1", "worker")
    assert open_causes(world) == ["refused"]
    world.dig_up("done", "m2", "worker")
    assert open_causes(world) == []


def test_a_death_is_over_when_a_person_has_removed_its_letters() -> None:
    world = panes()
    world.send(make_message("m1"))
    world.says("refuse", "m1")
    world.tell(ev.LetterPurged("m1", "worker"), ev.LetterPurged("m1", "worker"))
    assert (open_causes(world), world.fact("escalation_closed")["how"]) == ([], "over")


def test_one_that_was_down_and_lives_again_is_told_of_anew_when_it_falls_silent_again() -> None:
    world = panes()
    for name in ("m1", "m2"):
        world.send(make_message(name))
        world.wait(300)
        assert world.agent("worker").state.value == "down"
        world.tell(ev.SignOfLife("worker", "its pane changed"))
    assert [e["cause"] for e in world.facts("escalation")] == ["silent", "silent"]
    assert (len(world.mail("escalation")), open_causes(world)) == (2, [])
