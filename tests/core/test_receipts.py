"""Receipts: they count once, are kept until what they say is on disk, and are valid in every state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import Folder, Receipt, ReceiptKind
from tests.core.engine_world import PANE, TEAM, World, assert_effects, make_message


def test_an_ack_before_told_came_back_is_an_ack() -> None:
    world = World()
    world.on_tell["worker"] = lambda order: []
    world.send(make_message("m1"))
    world.says("ack", "m1")
    assert world.state_of("m1") == "acked"
    world.tell(ev.Told(world.delivery("m1").key, "typed"))
    assert (world.state_of("m1"), world.lines_about("m1").count("message_told")) == ("acked", 1)
    assert "worker_assign" in world.lines_about("m1")


def test_an_answer_to_a_nudge_is_not_written_down_as_another_telling() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(60)
    world.says("ack", "m1")
    world.tell(ev.Told(world.delivery("m1").key, "nudged"))
    assert len(world.facts("message_told")) == 1


def test_an_ack_while_queued_claims_it_and_it_is_not_told() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.says("ack", "m1")
    assert (world.state_of("m1"), world.folder_of("m1"), world.told("worker")) == ("acked", Folder.PROCESSED, [])
    assert world.files[world.place_of("m1")].headers["X-IGNITE-Status"] == "acked"
    assert world.receipts == {}


def test_done_while_queued_completes_it() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.says("done", "m1")
    assert (world.folder_of("m1"), world.told("worker")) == (Folder.ARCHIVE, [])
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == []


def test_an_ack_while_it_waits_for_its_retry_means_that_it_had_it_after_all() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("defer", "m1")
    world.says("ack", "m1")
    world.wait(1000)
    assert (world.state_of("m1"), world.told("worker")) == ("acked", ["m1"])


def test_an_ack_while_it_stands_in_line_again_takes_it_out_of_the_line() -> None:
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=2), "tmux")})
    world.send(make_message("m1"))
    world.says("defer", "m1")
    world.tell(ev.AgentPaused("worker"))
    world.wait(5)
    world.says("ack", "m1")
    world.tell(ev.AgentResumed("worker"))
    assert (world.state_of("m1"), world.told("worker")) == ("acked", ["m1"])


def test_refused_is_dead_for_good() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("refuse", "m1", reason="wrong repository")
    assert (world.folder_of("m1"), world.fact("message_dead")["retry_count"]) == (Folder.DEAD, 0)


def test_deferred_counts_as_a_failure() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("defer", "m1", reason="tests are red")
    retry = world.fact("message_retry")
    assert (retry["reason"], retry["counted"], retry["retry_count"]) == ("ackd defer: tests are red", True, 1)


def test_defer_before_anyone_was_told_changes_nothing() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.says("defer", "m1")
    assert (world.state_of("m1"), world.facts("message_retry"), world.receipts) == ("queued", [], {})
    assert world.fact("message_warning")["warning"] == "defer: nobody has it in hand, it is queued"


@pytest.mark.parametrize("kind", ["ack", "done", "refuse", "defer", "seen"])
def test_a_receipt_for_a_message_that_is_not_here_is_said_and_dropped(kind: str) -> None:
    world = World()
    asked = world.handle(ev.ReceiptCame(world.receipt(kind, "nowhere")))
    assert_effects(asked, "message_warning", fx.DropReceipt)
    world.says("purge", "nowhere", "nobody")
    world.settle()
    assert world.receipts == {}


def test_a_receipt_is_heard_once_however_often_it_is_noticed() -> None:
    """A stale receipt that the scan reads again before its removal was carried out must not count for the next
    attempt."""
    world = World()
    world.send(make_message("m1"))
    defer = world.receipt("defer", "m1")
    world.tell(ev.ReceiptCame(defer))
    world.wait(5)
    assert world.told("worker") == ["m1", "m1"]
    world.tell(ev.ReceiptCame(defer), ev.ReceiptCame(defer))
    assert (world.delivery("m1").retries, world.state_of("m1")) == (1, "delivered")


def test_done_is_kept_until_the_file_is_archived() -> None:
    world = World()
    world.send(make_message("m1"))
    asked = world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    assert_effects(asked, fx.ArchiveMessage)
    world.work("worker")
    assert len(world.receipts) == 1
    world.settle()
    assert world.receipts == {}


def test_a_receipt_that_could_not_be_dropped_is_dropped_when_it_is_noticed_again() -> None:
    world = World()
    world.send(make_message("m1"))
    ack = world.receipt("ack", "m1")
    world.tell(ev.ReceiptCame(ack))
    assert world.receipts == {}
    world.receipts[ack.name] = ack  # the disk refused
    world.tell(ev.ReceiptCame(ack))
    assert world.receipts == {}
    assert world.lines_about("m1").count("message_acked") == 1


def test_a_receipt_that_is_kept_until_its_move_is_not_dropped_by_a_second_notice() -> None:
    world = World()
    world.send(make_message("m1"))
    done = world.receipt("done", "m1")
    world.handle(ev.ReceiptCame(done))
    assert_effects(world.handle(ev.ReceiptCame(done)))


def test_after_a_crash_a_done_that_was_not_carried_out_is_heard_again() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.restart()
    assert (world.folder_of("m1"), world.told("worker"), world.receipts) == (Folder.ARCHIVE, ["m1"], {})


def test_after_a_crash_a_defer_is_not_counted_twice() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("defer", "m1")))
    while not isinstance(world.work("worker"), fx.WriteStatus):
        pass
    assert len(world.receipts) == 1
    world.restart()
    world.wait(1)
    assert (world.delivery("m1").retries, world.receipts) == (1, {})


def test_a_requeue_of_what_is_not_dead_is_said_and_dropped() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("requeue", "m1")
    assert world.fact("message_warning")["warning"] == "requeue: it is not dead but delivered"
    assert (world.state_of("m1"), world.receipts) == ("delivered", {})


def test_a_receipt_is_a_sign_of_life() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(240)
    assert world.agent("worker").state.value == "down"
    world.send(make_message("m2"))
    world.dig_up("done", "m1", "worker")
    assert (world.agent("worker").state.value, world.told("worker")) == ("busy", ["m1", "m2"])


def test_names_are_one_agent_however_they_are_spelled() -> None:
    world = World({**TEAM, "ignitian_1": (PANE, "tmux")})
    world.send(make_message("m1", "ignitian_1"))
    world.says("ack", "m1", "ignitian-1")
    assert world.state_of("m1") == "acked"


def test_another_word_under_the_same_name_is_heard_and_only_what_was_heard_is_dropped() -> None:
    """A foreign agent writes all its receipts as <id>.json, whatever they say."""
    world = World()
    world.send(make_message("m1"))
    ack = Receipt(ReceiptKind.ACK, "m1", "worker", "m1.json", which=(7, 1, 50, 1))
    done = Receipt(ReceiptKind.DONE, "m1", "worker", "m1.json", which=(8, 2, 51, 2))
    world.receipts["m1.json"] = done  # renamed over the first when that had been read
    world.tell(ev.ReceiptCame(ack))
    assert (world.state_of("m1"), world.receipts) == ("acked", {"m1.json": done})
    world.tell(ev.ReceiptCame(done), ev.ReceiptCame(done))
    assert (world.folder_of("m1"), world.receipts) == (Folder.ARCHIVE, {})


# --- cancelled ----------------------------------------------------------------------------------------------------------
def test_what_waits_is_withdrawn_into_the_archive_and_its_sender_hears_of_it_if_another_wished_so() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.send(make_message("m2"))
    world.cancels("m1", reason="no need")
    world.cancels("m2", by="user")
    assert world.fact("message_withdrawn", "m1")["reason"] == "cancelled by leader: no need"
    place = world.place_of("m1")
    assert (place.folder, world.files[place].headers["X-ACKD-Ended"]) == (Folder.ARCHIVE, "withdrawn")
    assert [mail.draft.in_reply_to for mail in world.mail("notification", "leader")] == ["m2"]
    assert world.mail("escalation") == []
    assert world.receipts == {}


def test_what_is_in_hand_is_called_off_and_then_dead_without_an_escalation() -> None:
    world = World()
    world.send(make_message("m1"))
    world.cancels("m1", reason="no need")
    assert [one.why for one in world.done_for(fx.CallOff, "m1") if isinstance(one, fx.CallOff)] == [
        "cancelled by leader: no need"
    ]
    dead = world.fact("message_dead", "m1")
    assert (dead["end"], dead["reason"]) == ("cancelled", "cancelled by leader: no need")
    assert world.files[world.place_of("m1")].headers["X-ACKD-Ended"] == "cancelled"
    assert [mail.draft.recipient for mail in world.mail("dead_letter")] == ["leader"]
    assert world.mail("escalation") == []
    assert world.facts("message_retry") == []
    assert world.receipts == {}


@pytest.mark.parametrize("outcome", [one for one in ev.Outcome if one is not ev.Outcome.DONE])
def test_however_its_run_ends_it_is_cancelled_and_never_retried(outcome: ev.Outcome) -> None:
    world = World()
    world.on_call_off["runner"] = lambda _order: []
    world.send(make_message("m1", "runner"))
    world.cancels("m1", "runner")
    assert world.state_of("m1") == "cancelling"
    world.ends("m1", outcome, "exit 143")
    assert world.fact("message_let_go", "m1")["how"] == "exit 143"
    assert world.fact("message_dead", "m1")["end"] == "cancelled"
    world.wait(4000)
    assert world.told("runner") == ["m1"]


def test_a_completion_before_the_move_counts() -> None:
    world = World()
    world.on_call_off["runner"] = lambda _order: []
    world.send(make_message("m1", "runner"))
    world.cancels("m1", "runner")
    world.ends("m1", ev.Outcome.DONE, "exit 0")
    assert world.fact("message_completed", "m1")["by"] == "exit 0"
    assert world.facts("message_dead") == []
    assert world.receipts == {}


def test_a_completion_after_the_move_is_a_line_and_a_person_may_requeue_it() -> None:
    world = World()
    world.send(make_message("m1"))
    world.cancels("m1")
    world.dig_up("done", "m1", "worker")
    assert world.fact("message_late", "m1")["by"] == "ackd done"
    assert world.facts("message_completed") == []
    world.dig_up("requeue", "m1", "worker")
    world.says("done", "m1")
    world.fact("message_completed", "m1")


def test_an_agent_that_never_answers_has_its_time_and_no_more() -> None:
    world = World()
    world.on_call_off["worker"] = lambda _order: []
    world.send(make_message("m1"))
    world.send(make_message("m2"))
    world.cancels("m1")
    assert world.told("worker") == ["m1"], "its window is full until it has let go"
    world.wait(61)
    assert world.fact("message_let_go", "m1")["how"] == "not proven within 60 s"
    assert world.told("worker") == ["m1", "m2"]


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_cancelled_as_it_is_claimed_is_withdrawn_and_its_agent_hears_nothing_of_it(*, refused: bool) -> None:
    world = World()
    world.refused = {fx.ClaimMessage} if refused else set()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    assert world.state_of("m1") == "claiming"
    world.cancels("m1", reason="no need")
    assert world.fact("message_withdrawn", "m1")["reason"] == "cancelled by leader: no need"
    assert world.told("worker") == []
    assert world.facts("message_let_go") == []
    assert world.place_of("m1").folder is Folder.ARCHIVE
    assert world.receipts == {}


def test_what_its_agent_has_acknowledged_as_it_was_claimed_is_called_off() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    world.cancels("m1")
    assert world.fact("message_dead", "m1")["end"] == "cancelled"


def test_an_inbox_is_told_by_mail() -> None:
    world = World()
    world.send(make_message("m1", "user"))
    world.cancels("m1", "user")
    assert [mail.draft.in_reply_to for mail in world.mail("notification", "user")] == ["m1"]


@pytest.mark.parametrize("by", ["worker", "stranger"])
def test_only_its_sender_and_a_person_may_cancel_it_or_whoever_cancels_what_it_came_of(by: str) -> None:
    world = World()
    world.send(make_message("m1"))
    world.cancels("m1", by=by)
    assert world.state_of("m1") == "delivered"
    assert str(world.fact("message_warning", "m1")["warning"]).startswith(f"cancel by {by}, who is neither")
    receipt = replace(world.receipt("cancel", "m1"), by=by, of="m0")
    world.tell(ev.ReceiptCame(receipt))
    assert world.fact("message_dead", "m1")["reason"] == f"cancelled by {by} with m0"


@pytest.mark.parametrize(
    "more",
    [{"type": "task_completed"}, {"type": "escalation"}, {"automatic": True}, {"sender": "queue_monitor"}],
)
@pytest.mark.parametrize("by", ["leader", "user", "queue_monitor"])
def test_what_is_nobodys_work_is_not_cancelled_with_what_it_came_of(more: dict[str, Any], by: str) -> None:
    world = World()
    world.send(replace(make_message("m1", "user"), **more))
    before = world.state_of("m1")
    world.tell(ev.ReceiptCame(replace(world.receipt("cancel", "m1", "user"), by=by, of="m0")))
    assert (world.state_of("m1"), world.receipts) == (before, {})
    assert str(world.fact("message_warning", "m1")["warning"]).startswith("cancel with m0: it is nobody's work")


def test_a_crash_before_the_end_is_on_disk_cancels_it_again_and_tells_nobody_twice() -> None:
    world = World()
    world.on_call_off["worker"] = lambda _order: []
    world.send(make_message("m1"))
    world.cancels("m1")
    world.on_call_off.clear()
    world.restart()
    world.wait(1)
    assert world.fact("message_dead", "m1")["end"] == "cancelled"
    assert world.told("worker") == ["m1"]
    assert world.receipts == {}


def test_what_is_cancelled_while_everything_from_before_is_met_is_called_off_when_that_is_over() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(1)
    place = world.place_of("m1")
    world.lanes.clear()
    world._engine()
    world.handle(world.arrival(place, recovered=True))
    asked = world.handle(ev.ReceiptCame(replace(world.receipt("cancel", "m1"), by="leader")))
    assert not [effect for effect in asked if isinstance(effect, fx.CallOff)], "its run may not be known yet"
    asked = world.handle(ev.RecoveryEnded())
    assert [effect for effect in asked if isinstance(effect, fx.CallOff)]


def test_a_second_copy_that_comes_while_the_first_is_being_cancelled_is_a_duplicate() -> None:
    world = World()
    world.on_call_off["worker"] = lambda _order: []
    world.send(make_message("m1"))
    world.cancels("m1")
    world.tell(world.arrival(world.drop(make_message("m1"))))
    world.fact("message_duplicate", "m1")
    assert world.told("worker") == ["m1"]
