"""The event that completes a message: which messages are notices, and which rule comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.policy import AgentPolicy, CompletesOn, completes_on, is_notice
from tests.core.engine_world import HANDLER, INBOX, PANE, WATCHED_PANE, World, make_message

if TYPE_CHECKING:
    from ackd.core.message import Message

TASKS = ("task_assignment", "task_completed", "message", "user_goal", "escalation")


@pytest.mark.parametrize("type_", TASKS)
def test_what_an_agent_writes_is_no_notice_unless_its_type_only_informs(type_: str) -> None:
    assert not is_notice(make_message("m", type=type_))
    assert is_notice(replace(make_message("m", type=type_), automatic=True))
    assert is_notice(make_message("m", type="progress_update"))
    assert is_notice(make_message("m", type="notification"))


@pytest.mark.parametrize("type_", ["escalation", "dead_letter", "message"])
def test_mail_of_the_monitor_is_a_notice(type_: str) -> None:
    assert is_notice(make_message("m", sender=MONITOR, type=type_))


@pytest.mark.parametrize("type_", ["board_request", "status_check", "shutdown_request"])
def test_what_the_monitor_asks_for_is_no_notice(type_: str) -> None:
    assert not is_notice(make_message("m", sender=MONITOR, type=type_))


def test_a_rule_for_the_type_comes_before_notices_and_those_before_the_rest() -> None:
    notice, task = make_message("m", type="progress_update"), make_message("m", type="task_completed")
    assert completes_on(notice, AgentPolicy()) is CompletesOn.DONE
    assert completes_on(notice, PANE) is CompletesOn.SEEN
    assert completes_on(task, PANE) is CompletesOn.DONE
    by_type = (("progress_update", CompletesOn.DONE), ("task_completed", CompletesOn.SEEN))
    own = replace(PANE, completes_on_type=by_type)
    assert completes_on(notice, own) is CompletesOn.DONE
    assert completes_on(task, own) is CompletesOn.SEEN
    assert completes_on(task, replace(PANE, completes_on=CompletesOn.SEEN)) is CompletesOn.SEEN


# --- in the life of a message -----------------------------------------------------------------------------------------
def notice(message_id: str, to: str = "worker", sender: str = "leader") -> Message:
    return make_message(message_id, to, sender=sender, type="progress_update")


def sees(world: World, message_id: str) -> None:
    world.tell(ev.Seen(world.delivery(message_id).key, "the pane went busy"))


def test_a_notice_that_was_seen_is_completed_and_the_next_one_is_told() -> None:
    world = World()
    for number in (1, 2, 3):
        world.send(notice(f"n{number}"))
    assert world.told("worker") == ["n1"]
    for number in (1, 2, 3):
        sees(world, f"n{number}")
        done = world.fact("message_completed", f"n{number}")
        assert done["by"] == "seen: the pane went busy"
    assert world.told("worker") == ["n1", "n2", "n3"]
    assert not world.mail("escalation")


def test_a_task_that_was_only_seen_stays_in_its_agents_hands() -> None:
    world = World()
    world.send(make_message("m1", type="task_assignment"))
    sees(world, "m1")
    assert (world.state_of("m1"), world.facts("message_completed")) == ("delivered", [])


@pytest.mark.parametrize("word", ["seen", "ack"])
def test_a_receipt_that_completes_is_kept_until_the_message_is_in_the_archive(word: str) -> None:
    """After a crash in between it is read again, as the receipt of a done is."""
    world = World()
    world.refused = {fx.ArchiveMessage}
    world.send(notice("n1"))
    world.says(word, "n1")
    assert (world.state_of("n1"), len(world.receipts)) == ("finishing", 1)
    world.refused = set()
    world.restart()
    assert (world.folder_of("n1"), world.receipts) == (Folder.ARCHIVE, {})
    assert world.told("worker") == ["n1"]  # not a second time


def test_a_notice_that_was_read_in_the_queue_is_completed_untold() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(notice("n1"))
    world.says("seen", "n1")
    assert (world.folder_of("n1"), world.told("worker")) == (Folder.ARCHIVE, [])


def test_seen_while_it_is_claimed_completes_it_untold_whatever_the_disk_says() -> None:
    for refused in (set(), {fx.ClaimMessage}):
        world = World()
        world.refused = set(refused)
        world.handle(world.arrival(world.drop(notice("n1"))))
        world.handle(ev.ReceiptCame(world.receipt("seen", "n1")))
        assert len(world.receipts) == 1
        world.settle()
        assert (world.folder_of("n1"), world.told("worker"), world.receipts) == (Folder.ARCHIVE, [], {})


def test_a_stronger_word_than_seen_counts_while_it_is_claimed() -> None:
    world = World()
    world.handle(world.arrival(world.drop(notice("n1"))))
    for word in ("seen", "ack", "refuse"):
        world.handle(ev.ReceiptCame(world.receipt(word, "n1")))
    world.settle()
    assert (world.folder_of("n1"), world.receipts) == (Folder.DEAD, {})


def test_a_notice_whose_header_says_that_it_was_seen_is_completed_by_the_next_daemon() -> None:
    """A daemon that did not know the rule noted that it was seen: a pane that was taught nothing would hold it for
    ever."""
    world = World()
    world.team["worker"] = (replace(WATCHED_PANE, notices_complete_on=CompletesOn.DONE), "tmux")
    world.restart()
    world.send(notice("n1"))
    world.wait(1)
    sees(world, "n1")
    assert world.state_of("n1") == "delivered"
    world.team["worker"] = (WATCHED_PANE, "tmux")
    world.restart()
    assert world.fact("message_completed")["by"] == "seen before the restart"


# --- escalations: seen is not answered --------------------------------------------------------------------------------
def led_from_a_pane() -> World:
    return World(
        {"leader": (PANE, "tmux"), "worker": (PANE, "tmux"), USER: (INBOX, "inbox"), MONITOR: (HANDLER, "handler")}
    )


def refuses(world: World, message_id: str) -> None:
    world.send(make_message(message_id, sender="nobody"))
    world.says("refuse", message_id)


def test_an_escalation_that_was_seen_is_open_until_it_is_answered_and_stays_one() -> None:
    world = led_from_a_pane()
    refuses(world, "m1")
    (first,) = world.mail("escalation")
    ident = first.draft.message_id
    sees(world, ident)
    assert world.fact("message_completed", ident)["by"] == "seen: the pane went busy"
    assert [one.told for one in world.engine.state.escalations.all()] == [True]
    refuses(world, "m2")
    assert (len(world.mail("escalation")), world.facts("escalation_closed")) == (1, [])
    world.says("done", ident, "worker")  # it is not for the worker to say
    assert not world.facts("escalation_closed")
    world.says("done", ident, "leader")
    closed = world.fact("escalation_closed")
    assert (closed["by"], closed["how"], closed["counted"]) == ("leader", "answered", 2)
    assert not world.receipts
    refuses(world, "m3")
    assert len(world.mail("escalation")) == 2


def test_a_reply_closes_an_escalation_that_was_seen_and_an_automatic_one_does_not() -> None:
    world = led_from_a_pane()
    refuses(world, "m1")
    (first,) = world.mail("escalation")
    ident = first.draft.message_id
    sees(world, ident)
    reply = make_message("r1", MONITOR, sender="leader", in_reply_to=ident)
    world.send(replace(reply, message_id="r0", automatic=True))
    world.send(replace(reply, message_id="r00", sender="worker"))  # it is not for the worker to say
    assert not world.facts("escalation_closed")
    world.send(reply)
    assert world.fact("escalation_closed")["by"] == "leader"


def test_done_while_the_mail_of_an_escalation_is_put_away_answers_it() -> None:
    world = led_from_a_pane()
    refuses(world, "m1")
    (first,) = world.mail("escalation")
    ident = first.draft.message_id
    world.handle(ev.Seen(world.delivery(ident).key, "the pane went busy"))
    world.says("done", ident, "leader")
    assert (world.fact("escalation_closed")["by"], world.receipts) == ("leader", {})
