"""Timers that are due: unread mail, handlers that do not return, and timers that are due together."""

from __future__ import annotations

from dataclasses import replace

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import USER
from tests.core.engine_world import HANDLER, INBOX, PANE, TEAM, World, make_message


def test_two_timers_that_are_due_together_do_not_contradict_each_other() -> None:
    """The machine slept: the status was never written, and the ladder is at its end."""
    world = World({**TEAM, "worker": (replace(PANE, rungs=0, ack_timeout_s=0.04), "tmux")})
    world.send(make_message("m1"))
    world.mono += 100
    asked = world.handle(ev.Ticked())
    assert not [e for e in asked if isinstance(e, fx.WriteStatus)]


def test_a_handler_that_does_not_return_is_said_once() -> None:
    world = World({**TEAM, "worker": (HANDLER, "handler")})
    world.on_tell["worker"] = lambda order: [ev.Told(order.key, "handler called", seen=True, attempt=order.attempt)]
    world.send(make_message("m1"))
    world.wait(1799)
    assert world.facts("message_overdue") == []
    world.wait(10_000)
    assert world.fact("message_overdue")["message_id"] == "m1"
    assert [e["cause"] for e in world.facts("escalation")] == ["overdue"]
    assert "was called with 1 message 1800 s ago" in str(world.sent[0])
    assert world.state_of("m1") == "delivered"


def test_of_one_that_returned_or_failed_nothing_is_said() -> None:
    world = World({**TEAM, "worker": (HANDLER, "handler")})
    ends = {"m1": ev.Outcome.DONE, "m2": ev.Outcome.FAILED}
    told: dict[str, int] = {}

    def called(order: fx.TellAgent) -> list[ev.Event]:
        told[order.message.message_id] = order.key
        return [ev.Told(order.key, "handler called", seen=True, attempt=order.attempt)]

    world.on_tell["worker"] = called
    for message_id, outcome in ends.items():
        world.send(make_message(message_id))
        world.wait(1000)
        world.tell(ev.RunEnded(told[message_id], outcome, "so"))
    world.wait(1700)
    assert world.facts("message_overdue") == []


# --- unread mail ------------------------------------------------------------------------------------------------------
def test_unread_mail_is_one_reminder_per_person() -> None:
    world = World()
    for number in range(100):
        world.send(make_message(f"m{number}", USER))
    world.wait(899)
    assert world.facts("reminder") == []
    world.wait(100_000)
    assert world.fact("reminder")["agent"] == USER
    assert len([e for e in world.done if isinstance(e, fx.RemindPerson)]) == 1


def test_after_the_person_has_looked_new_mail_is_reminded_of_again() -> None:
    world = World()
    world.send(make_message("m1", USER))
    world.wait(1000)
    world.says("seen", "m1", USER)
    world.send(make_message("m2", USER))
    world.wait(1000)
    assert [d["message_id"] for d in world.facts("reminder")] == ["m1", "m2"]


def test_whoever_looks_and_leaves_one_unread_is_reminded_of_that_one() -> None:
    world = World()
    world.send(make_message("m1", USER))
    world.send(make_message("m2", USER))
    world.wait(1000)
    world.says("seen", "m1", USER)
    world.wait(10_000)
    assert [d["message_id"] for d in world.facts("reminder")] == ["m1", "m2"]


def test_mail_that_was_read_is_not_reminded_of() -> None:
    world = World()
    world.send(make_message("m1", USER))
    world.says("seen", "m1", USER)
    world.wait(10_000)
    assert world.facts("reminder") == []


def test_a_restart_does_not_forget_to_remind() -> None:
    world = World({**TEAM, USER: (INBOX, "inbox")})
    world.send(make_message("m1", USER))
    world.wait(1)
    world.restart(away_s=800)
    world.wait(98)
    assert world.facts("reminder") == []
    world.wait(5)
    assert len(world.facts("reminder")) == 1
