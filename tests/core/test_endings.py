"""Ends of messages: commit order, notices, escalations and their closing, dead letters and late completions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.policy import CompletesOn, EnginePolicy
from tests.core.engine_world import HANDLER, TEAM, World, assert_effects, make_message


def refused(world: World, message_id: str, agent: str = "worker", **words: str) -> None:
    world.send(make_message(message_id, agent, **words))  # type: ignore[arg-type]
    world.says("refuse", message_id, agent, "not for me")


# --- death --------------------------------------------------------------------------------------------------------------
def test_the_file_is_moved_only_after_the_escalation_that_quotes_it_is_written() -> None:
    """[IGNITE] The file was removed before the escalation that quotes it, and the leader was
    told "unknown"."""
    world = World()
    world.send(make_message("m1", sender="runner"))
    asked = world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    assert_effects(asked, fx.SendMessage, "escalation", fx.SendMessage, fx.BuryMessage)
    assert {e.lane for e in asked if not isinstance(e, fx.RecordFact)} == {"worker"}
    assert [e.draft.type for e in asked if isinstance(e, fx.SendMessage)] == ["escalation", "dead_letter"]


def test_the_line_of_a_death_comes_only_after_the_move() -> None:
    world = World()
    world.send(make_message("m1", sender="runner"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1", reason="wrong repository")))
    while not isinstance(world.work("worker"), fx.BuryMessage):
        assert world.facts("message_dead") == []
    assert world.facts("message_dead") == []
    world.settle()
    dead = world.fact("message_dead")
    assert (dead["from"], dead["reason"], dead["retry_count"]) == ("runner", "ackd refuse: wrong repository", 0)
    assert world.folder_of("m1") is Folder.DEAD


def test_a_dead_letter_carries_its_reason() -> None:
    world = World()
    refused(world, "m1")
    headers = world.files[world.place_of("m1")].headers
    assert headers["X-IGNITE-Error-Reason"] == "ackd refuse: not for me"
    assert headers["X-IGNITE-Recipient"] == "worker"
    assert "X-IGNITE-Status" not in headers


def test_the_sender_is_told_and_a_sender_that_is_nobody_is_not() -> None:
    world = World()
    refused(world, "m1", sender="runner")
    refused(world, "m2", sender="stranger")
    assert [(e.draft.recipient, e.draft.in_reply_to) for e in world.mail("dead_letter")] == [("runner", "m1")]


def test_a_sender_that_is_also_the_leader_gets_one_mail_that_says_both() -> None:
    world = World()
    refused(world, "m1", sender="leader")
    (mail,) = world.mail("escalation")
    assert (mail.draft.recipient, mail.draft.in_reply_to) == ("leader", "m1")
    assert world.mail("dead_letter") == []
    told = mail.draft.body["dead_letter"]
    assert isinstance(told, dict)
    assert (told["message_id"], told["to"], told["how_to_requeue"]) == ("m1", "worker", "ackd dead requeue m1")


def test_a_death_that_is_counted_into_an_open_escalation_is_told_to_its_sender_by_a_mail_of_its_own() -> None:
    world = World()
    refused(world, "m1", sender="leader")
    refused(world, "m2", sender="leader")
    assert [e.draft.in_reply_to for e in world.mail("escalation")] == ["m1"]
    assert [e.draft.in_reply_to for e in world.mail("dead_letter")] == ["m2"]


def test_a_sender_that_is_not_the_one_who_is_asked_for_help_gets_a_mail_of_its_own() -> None:
    world = World()
    refused(world, "m1", sender="runner")
    (mail,) = world.mail("escalation")
    assert (mail.draft.recipient, mail.draft.in_reply_to) == ("leader", None)
    assert "dead_letter" not in mail.draft.body
    assert [e.draft.recipient for e in world.mail("dead_letter")] == ["runner"]


def test_a_death_that_is_told_of_again_after_a_crash_makes_no_second_mail() -> None:
    """The mail was written and the escalation kept; the daemon died before the file was moved."""
    before = World()
    refused(before, "m1", sender="leader")
    after = World()
    for one in before.engine.state.escalations.all():
        after.engine.state.escalations.open(one)
    refused(after, "m1", sender="leader")
    assert after.folder_of("m1") is Folder.DEAD
    assert after.mail("escalation") == after.mail("dead_letter") == []


def test_a_death_whose_mail_was_not_yet_written_when_ackd_died_has_the_same_mail_again() -> None:
    mails = []
    for _ in range(2):
        world = World()
        refused(world, "m1", sender="leader")
        mails += [e.draft for e in world.mail("escalation")]
    assert mails[0] == mails[1]


def test_a_disk_that_refuses_a_burial_is_asked_again_and_nobody_is_told_twice() -> None:
    world = World()
    world.refused = {fx.BuryMessage}
    refused(world, "m1")
    world.wait(60)
    assert len(world.facts("io_error")) > 5
    assert world.facts("message_dead") == []
    world.refused = set()
    world.wait(5)
    assert (world.folder_of("m1"), len(world.facts("message_dead"))) == (Folder.DEAD, 1)
    assert (len(world.mail("escalation")), len(world.mail("dead_letter"))) == (1, 0)  # the sender is the leader


@pytest.mark.parametrize("why", ["written over", ""], ids=["written over", "deleted"])
def test_what_is_gone_from_the_queue_before_its_burial_was_not_completed(why: str) -> None:
    """The sender was told that it is dead, and may send it once more."""
    world = World()
    world.handle(ev.AgentPaused("worker"))
    world.send(make_message("m1", sender="runner"))
    place, key = world.place_of("m1"), world.delivery("m1").key
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    del world.files[place], world.lanes["worker"]
    world.handle(ev.MoveLost(key, why))
    world.settle()
    assert world.facts("message_completed") == []
    assert world.fact("message_withdrawn")["reason"] == (why or "file deleted from the queue before its agent was told")
    world.handle(ev.AgentResumed("worker"))
    world.send(make_message("m1", sender="runner"))
    assert (world.told("worker"), world.facts("message_duplicate")) == (["m1"], [])


def test_what_its_agent_deletes_from_its_hand_while_it_is_buried_is_completed() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    del world.files[world.place_of("m1")]
    world.settle()
    assert world.fact("message_completed")["by"] == "file deleted by its agent"


def test_two_escalations_in_one_second_do_not_overwrite_each_other() -> None:
    world = World({**TEAM, "other": TEAM["worker"]})
    refused(world, "m1", "worker")
    refused(world, "m2", "other")
    ids = [e.draft.message_id for e in world.mail("escalation")]
    assert len(ids) == len(set(ids)) == 2
    assert len([p for p in world.files if p.box == "leader" and p.name.startswith("escalation")]) == 2


def test_a_second_death_after_a_requeue_is_told_like_the_first() -> None:
    world = World()
    refused(world, "m1")
    world.says("done", world.mail("escalation")[0].draft.message_id, "leader")
    world.wait(1)
    world.dig_up("requeue", "m1", "worker")
    world.says("refuse", "m1")
    ids = [e.draft.message_id for e in world.mail("escalation")]
    assert len(set(ids)) == 2
    assert world.facts("message_duplicate") == []


def test_a_file_that_its_agent_deletes_while_we_dig_its_grave_is_completed() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    del world.files[world.place_of("m1")]
    world.settle()
    assert (world.facts("message_dead"), world.fact("message_completed")["by"]) == ([], "file deleted by its agent")


# --- our own mail -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["dead_letter", "status_check"])
def test_mail_from_the_monitor_never_causes_mail(kind: str) -> None:
    world = World()
    refused(world, "m1", sender=MONITOR, type=kind)
    assert (world.sent, world.facts("escalation")) == ([], [])
    assert world.folder_of("m1") is Folder.DEAD


def test_overdue_mail_from_the_monitor_is_written_down_and_nobody_is_written_to() -> None:
    world = World()
    world.send(make_message("m1", "leader", sender=MONITOR, type="escalation"))
    world.says("ack", "m1", "leader")
    world.wait(4000)
    assert len(world.facts("message_overdue")) == 1
    assert world.sent == []


def test_an_escalation_that_dies_is_passed_on_to_a_person_once() -> None:
    world = World()
    refused(world, "m1", sender="runner")
    (first,) = world.mail("escalation")
    world.says("refuse", first.draft.message_id, "leader")
    passed = world.mail("escalation")[1]
    assert (passed.draft.recipient, passed.draft.body["cause"]) == (USER, "escalation_undelivered")
    world.says("refuse", passed.draft.message_id, USER)
    assert len(world.mail("escalation")) == 2
    assert world.mail("dead_letter")  # of m1 only: to its sender
    assert {e.draft.in_reply_to for e in world.mail("dead_letter")} == {"m1"}


# --- open escalations -----------------------------------------------------------------------------------------------------
def test_one_open_escalation_per_agent_and_cause_and_later_ones_are_counted() -> None:
    world = World()
    for number in range(3):
        refused(world, f"m{number}")
    assert len(world.mail("escalation")) == 1
    assert [e["counted"] for e in world.facts("escalation")] == [1, 2, 3]
    assert len({e["escalation_id"] for e in world.facts("escalation")}) == 1


def test_completing_an_escalation_closes_it_and_the_next_case_opens_another() -> None:
    world = World()
    refused(world, "m1")
    (first,) = world.mail("escalation")
    world.says("done", first.draft.message_id, "leader")
    closed = world.fact("escalation_closed")
    assert (closed["agent"], closed["cause"], closed["by"], closed["how"]) == (
        "worker",
        "refused",
        "leader",
        "completed",
    )
    refused(world, "m2")
    assert len(world.mail("escalation")) == 2


def test_a_reply_to_the_monitor_closes_the_escalation_it_answers() -> None:
    world = World()
    refused(world, "m1")
    (first,) = world.mail("escalation")
    world.send(make_message("r1", MONITOR, sender="leader", in_reply_to=first.draft.message_id))
    closed = world.fact("escalation_closed")
    assert (closed["escalation_id"], closed["by"]) == (first.draft.message_id, "leader")


@pytest.mark.parametrize("shared", ["group", "pool"])
@pytest.mark.parametrize(("by", "closes"), [("runner", True), ("worker", False)])
def test_a_reply_of_any_member_closes_an_escalation_that_went_to_a_group_or_a_pool(
    shared: str, by: str, closes: bool
) -> None:
    members = ("leader", "runner")
    groups = {"crew": members} if shared == "group" else {}
    handed_on = replace(
        HANDLER, completes_on=CompletesOn.SEEN, notices_complete_on=CompletesOn.SEEN
    )  # as a group's mail
    team = {**TEAM, "crew": (handed_on, "handler")} if shared == "group" else TEAM
    pools = {"crew": members} if shared == "pool" else None
    world = World(team, EnginePolicy(escalate_to="crew", groups=groups), pools=pools)
    refused(world, "m1")
    (first,) = world.mail("escalation", "crew")
    world.send(make_message("r1", MONITOR, sender=by, in_reply_to=first.draft.message_id))
    assert bool(world.facts("escalation_closed")) is closes


def test_an_escalation_that_was_removed_unread_is_closed_and_the_next_case_opens_another() -> None:
    world = World()
    world.tell(ev.AgentPaused("leader"), ev.AgentPaused(USER))
    refused(world, "m1")
    (first,) = world.mail("escalation", USER)
    world.deletes(first.draft.message_id)
    assert world.fact("escalation_closed")["how"] == "withdrawn"
    refused(world, "m2")
    assert len(world.mail("escalation")) == 2


# --- completion -----------------------------------------------------------------------------------------------------------
def test_a_completed_message_lies_in_the_archive_and_its_receipt_is_gone() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(10)
    world.says("done", "m1", reason="all green")
    done = world.fact("message_completed")
    assert (done["by"], done["seconds"], done["file"]) == ("ackd done: all green", 10.0, str(world.place_of("m1")))
    assert (world.folder_of("m1"), world.receipts, len(world.engine.state.deliveries)) == (Folder.ARCHIVE, {}, 0)


def test_the_journal_is_told_last() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("done", "m1")
    (forget,) = (e for e in world.done if isinstance(e, fx.ForgetMessage))
    assert (forget.end, forget.place.folder) == ("completed", Folder.ARCHIVE)
    assert [type(e) for e in world.done[-2:]] == [fx.ForgetMessage, fx.DropReceipt]


def test_a_disk_that_refuses_the_archive_is_asked_again_and_the_receipt_is_kept_until_then() -> None:
    world = World()
    world.refused = {fx.ArchiveMessage}
    world.send(make_message("m1"))
    world.says("done", "m1")
    world.wait(20)
    assert len(world.receipts) == 1
    world.refused = set()
    world.wait(5)
    assert (world.folder_of("m1"), world.receipts) == (Folder.ARCHIVE, {})


def test_a_line_never_overtakes_what_went_before_it_in_a_slow_lane() -> None:
    """The ack came before the proof, and the deletion before the lane was through."""
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.work("worker")
    world.deliver()
    world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    place = world.place_of("m1")
    del world.files[place]
    world.handle(ev.Vanished(place))
    world.settle()
    lines = [t for t in world.lines_about("m1") if t.startswith("message_")]
    assert lines == ["message_queued", "message_claimed", "message_acked", "message_completed"]


# --- dead letters ---------------------------------------------------------------------------------------------------------
def test_a_requeued_dead_letter_starts_with_its_counts_reset() -> None:
    world = World()
    world.on_tell["runner"] = lambda order: [ev.NotTold(order.key, "could not start")]
    world.send(make_message("m1", "runner"))
    world.wait(3000)
    assert (world.folder_of("m1"), world.engine.state.totals.dead) == (Folder.DEAD, 1)
    del world.on_tell["runner"]
    world.dig_up("requeue", "m1", "runner")
    assert len(world.facts("message_requeued", "m1")) == 1
    assert (world.state_of("m1"), world.delivery("m1").retries, world.delivery("m1").tells) == ("delivered", 0, 1)
    assert (world.engine.state.totals.dead, world.receipts) == (0, {})


def test_a_requeue_bypasses_the_dedup() -> None:
    world = World()
    refused(world, "m1")
    world.dig_up("requeue", "m1", "worker")
    world.says("done", "m1")
    assert world.facts("message_duplicate") == []
    assert len(world.facts("message_completed", "m1")) == 1


def test_a_late_completion_of_a_dead_letter_counts() -> None:
    world = World()
    refused(world, "m1")
    world.dig_up("done", "m1", "worker")
    assert (world.folder_of("m1"), world.fact("message_completed", "m1")["late"]) == (Folder.ARCHIVE, True)
    assert (world.engine.state.totals.dead, world.engine.state.totals.completed) == (0, 1)


def test_done_while_it_is_buried_is_remembered() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.settle()
    lines = [t for t in world.lines_about("m1") if t in ("message_dead", "message_completed")]
    assert (world.folder_of("m1"), lines, world.receipts) == (Folder.ARCHIVE, ["message_dead", "message_completed"], {})


def test_done_while_it_is_dug_up_is_remembered() -> None:
    world = World()
    refused(world, "m1")
    world.tell(ev.AgentPaused("worker"))
    world.handle(world.arrival(world.place_of("m1")))
    world.handle(ev.ReceiptCame(world.receipt("requeue", "m1")))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.settle()
    assert (world.folder_of("m1"), world.told("worker"), world.receipts) == (Folder.ARCHIVE, ["m1"], {})


def test_a_disk_that_refuses_a_requeue_is_asked_again() -> None:
    world = World()
    refused(world, "m1")
    world.refused = {fx.ReviveMessage}
    world.dig_up("requeue", "m1", "worker")
    assert (world.folder_of("m1"), len(world.receipts)) == (Folder.DEAD, 1)
    world.refused = set()
    world.wait(5)
    assert (world.state_of("m1"), world.receipts) == ("delivered", {})


def test_a_letter_that_is_gone_when_it_is_to_be_dug_up_is_forgotten_quietly() -> None:
    world = World()
    refused(world, "m1")
    world.handle(world.arrival(world.place_of("m1")))
    del world.files[world.place_of("m1")]
    world.says("requeue", "m1")
    assert (len(world.engine.state.deliveries.of_id("m1", "worker")), world.receipts) == (0, {})
    assert len(world.facts("message_dead", "m1")) == 1


def test_a_dead_letter_that_was_only_looked_at_stays_dead() -> None:
    world = World()
    refused(world, "m1")
    world.dig_up("ack", "m1", "worker")
    assert (world.folder_of("m1"), world.engine.state.deliveries.of_id("m1", "worker"), world.receipts) == (
        Folder.DEAD,
        [],
        {},
    )
    assert len(world.done_for(fx.ForgetMessage, "m1")) == 1
