"""What others wrote by hand counts once, whichever doors it came by; what cannot count is refused once, with words."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.core.board import adopting
from ackd.core.board.answers import Door, Kind, Verdict
from ackd.core.board.meeting import Meeting
from ackd.core.board.phases import Phase
from tests.core.board.meetings import assessed, called, spoken, voted, voting

CA = {"verdict": "CONCERNS", "score": 7, "concerns": ["slow"]}
#: As a reader of the bus has it, who knows numbers only.
CA_ON_THE_BUS = {**CA, "score": 7.0, "director": "CA", "recommendations": []}
SAID = {"from": "CA", "to": "CPO", "type": "CHALLENGE", "message": "why?", "timestamp": "2026-02-01T12:00:00Z"}


def by_bus(meeting: Meeting, kind: Kind, payload: dict[str, Any], message_id: str = "msg-1") -> Meeting:
    return adopting.take_bus_line(meeting, kind, "CA", payload, message_id, 5.0)


def test_an_entry_is_taken_once_and_its_change_again() -> None:
    meeting = adopting.take_entries(called(), Kind.ASSESS, {"CA": CA}, 5.0)
    assert meeting.assessments["CA"][0].verdict is Verdict.CONCERNS
    assert meeting.assessments["CA"][1].door is Door.FILE
    assert adopting.take_entries(meeting, Kind.ASSESS, {"CA": CA}, 6.0) == meeting
    meeting = adopting.take_entries(meeting, Kind.ASSESS, {"CA": {**CA, "verdict": "REJECT"}}, 7.0)
    assert meeting.assessments["CA"][0].verdict is Verdict.REJECT
    meeting = adopting.take_entries(meeting, Kind.ASSESS, {"CA": CA}, 8.0)
    assert meeting.assessments["CA"][0].verdict is Verdict.CONCERNS, "back again"


def test_a_file_that_lies_there_does_not_undo_what_was_said_later() -> None:
    meeting = adopting.take_entries(called(), Kind.ASSESS, {"CA": CA}, 5.0)
    meeting = assessed(meeting, "CA", verdict="APPROVE")
    meeting = adopting.take_entries(meeting, Kind.ASSESS, {"CA": CA}, 6.0)
    assert meeting.assessments["CA"][0].verdict is Verdict.APPROVE
    assert adopting.to_show(meeting, Kind.ASSESS, {"CA": CA}).keys() == {"CA"}, "and the file follows"


@pytest.mark.parametrize("bus_first", [False, True])
def test_the_seeds_director_writes_a_file_and_a_line_and_has_said_it_once(bus_first: bool) -> None:
    meeting = called()
    doors = [
        lambda meeting: adopting.take_entries(meeting, Kind.ASSESS, {"CA": CA}, 5.0),
        lambda meeting: by_bus(meeting, Kind.ASSESS, CA_ON_THE_BUS),
    ]
    for door in reversed(doors) if bus_first else doors:
        meeting = door(meeting)
    assert meeting.numbers == 1
    assert meeting.assessments["CA"][1].said
    meeting = assessed(meeting, "CA", verdict="REJECT")
    for door in doors:
        meeting = door(meeting)
    assert meeting.assessments["CA"][0].verdict is Verdict.REJECT, "neither comes again"


@pytest.mark.parametrize("bus_first", [False, True])
def test_a_late_echo_by_the_other_door_does_not_undo_what_was_said_in_between(bus_first: bool) -> None:
    def say(meeting: Meeting, *, by_file: bool) -> Meeting:
        return (
            adopting.take_entries(meeting, Kind.ASSESS, {"CA": CA}, 5.0)
            if by_file
            else by_bus(meeting, Kind.ASSESS, CA_ON_THE_BUS)
        )

    meeting = assessed(say(called(), by_file=not bus_first), "CA", verdict="APPROVE")
    meeting = say(meeting, by_file=bus_first)
    assert meeting.assessments["CA"][0].verdict is Verdict.APPROVE


def test_a_line_of_the_bus_counts_once_and_may_be_taken_back_by_the_next() -> None:
    meeting = by_bus(called(), Kind.ASSESS, CA, "a")
    assert by_bus(meeting, Kind.ASSESS, CA, "a") == meeting
    meeting = by_bus(meeting, Kind.ASSESS, {"verdict": "REJECT"}, "b")
    meeting = by_bus(meeting, Kind.ASSESS, CA, "c")
    assert meeting.assessments["CA"][0].verdict is Verdict.CONCERNS


def test_a_vote_that_does_not_say_whose_it_is_is_its_sources() -> None:
    meeting = by_bus(voting(), Kind.VOTE, {"final_verdict": "REJECT", "confidence": 0.9})
    assert set(meeting.votes) == {"CA"}
    meeting = by_bus(meeting, Kind.VOTE, {"director": "CPO", "final_verdict": "APPROVE"}, "msg-2")
    assert set(meeting.votes) == {"CA", "CPO"}


def test_our_own_lines_are_no_news() -> None:
    meeting = assessed(called(), "CA")
    assert by_bus(meeting, Kind.ASSESS, CA, f"msg-{meeting.meeting_id}-1") == meeting


def test_remarks_by_file_and_by_bus_are_one_and_the_same_words_later_are_another() -> None:
    meeting = assessed(called())
    meeting = adopting.take_lines(meeting, [SAID], 5.0)
    meeting = by_bus(meeting, Kind.DISCUSS, SAID)
    assert len(meeting.remarks) == 1
    meeting = adopting.take_lines(meeting, [SAID, SAID, {**SAID, "timestamp": "2026-02-01T12:05:00Z"}], 6.0)
    assert len(meeting.remarks) == 3
    assert adopting.take_lines(meeting, [SAID, SAID, {**SAID, "timestamp": "2026-02-01T12:05:00Z"}], 7.0) == meeting


def test_lines_that_we_appended_ourselves_are_not_read_back() -> None:
    from ackd.core.board.papers import discussion_line

    meeting = spoken(assessed(called()), "CA")
    assert adopting.take_lines(meeting, [discussion_line(meeting, meeting.remarks[0])], 9.0) == meeting


def test_what_lies_in_a_file_before_its_time_counts_when_its_phase_begins() -> None:
    early = {"CA": {"final_verdict": "APPROVE"}}
    meeting = adopting.take_entries(called(), Kind.VOTE, early, 5.0)
    assert meeting == called()
    assert adopting.take_lines(called(), [SAID], 5.0) == called()
    assert set(adopting.take_entries(voting(), Kind.VOTE, early, 6.0).votes) == {"CA"}


REFUSED: list[tuple[Meeting, Kind, str, object, str]] = [
    (called(), Kind.ASSESS, "CFO", CA, "no director"),
    (called(), Kind.ASSESS, "CA", {"verdict": "MAYBE"}, "one of APPROVE"),
    (called(), Kind.ASSESS, "CA", "APPROVE", "is no object"),
    (assessed(called()), Kind.ASSESS, "CA", CA, "too late to assess"),
    (voted(voting()), Kind.VOTE, "CA", {"final_verdict": "REJECT"}, "too late to vote"),
]


@pytest.mark.parametrize(("meeting", "kind", "name", "entry", "words"), REFUSED)
def test_what_cannot_count_is_refused_with_words_once(
    meeting: Meeting, kind: Kind, name: str, entry: object, words: str
) -> None:
    after = adopting.take_entries(meeting, kind, {name: entry}, 9.0)
    (refusal,) = after.refusals
    assert words in refusal.why
    assert (refusal.director, refusal.door) == (name, Door.FILE)
    assert (after.assessments, after.votes, after.phase) == (meeting.assessments, meeting.votes, meeting.phase)
    assert adopting.take_entries(after, kind, {name: entry}, 10.0) == after


def test_lines_that_are_no_remarks_are_refused() -> None:
    meeting = assessed(called())
    lines: list[object] = [
        3,
        {"from": "CFO", "type": "AGREE", "message": "x"},
        {**SAID, "to": "CFO"},
        {**SAID, "type": "?"},
    ]
    meeting = adopting.take_lines(meeting, lines, 5.0)
    assert (len(meeting.refusals), meeting.remarks) == (4, ())
    meeting = by_bus(meeting, Kind.DISCUSS, {"from": "CA"})
    assert "nothing is said" in meeting.refusals[-1].why


def test_what_a_hand_changed_after_we_had_shown_ours_stays() -> None:
    meeting = assessed(called(), "CA")
    shown = adopting.to_show(meeting, Kind.ASSESS, {})
    meeting = adopting.mirrored(meeting, Kind.ASSESS, shown)
    assert adopting.to_show(meeting, Kind.ASSESS, shown) == {}
    meeting = assessed(meeting, *meeting.directors[1:])
    assert meeting.phase is Phase.DISCUSSING
    late = {"CA": CA}
    meeting = adopting.take_entries(meeting, Kind.ASSESS, late, 9.0)
    assert "CA" not in adopting.to_show(meeting, Kind.ASSESS, late)
    assert "CA" in adopting.to_show(meeting, Kind.ASSESS, {}), "but what has vanished is shown again"


def test_no_vote_is_shown_while_they_are_sealed() -> None:
    meeting = voted(voting(), "CA")
    assert adopting.to_show(meeting, Kind.VOTE, {}) == {}
    assert set(adopting.to_show(voted(voting()), Kind.VOTE, {})) == set(meeting.directors)
