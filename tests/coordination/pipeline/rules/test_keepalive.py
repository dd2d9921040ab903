"""The keepalive rule: a stage worker may stop after its ACK, and is not kept for ever."""

from __future__ import annotations

from ackd.coordination.pipeline.rules.keepalive import (
    MOST_STAYS,
    MOST_STAYS_ASKED,
    RETRY_WAIT_S,
    Leave,
    Notes,
    Stay,
    decide,
)
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

ONE = Try(1, 2, 10.0, executed=True)
STORY = Story("A-1", StoryState.STAGE_2, 1.0, stage=2, tries=(ONE,))
SENT = Notes(reports=(20.0,))


def with_try(**changes: object) -> Story:
    return STORY.with_try(ONE._replace(**changes))  # type: ignore[arg-type]


def test_it_stays_until_it_has_reported_and_until_that_is_acknowledged() -> None:
    assert "has no report yet" in decide(STORY, 1, Notes(), 15.0).reason
    assert "not acknowledged yet" in decide(STORY, 1, SENT, 21.0).reason
    assert isinstance(decide(STORY, 1, SENT, 21.0), Stay)
    assert decide(with_try(acked_at=22.0), 1, SENT, 23.0) == Leave("Stage 2 for A-1 is acknowledged", done=True)


def test_processed_is_not_acknowledged() -> None:
    """If done.flag were written before the ACK, a lost report would go unnoticed."""
    processed = with_try(ended_at=21.0, result=Result.COMPLETE)
    assert isinstance(decide(processed, 1, SENT, 22.0), Stay)


def test_it_leaves_when_its_stage_is_over_without_it() -> None:
    for result in (Result.SILENT, Result.STOPPED, Result.UNCLEAR, Result.LOST):
        decision = decide(with_try(ended_at=21.0, result=result), 1, SENT, 22.0)
        assert isinstance(decision, Leave)
        assert not decision.done


def test_after_a_status_check_the_report_is_sent_again_once_and_then_it_may_go() -> None:
    asked = with_try(asked_at=30.0)
    assert decide(asked, 1, SENT, 31.0) == Stay(
        "a status check came, so the report of Stage 2 for A-1 may be lost: run `ackd stage report` again, once", True
    )
    retried = Notes(reports=(20.0, 32.0))
    assert isinstance(decide(asked, 1, retried, 33.0), Stay)
    gone = decide(asked, 1, retried, 32.0 + RETRY_WAIT_S)
    assert isinstance(gone, Leave)
    assert not gone.done


def test_the_keepalive_has_no_endless_idle_loop() -> None:
    """An agent with nothing left to do is not woken by its own hook for ever, whatever is wrong with its lead."""
    assert isinstance(decide(STORY, 1, Notes(stays=MOST_STAYS), 99.0), Leave)
    assert isinstance(decide(STORY, 1, SENT._replace(stays=MOST_STAYS), 99.0), Leave)
    asked = with_try(asked_at=30.0)
    assert isinstance(decide(asked, 1, SENT._replace(stays=5, stays_asked=MOST_STAYS_ASKED), 99.0), Leave)


def test_who_is_in_no_story_may_go() -> None:
    assert isinstance(decide(None, 1, Notes(), 1.0), Leave)
    assert isinstance(decide(STORY, 7, Notes(), 1.0), Leave)
