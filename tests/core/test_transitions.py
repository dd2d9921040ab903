"""Effects and lines of each act of the delivery table."""

from __future__ import annotations

from collections import deque

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core import transitions
from ackd.core.delivery import TABLE, Act, Happening, State
from ackd.core.errors import ImpossibleEvent
from ackd.core.message import Folder, ReceiptFile
from tests.core.engine_world import TEAM, World, assert_effects, make_message


def world_in(state: State, **words: str) -> World:
    """Return a world whose message m1 is in that state, with nothing under way but its move."""
    world = World()
    match state:
        case State.QUEUED:
            world.tell(ev.AgentPaused("worker"))
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
        case State.CLAIMING:
            world.handle(world.arrival(world.drop(make_message("m1", **words))))  # type: ignore[arg-type]
            world.lanes.clear()
        case State.PROCESSING:
            world.on_tell["worker"] = lambda order: []
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
        case State.DELIVERED:
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
            world.wait(0.05)
        case State.ACKED:
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
            world.says("ack", "m1")
        case State.RETRYING:
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
            world.says("defer", "m1")
        case State.FINISHING | State.BURYING:
            world.send(make_message("m1", **words))  # type: ignore[arg-type]
            world.handle(ev.ReceiptCame(world.receipt("done" if state is State.FINISHING else "refuse", "m1")))
            world.lanes.clear()
        case _:
            raise AssertionError(state)
    assert world.state_of("m1") == state.value
    return world


def key(world: World) -> int:
    return world.delivery("m1").key


# --- each act ---------------------------------------------------------------------------------------------------------
def test_claim_asks_for_the_move_and_says_nothing_yet() -> None:
    world = World()
    asked = world.handle(world.arrival(world.drop(make_message("m1"))))
    assert_effects(asked, "message_queued", fx.ClaimMessage)


def test_tell_says_that_it_is_claimed_and_hands_it_over() -> None:
    world = world_in(State.CLAIMING)
    place = world.place_of("m1")
    asked = world.handle(ev.Claimed(key(world), place))
    assert_effects(asked, "message_claimed", fx.TellAgent)
    (order,) = (e for e in asked if isinstance(e, fx.TellAgent))
    assert (order.lane, order.attempt, order.crashes, order.place) == ("worker", 1, 0, place)


def test_await_says_what_was_proven_and_writes_no_status_yet() -> None:
    world = world_in(State.PROCESSING)
    asked = world.handle(ev.Told(key(world), "typed and read back"))
    assert_effects(asked, "message_told", "worker_assign")
    assert world.fact("message_told")["proof"] == "typed and read back"


def test_a_status_is_written_once_it_has_lasted_50_ms() -> None:
    world = world_in(State.PROCESSING)
    world.tell(ev.Told(key(world), "typed"))
    world.wait(0.049)
    assert world.files[world.place_of("m1")].headers == {}
    world.wait(0.001)
    assert world.files[world.place_of("m1")].headers["X-IGNITE-Status"] == "delivered"


def test_a_handler_that_is_through_at_once_costs_no_rewrite() -> None:
    world = World()
    world.send(make_message("m1", "queue_monitor"))
    world.wait(1000)
    assert not [e for e in world.done if isinstance(e, fx.WriteStatus)]
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_start_says_so_before_it_writes_the_status_and_drops_the_receipt_after_both() -> None:
    """After a crash in between the receipt is read again: the line is there twice rather than never."""
    world = world_in(State.DELIVERED)
    asked = world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    assert_effects(asked, "message_acked", fx.WriteStatus, fx.DropReceipt)


def test_retry_drops_old_acks_then_writes_the_status_then_the_line_then_drops_what_asked_for_it() -> None:
    """A stale ACK must not answer for the next telling after a crash in between."""
    world = world_in(State.DELIVERED)
    world.delivery("m1").receipts.append(ReceiptFile("ack_old.json"))
    asked = world.handle(ev.ReceiptCame(world.receipt("defer", "m1")))
    assert_effects(asked, fx.DropReceipt, fx.WriteStatus, "message_retry", fx.DropReceipt)
    names = [e.name for e in asked if isinstance(e, fx.DropReceipt)]
    assert names[0] == "ack_old.json"
    assert names[1].startswith("defer_")


@pytest.mark.parametrize("kind", ["ack", "defer"])
def test_a_status_names_the_receipt_that_it_comes_from(kind: str) -> None:
    """The receipt stays as long as the disk refuses the status."""
    world = world_in(State.DELIVERED)
    receipt = world.receipt(kind, "m1")
    asked = world.handle(ev.ReceiptCame(receipt))
    assert [e.because_of for e in asked if isinstance(e, fx.WriteStatus)] == [(receipt.receipt_file,)]


def test_the_count_is_written_with_every_status_after_a_retry() -> None:
    world = world_in(State.DELIVERED)
    world.delivery("m1").retries = 2
    asked = world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    (words,) = [dict(e.headers) for e in asked if isinstance(e, fx.WriteStatus)]
    assert (words["X-IGNITE-Status"], words["X-IGNITE-Retry-Count"]) == ("acked", "2")


def test_postpone_by_our_own_stop_is_uncounted_and_due_at_once() -> None:
    world = world_in(State.ACKED)
    world.handle(ev.StopRequested())
    asked = world.handle(ev.RunEnded(key(world), ev.Outcome.STOPPED, "daemon stopped"))
    assert_effects(asked, "worker_release", fx.WriteStatus, "message_retry")
    data = world.engine.state.effects[-1]
    assert isinstance(data, fx.RecordFact)
    assert (data.data["counted"], data.data["retry_count"], data.data["delay_s"]) == (False, 0, 0)


def test_finish_asks_for_the_move_and_says_nothing_yet() -> None:
    world = world_in(State.ACKED)
    assert_effects(world.handle(ev.ReceiptCame(world.receipt("done", "m1"))), fx.ArchiveMessage)
    assert world.facts("message_completed") == []


def test_again_asks_for_the_same_move_after_five_seconds() -> None:
    world = world_in(State.FINISHING)
    world.tell(ev.SpoolFailed(key(world), "Read-only file system"))
    assert world.state_of("m1") == "finishing"
    world.wait(4.9)
    assert world.folder_of("m1") is Folder.PROCESSED
    world.wait(0.1)
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_warn_tells_someone_once_and_retries_nothing() -> None:
    world = world_in(State.ACKED)
    world.wait(1799)
    assert world.facts("message_overdue") == []
    world.wait(10_000)
    assert world.fact("message_overdue")["seconds"] == 1800
    assert [e["cause"] for e in world.facts("escalation")] == ["overdue"]
    assert (world.state_of("m1"), world.told("worker")) == ("acked", ["m1"])


def test_note_seen_starts_a_task_and_stops_the_ack_clock() -> None:
    world = world_in(State.DELIVERED, type="task_assignment")
    world.tell(ev.Seen(key(world), "opened"))
    assert world.fact("message_seen")["evidence"] == "opened"
    assert len(world.facts("task_start", "m1")) == 1
    world.wait(100_000)
    assert world.facts("nudge") == []


def test_seen_is_written_down_once_however_often_it_is_heard() -> None:
    world = world_in(State.DELIVERED)
    for evidence in ("opened", "pane busy", "opened"):
        world.tell(ev.Seen(key(world), evidence))
    assert len(world.facts("message_seen")) == 1


# --- what comes while a move is under way -------------------------------------------------------------------------------
def test_seen_while_it_is_claimed_is_noted_and_it_is_told_all_the_same() -> None:
    world = world_in(State.CLAIMING)
    world.lanes["worker"] = deque([fx.ClaimMessage("worker", key(world), make_message("m1"), world.place_of("m1"))])
    world.handle(ev.ReceiptCame(world.receipt("seen", "m1")))
    world.settle()
    assert world.told("worker") == ["m1"]


@pytest.mark.parametrize("second", ["seen", "ack", "refuse"])
def test_done_while_it_is_claimed_is_not_overwritten_by_a_later_word(second: str) -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.handle(ev.ReceiptCame(world.receipt(second, "m1")))
    world.settle()
    assert (world.folder_of("m1"), world.told("worker")) == (Folder.ARCHIVE, [])
    assert world.receipts == {}


def test_ack_then_done_while_it_is_claimed_is_done() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.settle()
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_done_while_a_claim_is_refused_by_the_disk_needs_no_claim() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.settle()
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_what_its_agent_has_already_waits_for_the_disk_and_not_for_its_window() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("ack", "m1")  # and never a word again
    world.send(make_message("m2"))
    world.refused = {fx.ClaimMessage}
    world.says("ack", "m2")
    assert world.state_of("m2") == "queued"
    world.refused = set()
    world.wait(6)
    assert (world.state_of("m2"), world.receipts) == ("acked", {})


def test_an_ack_while_a_claim_is_refused_is_kept_for_the_next_claim() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    world.settle()
    assert len(world.receipts) == 1
    world.refused = set()
    world.wait(5)
    assert (world.state_of("m1"), world.told("worker"), world.receipts) == ("acked", [], {})


def test_a_refusal_answers_for_an_ack_that_the_disk_had_put_off() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("ack", "m1")))
    world.settle()
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    world.settle()
    assert (world.folder_of("m1"), world.receipts) == (Folder.DEAD, {})


# --- failures -----------------------------------------------------------------------------------------------------------
def test_could_not_be_told_counts_as_a_failure() -> None:
    world = World()
    world.on_tell["worker"] = lambda order: [ev.NotTold(order.key, "Enter was swallowed")]
    world.send(make_message("m1"))
    retry = world.fact("message_retry")
    assert (retry["reason"], retry["counted"], retry["retry_count"]) == ("Enter was swallowed", True, 1)
    assert world.facts("worker_assign") == world.facts("worker_release") == []


def test_a_telling_that_takes_too_long_counts_as_a_failure() -> None:
    """[cli-agent-orchestrator #164] A message was marked delivered before it was sent, and stuck for ever if that
    failed."""
    world = world_in(State.PROCESSING)
    world.wait(299)
    assert world.facts("message_retry") == world.facts("message_told") == []
    world.wait(1)
    assert world.fact("message_retry")["reason"] == "could not be told within 300 s"


def test_a_nudge_that_fails_is_no_failure_of_the_message() -> None:
    world = world_in(State.DELIVERED)
    world.tell(ev.NotTold(key(world), "pane busy"))
    assert (world.state_of("m1"), world.delivery("m1").retries) == ("delivered", 0)


def test_a_failure_that_comes_late_changes_nothing() -> None:
    world = world_in(State.RETRYING)
    world.says("defer", "m1")
    world.tell(ev.NotTold(key(world), "late"))
    assert (world.delivery("m1").retries, len(world.facts("message_retry"))) == (1, 1)


def test_every_act_is_in_the_table_and_every_one_is_tested_here_or_in_endings() -> None:
    assert {act for row in TABLE.values() for _, act in row.values()} == set(Act) == transitions._DO.keys()


def test_every_event_that_finishes_a_message_says_how_it_is_completed() -> None:
    finish = {happening for row in TABLE.values() for happening, (_, act) in row.items() if act is Act.FINISH}
    assert finish == transitions._COMPLETIONS.keys()


def test_an_impossible_step_changes_nothing() -> None:
    world = world_in(State.DELIVERED)
    delivery = world.delivery("m1")
    place = delivery.place
    with pytest.raises(ImpossibleEvent):
        transitions.apply(world.engine.state, delivery, Happening.OFFERED)
    with pytest.raises(ImpossibleEvent):
        world.handle(ev.Moved(delivery.key, world.drop(make_message("other"))))
    with pytest.raises(ImpossibleEvent):
        world.handle(ev.SpoolFailed(delivery.key, "?"))
    assert (delivery.state, delivery.place, world.agent("worker").window) == (State.DELIVERED, place, {delivery.key})
    assert world.facts("io_error") == []


def test_a_release_is_written_for_each_assignment_and_no_other() -> None:
    world = World(TEAM)
    world.on_tell["runner"] = lambda order: (
        [ev.NotTold(order.key, "?")] if order.attempt == 2 else [ev.Told(order.key, "it runs", seen=True)]
    )
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.FAILED)
    world.wait(60)
    world.ends("m1", ev.Outcome.DONE)
    assert [t for t in world.lines_about("m1") if t.startswith("worker_")] == ["worker_assign", "worker_release"] * 2
