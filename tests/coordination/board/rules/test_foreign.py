from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Channel
from ackd.coordination.board.rules.follow_ups import Address, follow_ups
from ackd.coordination.board.rules.foreign import adopted, followed, is_open
from ackd.coordination.board.rules.meeting import Driver, Meeting, Seat, advanced, recorded
from ackd.coordination.board.rules.phases import BoardCheckpoint, Phase
from ackd.core.errors import BadMeeting

ID = "board-20260201120000"
NAMES = ["CA", "CPO", "CSO"]
SESSION: dict[str, Any] = {
    "session_id": ID,
    "checkpoint": "EVALUATE_PLAN",
    "status": "ASSESSING",
    "proposal": {"proposal": "Use SQLite", "context": {"why": "small"}},
    "directors": NAMES,
    "started_at": "2026-02-01T12:00:00Z",
    "phases": {"discuss": {"status": "NOT_STARTED", "rounds": 0, "max_rounds": 2}},
}
NOON = 1769947200.0


def made(**changed: Any) -> Meeting:
    return adopted(
        ID,
        {**SESSION, **changed},
        seat_of=lambda name: Seat(name, "all", name),
        opener="leader",
        rounds=3,
        queue_from=7,
        begun_at=NOON + 5,
    )


def assessed(meeting: Meeting) -> Meeting:
    for name in NAMES:
        meeting = recorded(meeting, answers.assessment(name, {"verdict": "APPROVE"}), Channel.FILE, NOON)
    return meeting


def test_a_session_of_the_seeds_is_a_meeting() -> None:
    meeting = made()
    assert (meeting.checkpoint, meeting.proposal, meeting.context) == (
        BoardCheckpoint.EVALUATE_PLAN,
        "Use SQLite",
        {"why": "small"},
    )
    assert (meeting.directors, meeting.rounds, meeting.opener) == (tuple(NAMES), 2, "leader")
    assert (meeting.opened_at, meeting.queue_from, meeting.phase) == (NOON, 7, Phase.ASSESSING)
    assert meeting.driver is Driver.ADOPTED


@pytest.mark.parametrize(
    ("proposal", "text"), [("as text", "as text"), ({"title": "x"}, '{"title": "x"}'), (None, "null")]
)
def test_whatever_is_proposed_is_shown(proposal: object, text: str) -> None:
    assert (made(proposal=proposal).proposal, made(proposal=proposal).context) == (text, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"checkpoint": "LUNCH"},
        {"status": "EATING"},
        {"directors": []},
        {"directors": ["../../etc"]},
        {"directors": "CA"},
        {"directors": [1]},
        {"directors": [f"d{n}" for n in range(51)]},
    ],
)
def test_what_cannot_be_driven_is_refused_by_name(changed: dict[str, object]) -> None:
    with pytest.raises(BadMeeting):
        made(**changed)


@pytest.mark.parametrize("session", [None, [], {}, {"status": 5}, {"status": "COMPLETE"}, {"status": "RESOLVING"}])
def test_what_is_over_or_no_session_is_not_open(session: object) -> None:
    assert not is_open(session)


# --- the table ----------------------------------------------------------------------------------------------------------
def test_a_complete_phase_is_left_to_the_hand_that_made_the_session() -> None:
    meeting = assessed(made())
    assert advanced(meeting, NOON).phase is Phase.ASSESSING
    assert advanced(meeting, NOON, time_is_up=True).phase is Phase.DISCUSSING
    ours = replace(meeting, driver=Driver.OURS)
    assert advanced(ours, NOON).phase is Phase.DISCUSSING


def test_a_hand_that_goes_on_is_followed_and_asks_by_itself() -> None:
    meeting = followed(assessed(made()), {**SESSION, "status": "DISCUSSING"}, NOON)
    assert (meeting.phase, meeting.driver, meeting.turns[-1].by) == (
        Phase.DISCUSSING,
        Driver.ANOTHER,
        "the orchestrator",
    )
    asked = [one for one in follow_ups(meeting, Address("t", "/bus", "leader")) if one.mail is not None]
    assert asked == []
    voting = followed(meeting, {**SESSION, "status": "VOTING"}, NOON)
    assert (voting.phase, voting.driver) == (Phase.VOTING, Driver.ANOTHER)


def test_a_hand_that_stops_is_taken_over_from_when_the_time_is_up() -> None:
    meeting = followed(assessed(made()), {**SESSION, "status": "DISCUSSING"}, NOON)
    later = advanced(meeting, NOON + 900, time_is_up=True)
    assert (later.phase, later.round, later.driver) == (Phase.DISCUSSING, 2, Driver.ADOPTED)
    asked = [one.mail.recipient for one in follow_ups(later, Address("t", "/bus", "leader")) if one.mail is not None]
    assert asked == NAMES


@pytest.mark.parametrize("session", [None, {"status": "LUNCH"}, {"status": "ASSESSING"}])
def test_a_status_that_says_nothing_new_changes_nothing(session: object) -> None:
    meeting = followed(assessed(made()), {**SESSION, "status": "DISCUSSING"}, NOON)
    assert followed(meeting, session, NOON) is meeting


def test_what_nobody_has_assessed_is_not_discussed() -> None:
    meeting = made()
    assert followed(meeting, {**SESSION, "status": "DISCUSSING"}, NOON) == meeting
