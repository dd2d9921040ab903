"""Messages that expire, are nearly due, or miss their deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import USER
from ackd.core.policy import OnDeadline
from tests.core.engine_world import PANE, START_WALL, TEAM, WATCHED_PANE, World, make_message


def sent(world: World, to: str = "worker", *, expires_s: float | None = None, due_s: float | None = None) -> None:
    expires_at = START_WALL + expires_s if expires_s is not None else None
    deadline_at = START_WALL + due_s if due_s is not None else None
    world.send(make_message("m1", to, expires_at=expires_at, deadline_at=deadline_at))


def away(world: World, agent: str = "worker") -> None:
    world.on_tell[agent] = lambda order: [ev.EndpointAway(order.key, "pane gone")]


# --- expired ------------------------------------------------------------------------------------------------------------
def test_what_waits_when_it_expires_is_dead_and_its_sender_is_told() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    sent(world, expires_s=100)
    world.wait(99)
    assert world.facts("message_dead") == []
    world.wait(2)
    dead = world.fact("message_dead", "m1")
    assert dead["end"] == "expired"
    assert dead["reason"] == "expired at 2027-01-15T08:01:40Z: nobody had it in hand by then, it was queued"
    assert [mail.draft.recipient for mail in world.mail("dead_letter")] == ["leader"]
    assert world.mail("escalation") == [], "its sender set the time: nothing is to be mended"
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == []


def test_a_sender_that_is_nobody_here_leaves_it_to_a_leader() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1", sender="stranger", expires_at=START_WALL + 1))
    world.wait(2)
    assert [mail.draft.recipient for mail in world.mail("escalation")] == ["leader"]


def test_what_its_agent_has_in_hand_does_not_expire_until_it_is_given_back() -> None:
    world = World()
    sent(world, expires_s=30)
    world.wait(40)
    assert world.state_of("m1") == "delivered"
    world.says("defer", "m1")
    world.wait(0)
    assert world.fact("message_dead", "m1")["end"] == "expired"
    assert world.told("worker") == ["m1"]


def test_what_has_expired_is_not_told_though_its_turn_comes_in_the_same_moment() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    sent(world, expires_s=10)
    world._move_clock(world.mono + 20)  # nobody has looked at a timer
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == []
    assert world.fact("message_dead", "m1")["end"] == "expired"


def test_what_expired_while_no_daemon_ran_is_never_told() -> None:
    world = World()
    away(world)
    sent(world, expires_s=100)
    world.on_tell.clear()
    world.restart(away_s=200)
    world.wait(1)
    assert world.fact("message_dead", "m1")["end"] == "expired"
    assert world.told("worker") == ["m1"], "before it expired"


def test_a_clock_that_is_set_while_the_daemon_runs_moves_no_time() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    sent(world, expires_s=100)
    world.wall += 86_400
    world.wait(90)
    assert world.facts("message_dead") == []
    world.wall -= 2 * 86_400
    world.wait(11)
    assert world.fact("message_dead", "m1")["end"] == "expired"


def test_whoever_requeues_it_wants_it_delivered() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    sent(world, expires_s=10)
    world.wait(11)
    world.dig_up("requeue", "m1", "worker")
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1"]
    world.wait(1)
    world.restart(away_s=1)
    assert world.state_of("m1") == "delivered"


# --- deadlines ----------------------------------------------------------------------------------------------------------
def test_an_inbox_is_reminded_once_by_mail_when_most_of_the_time_is_over() -> None:
    world = World()
    sent(world, USER, due_s=1000)
    world.wait(799)
    assert world.facts("deadline_near") == []
    world.wait(2)
    assert world.fact("deadline_near", "m1")["how"] == "by mail"
    (mail,) = world.mail("notification", USER)
    assert mail.draft.in_reply_to == "m1"
    world.restart(away_s=10)
    world.wait(1)
    assert len(world.mail("notification", USER)) == 1, "known by its id"
    assert [fact["how"] for fact in world.facts("deadline_near")] == ["by mail", "by mail, before the restart"]


def test_a_deadline_that_was_past_before_its_message_was_written_is_told_of_once() -> None:
    """The moment to remind of it is the same, and comes after it."""
    world = World()
    sent(world, due_s=-10)
    world.wait(1)
    world.says("ack", "m1")
    world.wait(1)
    assert [d["state"] for d in world.facts("deadline_passed")] == ["delivered"]


def test_a_worker_is_reminded_by_a_status_check_and_a_command_not_at_all() -> None:
    child = replace(WATCHED_PANE, shows=False, heartbeat_timeout_s=10_000, volatile=True)
    world = World(TEAM | {"child": (child, "process")})
    sent(world, "child", due_s=100)
    world.send(make_message("m2", "runner", deadline_at=START_WALL + 100))
    world.wait(81)
    assert world.fact("deadline_near", "m1")["how"] == "by a status check"
    (probe,) = [effect for effect in world.done if isinstance(effect, fx.ProbeAgent)]
    assert probe.text == "Status check: are you still working on m1? It is due at 2027-01-15T08:01:40Z."
    assert str(world.fact("deadline_near", "m2")["how"]).startswith("in no way")


def test_whoever_is_told_near_the_deadline_is_not_reminded_of_it() -> None:
    world = World()
    world.tell(ev.AgentPaused(USER))
    sent(world, USER, due_s=100)
    world.wait(90)
    world.tell(ev.AgentResumed(USER))
    assert world.told(USER) == ["m1"]
    assert world.facts("deadline_near") == []


@pytest.mark.parametrize("state", ["queued", "delivered", "retrying"])
def test_a_missed_deadline_is_told_once_and_that_is_over_when_the_message_is(state: str) -> None:
    world = World()
    if state == "queued":
        world.tell(ev.AgentPaused("runner"))
    elif state == "retrying":
        away(world, "runner")
    sent(world, "runner", due_s=50)
    world.wait(51)
    passed = world.fact("deadline_passed", "m1")
    assert (passed["state"], passed["then"]) == (state, "tell")
    told = [fact for fact in world.facts("escalation") if fact["cause"] == "deadline"]
    assert [(fact["to"], fact["counted"]) for fact in told] == [("leader", 1)]
    world.on_tell.clear()
    world.tell(ev.AgentResumed("runner"))
    world.says("done", "m1", "runner")
    assert [fact["cause"] for fact in world.facts("escalation_closed") if fact["cause"] == "deadline"] == ["deadline"]
    world.restart(away_s=1)
    assert len([fact for fact in world.facts("escalation") if fact["cause"] == "deadline"]) == 1


def test_with_on_deadline_cancel_what_is_in_hand_is_cancelled_and_what_waits_is_dead() -> None:
    strict = replace(PANE, on_deadline=OnDeadline.CANCEL)
    world = World(TEAM | {"worker": (strict, "tmux"), "other": (strict, "tmux")})
    sent(world, due_s=50)
    world.tell(ev.AgentPaused("other"))
    world.send(make_message("m2", "other", deadline_at=START_WALL + 50))
    world.wait(51)
    assert world.fact("message_dead", "m1")["end"] == "cancelled"
    assert world.fact("message_dead", "m2")["end"] == "expired"
    assert {mail.draft.in_reply_to for mail in world.mail("dead_letter", "leader")} == {"m1", "m2"}


def test_open_messages_with_a_time_are_known_and_no_others() -> None:
    world = World()
    sent(world, USER, due_s=50)
    world.send(make_message("m2", USER))
    assert world.engine.state.timed == {world.delivery("m1").key}
    world.says("done", "m1", USER)
    assert world.engine.state.timed == set()
