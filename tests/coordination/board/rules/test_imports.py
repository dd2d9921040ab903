"""Answers that others wrote by hand count once, by whichever channels they came, or are refused once with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.board.rules import imports
from ackd.coordination.board.rules.answers import AnswerKind, AssessmentVerdict, Channel
from ackd.coordination.board.rules.phases import Phase
from tests.coordination.board.rules.sample_meetings import assessed, called, spoken, voted, voting

if TYPE_CHECKING:
    from ackd.coordination.board.rules.meeting import Meeting

CA = {"verdict": "CONCERNS", "score": 7, "concerns": ["slow"]}
#: The same answer as the bus reader returns it: with floats for numbers.
CA_ON_THE_BUS = {**CA, "score": 7.0, "director": "CA", "recommendations": []}
SAID = {"from": "CA", "to": "CPO", "type": "CHALLENGE", "message": "why?", "timestamp": "2026-02-01T12:00:00Z"}


def by_bus(meeting: Meeting, kind: AnswerKind, payload: dict[str, Any], message_id: str = "msg-1") -> Meeting:
    return imports.take_bus_line(meeting, kind, "CA", payload, message_id, 5.0)


def test_an_entry_is_taken_once_and_its_change_again() -> None:
    meeting = imports.take_entries(called(), AnswerKind.ASSESS, {"CA": CA}, 5.0)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.CONCERNS
    assert meeting.assessments["CA"][1].channel is Channel.FILE
    assert imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": CA}, 6.0) == meeting
    meeting = imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": {**CA, "verdict": "REJECT"}}, 7.0)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.REJECT
    meeting = imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": CA}, 8.0)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.CONCERNS, "back again"


def test_a_file_that_lies_there_does_not_undo_what_was_said_later() -> None:
    meeting = imports.take_entries(called(), AnswerKind.ASSESS, {"CA": CA}, 5.0)
    meeting = assessed(meeting, "CA", verdict="APPROVE")
    meeting = imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": CA}, 6.0)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.APPROVE
    assert imports.to_show(meeting, AnswerKind.ASSESS, {"CA": CA}).keys() == {"CA"}, "and the file follows"


@pytest.mark.parametrize("bus_first", [False, True])
def test_the_seeds_director_writes_a_file_and_a_line_and_has_said_it_once(bus_first: bool) -> None:
    meeting = called()
    doors = [
        lambda meeting: imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": CA}, 5.0),
        lambda meeting: by_bus(meeting, AnswerKind.ASSESS, CA_ON_THE_BUS),
    ]
    for channel in reversed(doors) if bus_first else doors:
        meeting = channel(meeting)
    assert meeting.numbers == 1
    assert meeting.assessments["CA"][1].said
    meeting = assessed(meeting, "CA", verdict="REJECT")
    for channel in doors:
        meeting = channel(meeting)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.REJECT, "neither comes again"


@pytest.mark.parametrize("bus_first", [False, True])
def test_a_late_echo_by_the_other_door_does_not_undo_what_was_said_in_between(bus_first: bool) -> None:
    def say(meeting: Meeting, *, by_file: bool) -> Meeting:
        return (
            imports.take_entries(meeting, AnswerKind.ASSESS, {"CA": CA}, 5.0)
            if by_file
            else by_bus(meeting, AnswerKind.ASSESS, CA_ON_THE_BUS)
        )

    meeting = assessed(say(called(), by_file=not bus_first), "CA", verdict="APPROVE")
    meeting = say(meeting, by_file=bus_first)
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.APPROVE


def test_a_line_of_the_bus_counts_once_and_may_be_taken_back_by_the_next() -> None:
    meeting = by_bus(called(), AnswerKind.ASSESS, CA, "a")
    assert by_bus(meeting, AnswerKind.ASSESS, CA, "a") == meeting
    meeting = by_bus(meeting, AnswerKind.ASSESS, {"verdict": "REJECT"}, "b")
    meeting = by_bus(meeting, AnswerKind.ASSESS, CA, "c")
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.CONCERNS


def test_a_vote_that_does_not_say_whose_it_is_is_its_sources() -> None:
    meeting = by_bus(voting(), AnswerKind.VOTE, {"final_verdict": "REJECT", "confidence": 0.9})
    assert set(meeting.votes) == {"CA"}
    meeting = by_bus(meeting, AnswerKind.VOTE, {"director": "CPO", "final_verdict": "APPROVE"}, "msg-2")
    assert set(meeting.votes) == {"CA", "CPO"}


def test_our_own_lines_are_no_news() -> None:
    meeting = assessed(called(), "CA")
    assert by_bus(meeting, AnswerKind.ASSESS, CA, f"msg-{meeting.meeting_id}-1") == meeting


def test_remarks_by_file_and_by_bus_are_one_and_the_same_words_later_are_another() -> None:
    meeting = assessed(called())
    meeting = imports.take_lines(meeting, [SAID], 5.0)
    meeting = by_bus(meeting, AnswerKind.DISCUSS, SAID)
    assert len(meeting.remarks) == 1
    meeting = imports.take_lines(meeting, [SAID, SAID, {**SAID, "timestamp": "2026-02-01T12:05:00Z"}], 6.0)
    assert len(meeting.remarks) == 3
    assert imports.take_lines(meeting, [SAID, SAID, {**SAID, "timestamp": "2026-02-01T12:05:00Z"}], 7.0) == meeting


def test_lines_that_we_appended_ourselves_are_not_read_back() -> None:
    from ackd.coordination.board.rules.exports import discussion_line

    meeting = spoken(assessed(called()), "CA")
    assert imports.take_lines(meeting, [discussion_line(meeting, meeting.remarks[0])], 9.0) == meeting


def test_what_lies_in_a_file_before_its_time_counts_when_its_phase_begins() -> None:
    early = {"CA": {"final_verdict": "APPROVE"}}
    meeting = imports.take_entries(called(), AnswerKind.VOTE, early, 5.0)
    assert meeting == called()
    assert imports.take_lines(called(), [SAID], 5.0) == called()
    assert set(imports.take_entries(voting(), AnswerKind.VOTE, early, 6.0).votes) == {"CA"}


REFUSED: list[tuple[Meeting, AnswerKind, str, object, str]] = [
    (called(), AnswerKind.ASSESS, "CFO", CA, "no director"),
    (called(), AnswerKind.ASSESS, "CA", {"verdict": "MAYBE"}, "one of APPROVE"),
    (called(), AnswerKind.ASSESS, "CA", "APPROVE", "is no object"),
    (assessed(called()), AnswerKind.ASSESS, "CA", CA, "too late to assess"),
    (voted(voting()), AnswerKind.VOTE, "CA", {"final_verdict": "REJECT"}, "too late to vote"),
]


@pytest.mark.parametrize(("meeting", "kind", "name", "entry", "words"), REFUSED)
def test_what_cannot_count_is_refused_with_words_once(
    meeting: Meeting, kind: AnswerKind, name: str, entry: object, words: str
) -> None:
    after = imports.take_entries(meeting, kind, {name: entry}, 9.0)
    (refusal,) = after.refusals
    assert words in refusal.why
    assert (refusal.director, refusal.channel) == (name, Channel.FILE)
    assert (after.assessments, after.votes, after.phase) == (meeting.assessments, meeting.votes, meeting.phase)
    assert imports.take_entries(after, kind, {name: entry}, 10.0) == after


def test_lines_that_are_no_remarks_are_refused() -> None:
    meeting = assessed(called())
    lines: list[object] = [
        3,
        {"from": "CFO", "type": "AGREE", "message": "x"},
        {**SAID, "to": "CFO"},
        {**SAID, "type": "?"},
    ]
    meeting = imports.take_lines(meeting, lines, 5.0)
    assert (len(meeting.refusals), meeting.remarks) == (4, ())
    meeting = by_bus(meeting, AnswerKind.DISCUSS, {"from": "CA"})
    assert "nothing is said" in meeting.refusals[-1].why


def test_what_a_hand_changed_after_we_had_shown_ours_stays() -> None:
    meeting = assessed(called(), "CA")
    shown = imports.to_show(meeting, AnswerKind.ASSESS, {})
    meeting = imports.mirrored(meeting, AnswerKind.ASSESS, shown)
    assert imports.to_show(meeting, AnswerKind.ASSESS, shown) == {}
    meeting = assessed(meeting, *meeting.directors[1:])
    assert meeting.phase is Phase.DISCUSSING
    late = {"CA": CA}
    meeting = imports.take_entries(meeting, AnswerKind.ASSESS, late, 9.0)
    assert "CA" not in imports.to_show(meeting, AnswerKind.ASSESS, late)
    assert "CA" in imports.to_show(meeting, AnswerKind.ASSESS, {}), "but what has vanished is shown again"


def test_no_vote_is_shown_while_they_are_sealed() -> None:
    meeting = voted(voting(), "CA")
    assert imports.to_show(meeting, AnswerKind.VOTE, {}) == {}
    assert set(imports.to_show(voted(voting()), AnswerKind.VOTE, {})) == set(meeting.directors)
