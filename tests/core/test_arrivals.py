"""Files that come and go: duplicates, answers, loops, restarts, directories that vanish."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.coordination.ensemble.rules import plain_words
from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.arrivals import cure
from ackd.core.errors import ImpossibleEvent
from ackd.core.message import MONITOR, Folder, Place, Progress, Standing, Status
from ackd.core.words import Rejection
from tests.core.engine_world import PANE, START_WALL, TEAM, File, World, assert_effects, make_message


def met_in_processed(
    world: World, message_id: str, to: str, standing: Standing, *, crashes: int = 0, alive: bool = False
) -> None:
    """Meet at the start a file that an earlier daemon left in processed/."""
    place = world.drop(make_message(message_id, to), Folder.PROCESSED)
    event = replace(world.arrival(place, recovered=True, crashes=crashes, run_alive=alive), standing=standing)
    world.tell(event)
    world.wait(0.25)


# --- hints --------------------------------------------------------------------------------------------------------------
def test_a_hint_that_comes_twice_is_one_message() -> None:
    """[Ensemble] CREATE and MODIFY both notify, and one write led to two nudges."""
    world = World()
    place = world.drop(make_message("m1"))
    arrival = world.arrival(place)
    world.handle(arrival)
    world.handle(arrival)
    world.settle()
    assert (world.told("worker"), len(world.facts("message_queued"))) == (["m1"], 1)


def test_a_hint_of_our_own_claim_that_overtakes_its_answer_is_no_new_message() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1", "runner"))))
    world.work("runner")
    world.handle(world.arrival(world.place_of("m1")))
    world.settle()
    assert (world.folder_of("m1"), world.facts("message_duplicate")) == (Folder.PROCESSED, [])


def test_a_hint_of_our_own_claim_under_the_next_free_name_is_no_new_message_either() -> None:
    """A file of that name lies in processed/ already; or a copy to another mount is seen before the move is
    answered."""
    world = World()
    place = world.drop(make_message("m1"))
    world.handle(world.arrival(place))
    file, moved = world.files.pop(place), place._replace(folder=Folder.PROCESSED, name="free.mime")
    world.files[moved] = file
    assert world.handle(world.arrival(moved)) == []
    del world.lanes["worker"]
    world.handle(ev.Claimed(world.delivery("m1").key, moved))
    world.settle()
    assert (world.told("worker"), world.facts("message_duplicate")) == (["m1"], [])


def test_mail_for_nobody_is_our_own_mistake() -> None:
    world = World()
    place = world.drop(make_message("m1", "nobody"))
    with pytest.raises(ImpossibleEvent, match="nobody called nobody"):
        world.handle(world.arrival(place))
    assert len(world.engine.state.deliveries) == 0


def test_an_arrival_from_the_future_came_now() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"), age_s=-3600)
    assert world.delivery("m1").arrived_at == START_WALL


def test_a_file_that_others_drop_into_processed_is_served_like_any_other() -> None:
    """The status in its header does not count: whoever drops a file there with one has copied an old file."""
    world = World()
    place = world.drop(make_message("m1"), Folder.PROCESSED)
    world.files[place].headers["X-IGNITE-Status"] = "acked"
    world.tell(world.arrival(place))
    assert (world.told("worker"), world.state_of("m1")) == (["m1"], "delivered")


def test_what_is_no_message_is_quarantined_and_said() -> None:
    world = World()
    place = world.drop(make_message("m1"))
    world.tell(ev.Unreadable(place, "empty", "no bytes at all"))
    rejected = world.fact("message_rejected")
    assert (rejected["code"], rejected["kept_as"], rejected["agent"]) == ("empty", place.name, "worker")


def test_quarantine_tells_the_sender_with_the_cure_before_the_file_is_moved() -> None:
    world = World()
    place = world.drop(make_message("m1"))
    world.handle(ev.Unreadable(place, "unknown_type", "unknown type 'chat'", "runner"))
    assert [type(effect).__name__ for effect in world.lanes["worker"]] == ["SendMessage", "QuarantineFile"]
    world.settle()
    (notice,) = world.mail("notification", "runner")
    assert str(place) in str(notice.draft.body["summary"])
    assert "unknown type 'chat'" in str(notice.draft.body["summary"])
    assert 'unknown_types = "deliver"' in str(notice.draft.body["action"])
    assert len(world.mail("notification")) == 1, "not once more when it was moved"


def test_quarantine_of_a_strangers_file_tells_escalate_to_and_of_our_own_mail_nobody() -> None:
    world = World()
    for number, sender in enumerate((None, "stranger", MONITOR)):
        world.tell(ev.Unreadable(world.drop(make_message(f"m{number}")), "empty", "no bytes at all", sender))
    assert len(world.mail("notification", "leader")) == len(world.mail("notification")) == 2
    assert len(world.facts("message_rejected")) == 3


def test_a_crash_between_the_notice_and_the_move_tells_of_it_by_the_same_message() -> None:
    world = World()
    place = world.drop(make_message("m1"))
    world.handle(ev.Unreadable(place, "empty", "no bytes at all", "runner"))
    world.work("worker")
    del world.files[place]  # met again below, as what it is
    world.restart()
    world.files[place] = File(99, make_message("m1"), world.wall)
    world.tell(ev.Unreadable(place, "empty", "no bytes at all", "runner"))
    assert len({one.draft.message_id for one in world.mail("notification", "runner")}) == 1
    assert len(world.facts("message_duplicate")) == 1


def test_a_known_file_that_is_overwritten_with_rubbish_ends_withdrawn_and_not_completed() -> None:
    world = World()
    world.send(make_message("m1"))
    world.tell(ev.Unreadable(world.place_of("m1"), "not_utf8", "?"))
    assert (world.facts("message_completed"), len(world.facts("message_withdrawn", "m1"))) == ([], 1)


# --- duplicates ---------------------------------------------------------------------------------------------------------
def test_the_same_message_again_is_put_away_and_not_told() -> None:
    world = World()
    world.send(make_message("m1"))
    copy = world.send(make_message("m1"))
    assert world.told("worker") == ["m1"]
    assert world.fact("message_duplicate")["of_state"] == "delivered"
    assert copy._replace(folder=Folder.ARCHIVE) in world.files


def test_the_same_message_after_its_completion_is_put_away_within_the_window() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("done", "m1")
    world.send(make_message("m1"))
    assert (world.told("worker"), world.fact("message_duplicate")["of_state"]) == (["m1"], "completed")
    world.wait(2 * 86_400)
    world.send(make_message("m1"))
    assert world.told("worker") == ["m1", "m1"]


def test_a_duplicate_does_not_end_its_twin_in_the_journal() -> None:
    world = World()
    world.send(make_message("m1"))
    world.send(make_message("m1"))
    assert [e.end for e in world.done if isinstance(e, fx.ForgetMessage)] == ["duplicate"]


def test_the_same_id_with_other_content_is_delivered_with_a_warning() -> None:
    """Models copy examples, ids included."""
    world = World()
    world.send(make_message("m1", content="one"))
    world.send(make_message("m1", content="two"))
    world.says("done", "m1")
    world.says("done", "m1")
    assert world.told("worker") == ["m1", "m1"]
    assert "same Message-ID" in str(world.fact("message_warning")["warning"])
    assert len(world.facts("message_completed")) == 2


def test_a_message_that_died_may_be_sent_once_more() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("refuse", "m1")
    world.send(make_message("m1"))
    assert (world.told("worker"), world.facts("message_duplicate")) == (["m1", "m1"], [])


def test_a_message_sent_once_more_while_it_is_buried_is_served() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.settle()
    assert (world.told("worker"), world.facts("message_duplicate")) == (["m1", "m1"], [])


# --- what it says beyond itself -------------------------------------------------------------------------------------------
def test_a_reply_acknowledges_what_it_answers() -> None:
    world = World()
    world.send(make_message("m1"))
    world.send(make_message("r1", "leader", sender="worker", in_reply_to="m1"))
    assert (world.state_of("m1"), world.fact("message_acked")["by"]) == ("acked", "a reply")


def test_a_report_completes_what_it_answers() -> None:
    world = World()
    world.send(make_message("m1", type="task_assignment"))
    world.send(make_message("r1", "leader", sender="worker", type="task_completed", in_reply_to="m1"))
    assert (world.folder_of("m1"), world.fact("message_completed")["by"]) == (Folder.ARCHIVE, "a report in reply")


def test_a_reply_of_someone_else_acknowledges_nothing() -> None:
    world = World()
    world.send(make_message("m1"))
    world.send(make_message("r1", "leader", sender="runner", in_reply_to="m1"))
    world.send(make_message("r2", "leader", sender="stranger", in_reply_to="m1"))
    assert world.state_of("m1") == "delivered"


def test_any_message_of_an_agent_is_a_sign_of_life() -> None:
    world = World()
    world.send(make_message("m1"))
    world.wait(240)
    world.send(make_message("m2"))
    world.send(make_message("hello", "leader", sender="worker"))
    assert world.told("worker") == ["m1", "m2"]


def test_progress_is_written_down_with_what_it_says_and_nothing_else() -> None:
    world = World()
    world.send(
        make_message("p1", "leader", sender="worker", type="progress_update", progress=Progress("build", 40, None))
    )
    said = {"agent": "leader", "from": "worker", "message_id": "p1", "stage": "build", "percent": 40, "final": False}
    assert world.fact("progress") == said


# --- restarts ---------------------------------------------------------------------------------------------------------
def test_messages_in_flight_at_a_restart_are_not_skipped_however_old_they_are() -> None:
    """[IGNITE] Messages in flight at a restart were skipped because their mtime was older than
    the daemon."""
    world = World()
    place = world.drop(make_message("m1", "runner"), Folder.PROCESSED, age_s=30 * 86_400)
    world.tell(world.arrival(place, recovered=True))
    world.wait(0.25)
    assert world.told("runner") == ["m1"]
    assert world.fact("message_queued")["recovered"] is True


@pytest.mark.parametrize(
    ("agent", "standing", "logged", "lines"),
    [
        ("leader", Standing(Status.DELIVERED, 0, None, START_WALL - 5), True, 0),
        ("leader", Standing(Status.ACKED, 0, None, START_WALL - 5), True, 0),
        ("leader", Standing(Status.DELIVERED, 0, None, START_WALL - 5), False, 1),  # after a crash, or another's file
        ("leader", Standing(), True, 1),  # it is told again
        ("worker", Standing(Status.DELIVERED, 0, None, START_WALL - 5), True, 1),
    ],
)
def test_unread_mail_of_an_inbox_is_no_news_after_an_orderly_restart(
    agent: str, standing: Standing, logged: bool, lines: int
) -> None:
    world = World()
    place = world.drop(make_message("m1", agent), Folder.PROCESSED)
    event = replace(world.arrival(place, recovered=True), standing=standing, logged=logged)
    (asked, *_) = world.handle(event)
    assert isinstance(asked, fx.RecordFact)
    assert asked.signal is not None  # whoever waits for the message hears of it all the same
    assert len(world.facts("message_queued")) == lines


def test_what_was_being_told_at_a_crash_is_told_again() -> None:
    """[Ensemble] Claimed files were never reclaimed after a crash."""
    world = World()
    met_in_processed(world, "m1", "worker", Standing())
    assert (world.told("worker"), world.state_of("m1"), world.delivery("m1").retries) == (["m1"], "delivered", 0)


def test_told_before_a_restart_and_volatile_is_offered_again() -> None:
    world = World()
    met_in_processed(world, "m1", "runner", Standing(Status.DELIVERED, 2, None, START_WALL - 5))
    assert (world.told("runner"), world.delivery("m1").retries) == (["m1"], 2)


def test_told_before_a_restart_and_lasting_its_clock_runs_on() -> None:
    world = World()
    met_in_processed(world, "m1", "worker", Standing(Status.DELIVERED, 0, None, START_WALL - 50))
    assert (world.told("worker"), world.state_of("m1")) == ([], "delivered")
    world.wait(9.7)
    assert world.facts("nudge") == []
    world.wait(0.1)
    assert world.fact("nudge")["rung"] == 1


def test_acked_before_a_restart_it_is_left_in_peace_and_still_overdue_in_time() -> None:
    world = World()
    met_in_processed(world, "m1", "worker", Standing(Status.ACKED, 0, None, START_WALL - 1000))
    assert (world.told("worker"), world.state_of("m1")) == ([], "acked")
    world.wait(799)
    assert world.facts("message_overdue") == []
    world.wait(2)
    assert len(world.facts("message_overdue")) == 1


def test_a_run_that_lives_on_is_adopted_and_its_end_counts() -> None:
    world = World()
    met_in_processed(world, "m1", "runner", Standing(), alive=True)
    assert (world.told("runner"), world.state_of("m1")) == ([], "delivered")
    world.ends("m1", ev.Outcome.DONE, "exit status 0")
    assert world.folder_of("m1") is Folder.ARCHIVE
    assert "worker_release" in world.lines_about("m1")


def test_a_retry_keeps_its_count_and_its_time_through_a_restart() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("defer", "m1")
    world.restart(away_s=2)
    world.wait(2.9)
    assert (world.told("worker"), world.delivery("m1").retries) == (["m1"], 1)
    world.wait(0.2)
    assert world.told("worker") == ["m1", "m1"]


def test_a_clock_that_jumped_a_day_does_not_hold_a_retry_for_a_day() -> None:
    world = World()
    met_in_processed(world, "m1", "worker", Standing(Status.RETRYING, 1, START_WALL + 86_400))
    world.wait(299)
    assert world.told("worker") == []
    world.wait(1)
    assert world.told("worker") == ["m1"]


def test_poison_is_buried_after_we_died_with_it_in_hand_too_often() -> None:
    world = World()
    met_in_processed(world, "fine", "runner", Standing(), crashes=10)
    met_in_processed(world, "poison", "runner", Standing(), crashes=11)
    assert world.folder_of("fine") is Folder.PROCESSED
    assert world.fact("message_dead", "poison")["reason"] == "poison: ackd itself died 11 times with it in hand"


def test_done_while_we_were_away_is_heard_before_anything_is_told_again() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.receipt("done", "m1", "runner")
    world.restart(away_s=60)
    world.wait(1)
    assert (world.told("runner"), world.folder_of("m1")) == (["m1"], Folder.ARCHIVE)


def test_after_a_start_nothing_is_offered_until_what_was_there_before_has_been_met() -> None:
    world = World()
    place = world.drop(make_message("m1"))
    world.tell(world.arrival(place, recovered=True))
    world.wait(0.24)
    assert world.told("worker") == []
    world.wait(0.01)
    assert world.told("worker") == ["m1"]


def test_a_report_that_came_while_we_were_away_completes_what_it_answers() -> None:
    """The question may be met after its answer: directories are read in the order of their names."""
    world = World()
    world.send(make_message("m1", "worker", type="task_assignment"))
    world.drop(make_message("r1", "leader", sender="worker", type="task_completed", in_reply_to="m1"))
    world.restart(away_s=60)
    world.wait(1)
    assert (world.folder_of("m1"), world.told("worker")) == (Folder.ARCHIVE, ["m1"])


def test_while_a_long_queue_is_read_what_was_read_is_told_and_what_was_answered_is_not() -> None:
    world = World()
    world.tell(ev.AgentPaused("leader"))
    reply = world.drop(make_message("r1", "leader", sender="worker", type="task_completed", in_reply_to="m2"))
    world.tell(world.arrival(reply, recovered=True))
    world.tell(ev.RecoveryEnded(reading=True))
    for name in ("m1", "m2", "m3"):
        world.tell(world.arrival(world.drop(make_message(name)), recovered=True))
    world.says("done", "m1")
    assert world.told("worker") == ["m1", "m3"]
    assert world.folder_of("m2") is Folder.ARCHIVE
    world.tell(ev.RecoveryEnded())
    assert not world.engine.state.answers


def test_an_answer_to_what_is_nowhere_is_dropped_when_all_has_been_read() -> None:
    world = World()
    reply = world.drop(make_message("r1", "leader", sender="worker", type="task_completed", in_reply_to="gone"))
    world.tell(world.arrival(reply, recovered=True))
    world.tell(ev.RecoveryEnded(reading=True))
    assert len(world.engine.state.answers) == 1
    world.tell(ev.RecoveryEnded())
    assert not world.engine.state.answers


def test_an_old_reply_does_not_acknowledge_the_next_attempt() -> None:
    """[Ensemble] A stale ACK from an earlier run counted as an instant ACK."""
    world = World()
    world.tell(ev.AgentPaused("leader"))
    world.send(make_message("m1"))
    world.send(make_message("r1", "leader", sender="worker", in_reply_to="m1"))
    world.says("defer", "m1")
    world.restart(away_s=60)
    world.wait(1)
    assert (world.told("worker"), world.state_of("m1")) == (["m1", "m1"], "delivered")


def test_a_restart_in_the_middle_of_a_burial_makes_the_same_mail_again_which_is_recognised() -> None:
    world = World()
    world.send(make_message("m1", sender="runner"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    for _ in range(3):
        world.work("worker")
    world.restart()
    world.wait(1)
    ids = [e.draft.message_id for e in world.mail("dead_letter")]
    assert (len(ids), len(set(ids))) == (2, 1)
    assert world.folder_of("m1") is Folder.DEAD
    assert world.told("runner").count(ids[0]) == 1


# --- gone -------------------------------------------------------------------------------------------------------------
def test_deleted_from_the_queue_is_withdrawn() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.deletes("m1")
    assert world.fact("message_withdrawn")["reason"] == "file deleted from the queue before its agent was told"


def test_gone_when_we_come_to_claim_it_is_withdrawn_and_says_what_its_agent_had_said() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.files.clear()
    world.settle()
    assert str(world.fact("message_withdrawn")["reason"]).endswith("(it had said: ackd done)")
    assert world.receipts == {}


def test_a_file_that_a_person_moved_is_not_completed() -> None:
    world = World()
    world.send(make_message("m1"))
    old = world.place_of("m1")
    new = old._replace(folder=Folder.QUEUE)
    world.files[new] = world.files.pop(old)
    world.tell(ev.Vanished(old, new), world.arrival(new))
    assert "moved by hand" in str(world.fact("message_withdrawn")["reason"])
    assert world.told("worker") == ["m1", "m1"]


def test_a_directory_that_vanished_withdraws_its_mail_loudly() -> None:
    world = World()
    world.send(make_message("m1"))
    world.send(make_message("m2"))
    places = tuple(d.place for d in world.engine.state.deliveries)
    world.files.clear()
    world.tell(ev.SpoolLost("worker", places))
    assert len(world.facts("message_withdrawn")) == 2
    assert world.fact("spool_lost")["files"] == [str(place) for place in places]
    assert [e["cause"] for e in world.facts("escalation")] == ["spool_lost"]
    assert world.facts("message_completed") == []


@pytest.mark.parametrize("receipt", ["refuse", "done"])
def test_a_directory_that_vanishes_under_a_move_is_believed_when_the_move_finds_nothing(receipt: str) -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt(receipt, "m1")))
    place = world.place_of("m1")
    world.files.clear()
    world.handle(ev.SpoolLost("worker", (place,)))
    world.settle()
    end = "message_withdrawn" if receipt == "refuse" else "message_completed"
    assert [t for t in world.lines_about("m1") if t in ("message_withdrawn", "message_completed", "message_dead")] == [
        end
    ]


def test_done_under_a_refused_claim_in_a_directory_that_vanished_is_completed() -> None:
    world = World()
    world.refused = {fx.ClaimMessage}
    place = world.drop(make_message("m1"))
    world.handle(world.arrival(place))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1")))
    world.files.clear()
    world.handle(ev.SpoolLost("worker", (place,)))
    world.settle()
    assert len(world.facts("message_completed", "m1")) == 1
    assert len(world.engine.state.deliveries.of_id("m1", "worker")) == 0


def test_a_directory_that_vanishes_after_a_move_was_made_changes_nothing() -> None:
    world = World()
    world.send(make_message("m1"))
    world.handle(ev.ReceiptCame(world.receipt("refuse", "m1")))
    place = world.place_of("m1")
    while not isinstance(world.work("worker"), fx.BuryMessage):
        pass
    world.handle(ev.SpoolLost("worker", (place,)))
    world.settle()
    assert (world.folder_of("m1"), world.facts("message_withdrawn")) == (Folder.DEAD, [])


def test_a_directory_of_nobody_is_lost_without_a_word_to_anyone() -> None:
    world = World()
    asked = world.handle(ev.SpoolLost("stranger", (Place("stranger", Folder.QUEUE, "x.mime"),)))
    assert_effects(asked, "spool_lost")


def test_what_vanished_that_we_never_knew_is_nothing() -> None:
    world = World({**TEAM, "worker": (PANE, "tmux")})
    assert world.handle(ev.Vanished(Place("worker", Folder.QUEUE, "x.mime"))) == []


# --- the cure of a file that is no message ----------------------------------------------------------------------------
@pytest.mark.parametrize("code", list(Rejection))
def test_every_reason_has_a_cure_in_plain_words_and_a_way_back(code: Rejection) -> None:
    said = cure(code.value)
    assert "ackd dead requeue" in said
    assert not plain_words.vague_words(said)


def test_a_type_that_nobody_knows_names_the_keys_that_help() -> None:
    assert "extra_types" in cure("unknown_type")
    assert 'unknown_types = "deliver"' in cure("unknown_type")
