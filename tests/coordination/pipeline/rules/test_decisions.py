"""Decisions about stories: which senders count, which events are allowed, and the order of the orders."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ackd.coordination.pipeline.rules.budgets import Budgets
from ackd.coordination.pipeline.rules.decisions import (
    Ack,
    AskWorker,
    Dismiss,
    Escalate,
    Source,
    Spawn,
    StoryDecision,
    Treatment,
    acked,
    broke,
    cannot_start,
    doubted,
    dropped,
    executed,
    garbled,
    held,
    lived,
    next_turns,
    orphaned,
    orphans,
    reported,
    resumed,
    settled,
    status_heard,
    turn,
    unanswered,
    written_down,
)
from ackd.coordination.pipeline.rules.record import BROKEN, REPORTED, Doubt, Result, Story, decode, encode
from ackd.coordination.pipeline.rules.stage_names import worker_name
from ackd.coordination.pipeline.rules.stage_words import (
    Erred,
    Judged,
    Planned,
    Reviewed,
    ReviewVerdict,
    StageDoing,
    StandsAt,
    Worked,
)
from ackd.coordination.pipeline.rules.story import ENDS, StoryState, stage_of

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.stage_words import Report

B = Budgets()
S = StoryState
ID = "A-1"
NEW = Story(ID, S.WAITING, 1.0)
PASS: dict[int, Report] = {
    0: Planned(ID, 3, Decimal(4)),
    1: Judged(ID, True, Decimal(8)),
    2: Worked(ID),
    3: Reviewed(ID, ReviewVerdict.PASS, Decimal(90)),
}
NO_GO = Judged(ID, False, Decimal(2), "no tests")
FAIL = Reviewed(ID, ReviewVerdict.FAIL, Decimal(20), "it crashes")


def source(story: Story, message_id: str = "", *, generation: int | None = 0) -> Source:
    one = story.current
    assert one is not None
    generation = one.generation if generation == 0 else generation
    return Source(worker_name(ID, one.stage), one.stage, message_id or f"m{one.generation}", generation)


def say(story: Story, report: Report | None = None, message_id: str = "") -> StoryDecision:
    one = story.current
    assert one is not None
    return reported(story, report or PASS[one.stage], source(story, message_id), 2.0, B)


def at_stage(stage: int) -> Story:
    story = turn(NEW, 1.0).story
    for _ in range(stage):
        story = say(story).story
    return story


def test_a_story_goes_through_four_stages_each_with_a_fresh_worker() -> None:
    story, spawned = turn(NEW, 1.0).story, [1]
    for stage in range(4):
        assert story.state is (S.STAGE_0, S.STAGE_1, S.STAGE_2, S.STAGE_3)[stage]
        decision = say(story)
        story = decision.story
        spawned += [order.generation for order in decision.orders if isinstance(order, Spawn)]
    assert (story.state, story.ended_at) == (S.DONE, 2.0)
    assert spawned == [1, 2, 3, 4]
    assert [(one.stage, one.result, one.score) for one in story.tries] == [
        (0, Result.COMPLETE, "4"),
        (1, Result.GO, "8"),
        (2, Result.COMPLETE, ""),
        (3, Result.PASS, "90"),
    ]


def test_the_next_worker_comes_before_the_ack_and_the_ack_before_the_shutdown() -> None:
    decision = say(at_stage(0))
    assert decision.orders == (Spawn(2), Ack(1, "story-A-1-s0", "m1"), Dismiss(1))
    assert decision.heard is Treatment.PROCESSED


def test_concerns_and_waived_pass_and_are_kept_on_record() -> None:
    for verdict in (ReviewVerdict.CONCERNS, ReviewVerdict.WAIVED):
        story = say(at_stage(3), Reviewed(ID, verdict, Decimal(50))).story
        assert (story.state, story.tries[-1].result) == (S.DONE, Result(verdict.value))


def test_an_error_and_a_crash_share_one_respawn() -> None:
    story = say(at_stage(2), Erred(ID, 2, "disk")).story
    assert (story.state, story.current and story.current.generation) == (S.STAGE_2, 4)
    ended = broke(story, 4, Result.CRASHED, "exit 1", 3.0, B)
    assert ended.story.state is S.PAUSED
    assert "stage 2 failed in 2 of 2 tries, the last with exit 1" in ended.story.reason
    assert [type(order) for order in ended.orders] == [Dismiss, Escalate]


def test_the_last_error_is_acknowledged_too_and_its_worker_sent_home() -> None:
    story = say(at_stage(0), Erred(ID, 0, "one")).story
    decision = say(story, Erred(ID, 0, "two"))
    assert [type(order) for order in decision.orders] == [Escalate, Ack, Dismiss]


def test_each_stage_has_its_own_respawn() -> None:
    story = say(at_stage(0), Erred(ID, 0, "x")).story
    story = say(story).story
    story = say(story, Erred(ID, 1, "y")).story
    assert story.state is S.STAGE_1


def test_no_go_is_tried_once_more() -> None:
    story = say(at_stage(1), NO_GO).story
    assert story.state is S.STAGE_1
    paused = say(story, NO_GO).story
    assert paused.state is S.PAUSED
    assert "NO-GO: no tests" in paused.reason


def test_fail_goes_back_to_stage_2_twice() -> None:
    story = at_stage(3)
    for _ in range(2):
        story = say(story, FAIL).story
        assert story.state is S.STAGE_2
        story = say(story).story
    story = say(story, FAIL).story
    assert (story.state, story.stage) == (S.PAUSED, 3)
    assert "3 of 3 times" in story.reason


def test_what_was_lost_with_the_daemon_uses_up_no_respawn() -> None:
    story = at_stage(0)
    for _ in range(B.losses):
        assert story.current is not None
        story = broke(story, story.current.generation, Result.LOST, "the daemon ended", 2.0, B).story
    assert story.state is S.STAGE_0
    assert story.current is not None
    assert say(story, Erred(ID, 0, "x")).story.state is S.STAGE_0
    assert broke(story, story.current.generation, Result.LOST, "again", 2.0, B).story.state is S.PAUSED


# --- senders ----------------------------------------------------------------------------------------------------------
def test_a_duplicate_gets_its_ack_again_and_changes_nothing() -> None:
    before = at_stage(0)
    of = source(before)
    story = say(before).story
    for again in (of, replace(of, message_id="other"), replace(of, message_id="other", generation=None)):
        decision = reported(story, PASS[0], again, 9.0, B)
        assert (decision.story, decision.heard) == (story, Treatment.DUPLICATE)
        assert decision.orders == (Ack(1, "story-A-1-s0", again.message_id),)


def test_a_stale_sender_is_not_taken_for_the_current_one() -> None:
    """Stage 1 broke and was begun anew; then the old worker's report arrives."""
    old = at_stage(1)
    of = source(old)
    story = broke(old, 2, Result.SILENT, "silent", 3.0, B).story
    decision = reported(story, PASS[1], of, 4.0, B)
    assert (decision.story, decision.heard) == (story, Treatment.LATE)
    assert decision.orders == (Ack(2, "story-A-1-s1", "m2"),)


def test_a_worker_of_an_earlier_life_is_late_and_never_the_current_one() -> None:
    """A story begun anew goes on counting generations: reports of the first run are acknowledged, no more."""
    story = turn(NEW._replace(earlier=4), 1.0).story
    assert [one.generation for one in story.tries] == [5]
    old = Source("story-A-1-s0", 0, "m", 1)
    decision = reported(story, PASS[0], old, 4.0, B)
    assert (decision.story, decision.heard) == (story, Treatment.LATE)
    assert decision.orders == (Ack(1, "story-A-1-s0", "m"),)
    assert garbled(story, old, "x", 4.0) == StoryDecision(story, heard=Treatment.LATE)
    assert say(story).orders == (Spawn(6), Ack(5, "story-A-1-s0", "m5"), Dismiss(5))
    assert reported(story, PASS[0], replace(old, generation=0), 4.0, B).heard is Treatment.STRANGER


def test_who_never_was_a_worker_of_the_story_is_a_stranger() -> None:
    story = at_stage(1)
    for of in (Source("story-A-1-s3", 3, "m"), Source("story-A-1-s1", 1, "m", 9), Source("story-A-1-s0", 0, "m", 2)):
        assert reported(story, PASS[1], of, 4.0, B) == StoryDecision(story, heard=Treatment.STRANGER)
        assert garbled(story, of, "x", 4.0).heard is Treatment.STRANGER
        assert status_heard(story, StandsAt(ID, 1, StageDoing.WAITING, "x"), of, 4.0).heard is Treatment.STRANGER


def test_a_report_about_another_stage_is_not_understood() -> None:
    decision = say(at_stage(1), PASS[2])
    assert (decision.heard, decision.orders) == (Treatment.GARBLED, (AskWorker(2),))


def test_a_report_after_a_pause_by_hand_is_acknowledged_and_not_processed() -> None:
    before = at_stage(2)
    story = held(before, "user", 3.0).story
    decision = reported(story, PASS[2], source(before), 4.0, B)
    assert (decision.story, decision.heard) == (story, Treatment.LATE)


# --- not understood, quiet --------------------------------------------------------------------------------------------
def test_what_is_not_understood_is_asked_about_and_a_clear_status_continues() -> None:
    story = at_stage(2)
    asked = garbled(story, source(story), "no form", 3.0)
    assert asked.orders == (AskWorker(3),)
    going_on = status_heard(asked.story, StandsAt(ID, 2, StageDoing.EXECUTING, "tests"), source(story), 4.0)
    assert (going_on.story.state, going_on.story.current and going_on.story.current.doubt) == (S.STAGE_2, None)
    assert say(going_on.story).story.state is S.STAGE_3


def test_what_is_not_understood_twice_pauses_the_story() -> None:
    story = at_stage(2)
    story = garbled(story, source(story), "no form", 3.0).story
    for ended in (
        garbled(story, source(story, "another"), "no form", 4.0),
        unanswered(story, 3, 4.0, B),
        broke(story, 3, Result.CRASHED, "exit 1", 4.0, B),
        status_heard(story, StandsAt(ID, 1, StageDoing.WAITING, "x"), source(story, "another"), 4.0),
    ):
        assert (ended.story.state, ended.story.tries[-1].result) == (S.PAUSED, Result.UNCLEAR)
        assert "not understood" in ended.story.reason
        assert any(isinstance(order, Escalate) for order in ended.orders)
        assert ended.orders[-1] == Dismiss(3)


def test_what_a_crash_has_heard_again_is_not_twice_said() -> None:
    """The daemon died while it handled the mail: the same message counts once, before and after a clear answer."""
    story = at_stage(2)
    of = source(story, "hm")
    asked = garbled(story, of, "no form", 3.0).story
    assert garbled(asked, of, "no form", 4.0) == StoryDecision(asked, (AskWorker(3),), Treatment.GARBLED)
    clear = status_heard(asked, StandsAt(ID, 2, StageDoing.EXECUTING, "x"), of, 5.0).story
    assert garbled(clear, of, "no form", 6.0) == StoryDecision(clear, heard=Treatment.GARBLED)
    assert decode(encode(clear), ID) == clear
    other = replace(of, message_id="hm hm")
    assert garbled(asked, other, "no form", 7.0).story.state is S.PAUSED


def test_a_quiet_worker_is_asked_once_and_a_sign_of_life_ends_it() -> None:
    story = at_stage(0)
    asked = doubted(story, 1, Doubt.QUIET, 3.0)
    assert asked.orders == (AskWorker(1),)
    assert doubted(asked.story, 1, Doubt.QUIET, 4.0).orders == ()
    assert lived(asked.story, 1).story.current == story.tries[0]._replace(asks=1, asked_at=3.0)


def test_a_worker_that_does_not_answer_is_ended_before_another_begins() -> None:
    story = doubted(at_stage(0), 1, Doubt.QUIET, 3.0).story
    decision = unanswered(story, 1, 4.0, B)
    assert decision.orders == (Dismiss(1, at_once=True), Spawn(2))
    assert decision.story.tries[0].result is Result.SILENT


def test_a_sign_of_life_does_not_make_garbage_clear() -> None:
    story = garbled(at_stage(0), source(at_stage(0)), "x", 3.0).story
    assert lived(story, 1).story == story


def test_what_is_said_of_an_old_generation_changes_nothing() -> None:
    story = at_stage(1)
    for decision in (
        broke(story, 1, Result.CRASHED, "x", 3.0, B),
        doubted(story, 1, Doubt.QUIET, 3.0),
        lived(story, 1),
        unanswered(story, 2, 3.0, B),
        cannot_start(story, 1, "x", 3.0),
    ):
        assert decision == StoryDecision(story)


# --- starting, and by hand --------------------------------------------------------------------------------------------
def test_a_worker_that_cannot_be_started_pauses_the_story_with_that_reason() -> None:
    decision = cannot_start(at_stage(0), 1, "no program ./work", 2.0)
    assert (decision.story.state, decision.story.tries[0].result) == (S.PAUSED, Result.UNSTARTED)
    assert decision.story.reason == "the worker of stage 0 cannot be started: no program ./work"


def test_a_resumed_story_goes_on_at_its_stage_with_fresh_budgets() -> None:
    story = say(say(at_stage(2), Erred(ID, 2, "a")).story, Erred(ID, 2, "b")).story
    waiting = resumed(story, 5.0).story
    assert (waiting.state, waiting.stage, waiting.reason) == (S.WAITING, 2, "")
    again = turn(waiting, 6.0)
    assert (again.story.state, again.orders) == (S.STAGE_2, (Spawn(5),))
    assert say(again.story, Erred(ID, 2, "c")).story.state is S.STAGE_2


def test_by_hand_what_cannot_be_changes_nothing() -> None:
    done = say(at_stage(3)).story
    assert held(done, "user", 9.0).story is done
    assert dropped(done, "user", 9.0).story is done
    assert resumed(done, 9.0).story is done
    assert resumed(at_stage(0), 9.0).story.state is S.STAGE_0
    waiting = held(NEW, "user", 9.0)
    assert (waiting.story.state, waiting.orders) == (S.PAUSED, ())
    gone = dropped(at_stage(1), "user", 9.0)
    assert (gone.story.state, gone.story.ended_at, gone.orders) == (S.CANCELLED, 9.0, (Dismiss(2),))


def test_turns_are_taken_in_order_and_not_before_what_a_story_comes_after() -> None:
    running = turn(NEW._replace(story_id="R-1"), 1.0).story
    done = NEW._replace(story_id="D-1", state=S.DONE)
    first, second = NEW._replace(story_id="B-1", sequence=1), NEW._replace(story_id="A-2", sequence=2, after=("D-1",))
    third = NEW._replace(story_id="C-3", sequence=0, after=("R-1",))
    stories = [running, done, second, first, third]
    assert next_turns(stories, 3) == [first, second]
    assert next_turns(stories, 2) == [first]
    assert next_turns(stories, 1) == []


def test_a_story_that_waits_for_a_cancelled_one_is_paused() -> None:
    gone = NEW._replace(story_id="G-1", state=S.CANCELLED)
    waits = NEW._replace(after=("G-1",))
    assert orphans([gone, waits, NEW]) == [(waits, "G-1")]
    decision = orphaned(waits, "G-1", 2.0)
    assert (decision.story.state, decision.orders) == (
        S.PAUSED,
        (Escalate("G-1, which it comes after, was cancelled"),),
    )


def test_what_was_done_is_noted() -> None:
    story = settled(acked(executed(at_stage(0), 1), 1, 5.0), 1)
    assert (story.tries[0].executed, story.tries[0].acked_at, story.tries[0].settled) == (True, 5.0, True)
    assert acked(story, 1, 9.0) == story
    assert written_down(story._replace(moves=3)).logged == 3
    told = written_down(story)
    assert written_down(told) is told
    assert executed(story, 9) == acked(story, 9, 1.0) == settled(story, 9) == story


# --- anything, in any order -------------------------------------------------------------------------------------------
MOVES = (
    "pass",
    "error",
    "no-go",
    "fail",
    "garble",
    "status",
    "crash",
    "lost",
    "quiet",
    "mute",
    "life",
    "again",
    "late",
)
HANDS = ("hold", "resume", "drop", "turn", "stuck")


def move(story: Story, what: str, now: float) -> StoryDecision:
    """Let something happen to a story, in any state."""
    one, last = story.current, story.generation
    stage = one.stage if one is not None else 0
    of = Source(worker_name(ID, stage), stage, f"{what}{now}", one.generation if one is not None else None)
    reports: dict[str, Report] = {"pass": PASS[stage], "error": Erred(ID, stage, "x"), "no-go": NO_GO, "fail": FAIL}
    if what in reports:
        return reported(story, reports[what], of, now, B)
    if what in ("again", "late"):
        tried = story.tries[0] if story.tries else None
        if tried is None:
            return StoryDecision(story)
        name = tried.report_id if what == "again" and tried.report_id else f"late{now}"
        return reported(story, PASS[tried.stage], Source("w", tried.stage, name, tried.generation), now, B)
    match what:
        case "garble":
            return garbled(story, of, "x", now)
        case "status":
            return status_heard(story, StandsAt(ID, stage, StageDoing.EXECUTING, "x"), of, now)
        case "crash":
            return broke(story, last, Result.CRASHED, "x", now, B)
        case "lost":
            return broke(story, last, Result.LOST, "x", now, B)
        case "quiet":
            return doubted(story, last, Doubt.QUIET, now)
        case "mute":
            return unanswered(story, last, now, B)
        case "life":
            return lived(story, last)
        case "stuck":
            return cannot_start(story, last, "x", now)
        case "hold":
            return held(story, "user", now)
        case "resume":
            return resumed(story, now)
        case "drop":
            return dropped(story, "user", now)
        case _:
            return turn(story, now) if story.state is S.WAITING else StoryDecision(story)


@settings(max_examples=300, deadline=None)  # a slow machine is no failure
@given(st.lists(st.sampled_from(MOVES + HANDS), max_size=40), st.sampled_from([0, 7]))
def test_whatever_happens_a_story_keeps_its_promises(happenings: list[str], earlier: int) -> None:
    story = NEW._replace(earlier=earlier)
    for number, what in enumerate(["turn", *happenings]):
        before, decision = story, move(story, what, float(number + 1))
        story = decision.story
        spawned = [order for order in decision.orders if isinstance(order, Spawn)]
        assert decode(encode(story), ID) == story
        # At most one try is open, and a worker is started if and only if a try was added.
        assert sum(one.ended_at is None for one in story.tries) == (stage_of(story.state) is not None)
        assert [order.generation for order in spawned] == list(range(before.generation + 1, story.generation + 1))
        assert len(spawned) <= 1
        # A pause has a reason, and a person is told of it unless a person made it.
        told = any(isinstance(order, Escalate) for order in decision.orders)
        assert (story.state is S.PAUSED) <= bool(story.reason)
        assert told == (before.state is not S.PAUSED and story.state is S.PAUSED and what != "hold")
        # Every change of state is counted for the log.
        assert (story.moves - before.moves) == (before.since != story.since)
        # Ends are final, and tries that ended do not change.
        assert before.state not in ENDS or story.state is before.state
        assert all(one == story.tries[n] for n, one in enumerate(before.tries) if one.ended_at is not None)
        # The budgets hold.
        fresh = story.tries[story.fresh_from :]
        for stage in range(4):
            assert sum(one.stage == stage and one.result in BROKEN for one in fresh) <= B.respawns + 1
        assert sum(one.result is Result.FAIL for one in fresh) <= B.returns + 1
        assert sum(one.result is Result.NO_GO for one in fresh) <= B.no_go + 1
        # A report that was processed, repeated or late is acknowledged.
        acks = [order for order in decision.orders if isinstance(order, Ack)]
        heard = decision.heard in (Treatment.PROCESSED, Treatment.DUPLICATE, Treatment.LATE)
        assert bool(acks) == (heard and what in ("pass", "error", "no-go", "fail", "again", "late"))
    if story.state is S.DONE:
        passed = {one.stage for one in story.tries if one.result in REPORTED}
        assert passed == {0, 1, 2, 3}
