"""Silent agents, which are woken rung by rung, and working agents, which are left in peace."""

from __future__ import annotations

from dataclasses import replace

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import Folder
from tests.core.engine_world import PANE, TEAM, World, make_message


def nudges(world: World) -> list[tuple[object, object]]:
    return [(d["message_id"], d["rung"]) for d in world.facts("nudge")]


# --- the ladder -------------------------------------------------------------------------------------------------------
def test_a_silent_agent_climbs_three_rungs_a_minute_apart_and_is_dead_after_four() -> None:
    """Ensemble's three phases are four waits."""
    world = World()
    world.send(make_message("m1"))
    for rung, second in ((1, 60), (2, 120), (3, 180)):
        world.wait(59.9)
        assert len(nudges(world)) == rung - 1, second
        world.wait(0.1)
        assert nudges(world)[-1] == ("m1", rung)
    world.wait(59.9)
    assert world.state_of("m1") == "delivered"
    world.wait(0.1)
    assert (world.folder_of("m1"), world.agent("worker").state.value) == (Folder.DEAD, "down")
    reason = world.fact("message_dead")["reason"]
    assert reason == "silent: told once and woken 3 times without an answer in 240 s"


def test_an_agent_that_fell_silent_is_one_escalation_and_its_other_mail_waits_for_a_sign_of_life() -> None:
    """[agent-message-queue #427] A waker that died left 27 messages in silence."""
    world = World()
    for number in range(51):
        world.send(make_message(f"m{number}"))
    world.wait(50_000)
    assert len(world.mail("escalation")) == len(world.facts("escalation")) == 1
    waiting = [place for place in world.files if place.box == "worker" and place.folder is Folder.QUEUE]
    assert (len(waiting), world.told("worker")) == (50, ["m0"])
    world.tell(ev.SignOfLife("worker", "the pane changed"))
    assert world.told("worker") == ["m0", "m1"]
    for number in range(1, 51):
        world.says("done", f"m{number}")
    assert len(world.facts("message_completed")) == 50


def test_the_story_of_the_attempts_is_in_the_escalation() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(240)
    (sent,) = world.mail("escalation")
    told = sent.draft.body["what_happened"]
    assert isinstance(told, list)
    assert [str(one["what"]).partition(":")[0] for one in told] == ["silent for 60 s"] * 3 + ["silent"]


def test_a_sign_of_life_puts_off_the_next_rung_and_silence_goes_on_from_there() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(130)
    world.tell(ev.SignOfLife("worker", "CPU time"))
    world.wait(59)
    assert nudges(world) == [("m1", 1), ("m1", 2)]
    world.wait(2)
    assert nudges(world) == [("m1", 1), ("m1", 2), ("m1", 3)]


def test_one_that_answers_every_nudge_and_takes_nothing_is_not_woken_for_ever() -> None:
    """[munder-difflin #358] 243 repeats of one nudge. A word at each interrupt is not the work."""
    world = World()
    world.send(make_message("m1"))
    for _ in range(3):
        world.wait(60)
        world.tell(ev.SignOfLife("worker", "its pane changed"))
    world.wait(60)
    assert nudges(world) == [("m1", 1), ("m1", 2), ("m1", 3)]
    assert (world.folder_of("m1"), world.agent("worker").state.value) == (Folder.DEAD, "down")


def test_a_ladder_that_ended_with_its_message_taken_is_free_for_the_next() -> None:
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=2), "tmux")})
    world.send(make_message("m0"))
    world.wait(70)
    world.tell(ev.Seen(world.delivery("m0").key, "the pane went busy"))
    world.send(make_message("m1"))
    world.wait(61)
    assert nudges(world) == [("m0", 1), ("m1", 1)]


def test_seen_ends_it_for_good() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(70)
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"))
    world.wait(100_000)
    assert (nudges(world), world.state_of("m1")) == ([("m1", 1)], "delivered")


def test_one_that_goes_to_work_on_a_nudge_has_seen_it() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(121)
    world.tell(ev.Told(world.delivery("m1").key, "the pane went busy", seen=True, attempt=1))
    world.wait(100_000)
    assert (nudges(world), world.state_of("m1")) == ([("m1", 1), ("m1", 2)], "delivered")
    assert world.fact("message_seen")["evidence"] == "the pane went busy"


def test_there_is_never_more_than_one_ladder_per_agent() -> None:
    """[munder-difflin #358; agent-message-queue #426] 243 repeats of one nudge; a doorbell that flooded the agent's queue."""
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=3), "tmux")})
    for number in range(3):
        world.send(make_message(f"m{number}"))
    world.wait(239)
    assert nudges(world) == [("m0", 1), ("m0", 2), ("m0", 3)]


def test_what_else_a_down_agent_has_in_hand_waits_too() -> None:
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=2), "tmux")})
    world.send(make_message("m0"))
    world.send(make_message("m1"))
    world.wait(50_000)
    assert (world.folder_of("m0"), world.state_of("m1")) == (Folder.DEAD, "delivered")
    assert len(world.facts("escalation")) == 1


def test_a_message_that_fails_gives_the_ladder_back() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(180)
    world.tell(ev.RunEnded(world.delivery("m1").key, ev.Outcome.FAILED, "child died"))
    world.wait(5 + 60)
    assert nudges(world) == [("m1", 1), ("m1", 2), ("m1", 3), ("m1", 1)]


def test_an_agent_that_holds_acked_work_is_not_interrupted_for_another_message() -> None:
    """[gastown #2362] An interrupt aborted a running tool."""
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=2), "tmux")})
    world.send(make_message("m0"))
    world.says("ack", "m0")
    world.send(make_message("m1"))
    world.wait(1000)
    assert nudges(world) == [("m1", 1)]
    assert (world.facts("escalation"), [e["cause"] for e in world.facts("notice")]) == ([], ["busy"])


def test_an_agent_that_lives_and_does_not_take_it_is_told_about_once_after_15_minutes() -> None:
    world = World()
    world.send(make_message("m1"))
    for _ in range(100):
        world.tell(ev.SignOfLife("worker", "the pane changed"))
        world.wait(30)
    assert nudges(world) == []
    assert (world.facts("escalation"), [e["cause"] for e in world.facts("notice")]) == ([], ["busy"])
    assert world.fact("message_overdue")["seconds"] == 900


def test_a_policy_without_rungs_has_no_ladder_even_if_a_clock_was_running() -> None:
    world = World()
    world.send(make_message("m1"))
    world.tell(ev.AgentJoined("worker", replace(PANE, rungs=None), "inbox"))
    world.wait(10_000)
    assert (nudges(world), world.state_of("m1")) == ([], "delivered")


def test_an_agents_own_ladder_says_what_each_rung_does() -> None:
    world = World({**TEAM, "worker": (replace(PANE, rungs=2, ladder=(1, 3)), "tmux")})
    world.send(make_message("m1"))
    world.wait(179)
    done = [effect.rung for effect in world.done if isinstance(effect, fx.NudgeAgent)]
    assert (nudges(world), done) == ([("m1", 1), ("m1", 2)], [1, 3])
    world.wait(1)
    assert world.folder_of("m1") is Folder.DEAD


# --- by hand ----------------------------------------------------------------------------------------------------------
def test_a_person_may_nudge_at_any_time_and_the_ladder_stays_where_it_is() -> None:
    world = World()
    world.send(make_message("m1"))
    world.tell(ev.NudgeAsked("worker"))
    (nudge,) = world.facts("nudge")
    assert (nudge["rung"], nudge["by"], world.agent("worker").ladder) == (0, "hand", None)


def test_there_is_nothing_to_nudge_about_without_a_message_or_a_ladder() -> None:
    world = World()
    world.tell(ev.NudgeAsked("worker"), ev.NudgeAsked("runner"))
    answers = [d["answer"] for d in world.facts("agent_request")]
    assert answers == ["not nudged: it has no message in hand", "not nudged: its endpoint has no ladder"]
    assert not [effect for effect in world.done if isinstance(effect, fx.NudgeAgent)]
