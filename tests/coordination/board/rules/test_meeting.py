from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import AssessmentVerdict, Channel
from ackd.coordination.board.rules.counting import BoardDecision
from ackd.coordination.board.rules.encoding import decode, encode
from ackd.coordination.board.rules.meeting import (
    MAX_CONTEXT_DEPTH,
    MAX_CONTEXT_VALUES,
    TOO_DEEP,
    TOO_MANY,
    Meeting,
    advanced,
    cancelled,
    closed,
    context_excess,
    made_known,
    missing,
    passed,
    recorded,
    timed,
    waited_for,
)
from ackd.coordination.board.rules.phases import Phase, Turn
from ackd.core.errors import BadAnswer, NotNow, NotOnBoard
from tests.coordination.board.rules.sample_meetings import FIVE, assessed, called, spoken, voted, voting


def test_a_meeting_goes_through_its_phases_and_counts_its_rounds() -> None:
    meeting = called()
    assert missing(meeting) == FIVE
    meeting = assessed(meeting, "CA", "CPO", "CSO", "COO")
    assert (meeting.phase, missing(meeting)) == (Phase.ASSESSING, ("CXO",))
    meeting = assessed(meeting, "CXO")
    for number in (1, 2, 3):
        assert (meeting.phase, meeting.round) == (Phase.DISCUSSING, number)
        meeting = spoken(meeting)
    assert (meeting.phase, meeting.round) == (Phase.VOTING, 0)
    meeting = voted(meeting)
    assert meeting.phase is Phase.RESOLVING
    assert meeting.resolution is not None
    assert meeting.resolution.decision is BoardDecision.APPROVED
    assert made_known(meeting, 1004.0).phase is Phase.COMPLETE
    turns = [turned.turn for turned in meeting.turns]
    assert turns == [Turn.ASSESSED, Turn.ROUND_OVER, Turn.ROUND_OVER, Turn.DISCUSSED, Turn.VOTED]


def test_a_quick_review_has_assessments_only() -> None:
    meeting = assessed(called(quick=True), verdict="CONCERNS")
    assert meeting.phase is Phase.RESOLVING
    assert meeting.resolution is not None
    assert (meeting.resolution.decision, meeting.resolution.consensus) == (BoardDecision.APPROVED, True)
    with pytest.raises(NotNow, match="assessments only"):
        voted(called(quick=True), "CA")


def test_whoever_passes_is_not_waited_for_and_may_still_speak() -> None:
    meeting = assessed(called("CA", "CPO"))
    meeting = advanced(passed(passed(meeting, "CA"), "CA"), 1.0)
    assert (meeting.round, meeting.passes) == (1, ((1, "CA"),))
    meeting = spoken(meeting, "CA")
    assert meeting.round == 1
    assert advanced(passed(meeting, "cpo"), 2.0).round == 2


def test_of_two_answers_of_one_director_the_last_before_its_phase_closes_counts() -> None:
    meeting = assessed(assessed(called(), "CA"), "CA", verdict="REJECT")
    assert meeting.assessments["CA"][0].verdict is AssessmentVerdict.REJECT
    meeting = voting()
    meeting = voted(voted(meeting, "CA"), "CA", verdict="REJECT")
    assert len(meeting.votes) == 1
    closed_ = voted(meeting, "CPO", "CSO", "COO", "CXO")
    assert closed_.resolution is not None
    assert dict(closed_.resolution.summary)["CA"] == "REJECT"
    with pytest.raises(NotNow, match="too late to vote"):
        voted(closed_, "CA")


def test_early_late_and_strangers_answers_are_refused_with_words_and_change_nothing() -> None:
    meeting = called()
    with pytest.raises(NotNow, match="assessing: it is too early to vote"):
        voted(meeting, "CA")
    with pytest.raises(NotNow, match="too early to discuss"):
        spoken(meeting, "CA")
    with pytest.raises(NotOnBoard, match="'CFO' is no director of this meeting; it has CA, CPO"):
        assessed(meeting, "CFO")
    late = assessed(meeting)
    with pytest.raises(NotNow, match="discussing: it is too late to assess"):
        assessed(late, "CA")
    with pytest.raises(NotOnBoard, match="CFO"):
        spoken(late, "CA", to="CFO")
    with pytest.raises(NotNow, match="is over: it is too late to vote"):
        voted(made_known(voted(voting()), 5.0), "CA")


def test_when_time_is_up_the_absent_are_named_and_the_rest_goes_on() -> None:
    meeting = advanced(assessed(called(), "CA", "CPO", "CSO"), 2000.0, time_is_up=True)
    assert meeting.phase is Phase.DISCUSSING
    assert meeting.turns[0].absent == ("COO", "CXO")
    assert meeting.turns[0].by == "time"
    assert waited_for(meeting) == ("CA", "CPO", "CSO"), "who has said nothing at all is not waited for"
    meeting = spoken(meeting, "COO", "CA", "CPO", "CSO")
    assert meeting.round == 2
    assert waited_for(meeting) == ("CA", "CPO", "CSO", "COO"), "but who joins is"
    for _ in range(2):
        meeting = advanced(meeting, 2001.0, time_is_up=True)
    assert meeting.phase is Phase.VOTING
    assert waited_for(meeting) == FIVE, "a vote may matter"
    meeting = advanced(voted(meeting, "CA", "CPO"), 2002.0, time_is_up=True)
    assert meeting.resolution is not None
    assert (meeting.resolution.decision, meeting.resolution.absent) == (BoardDecision.ESCALATE, ("CSO", "COO", "CXO"))


def test_time_ends_one_phase_and_not_the_next_as_well() -> None:
    meeting = advanced(assessed(called(), "CA"), 2000.0, time_is_up=True)
    assert (meeting.phase, meeting.round) == (Phase.DISCUSSING, 1)


@pytest.mark.parametrize("quick", [False, True])
def test_a_meeting_to_which_nobody_comes_escalates_at_once(quick: bool) -> None:
    meeting = advanced(called(quick=quick), 2000.0, time_is_up=True)
    assert (meeting.phase, meeting.turns[0].turn) == (Phase.RESOLVING, Turn.DESERTED)
    assert meeting.resolution is not None
    assert (meeting.resolution.decision, meeting.resolution.absent) == (BoardDecision.ESCALATE, FIVE)


def test_votes_can_be_counted_by_hand_and_other_phases_cannot() -> None:
    counted = closed(voted(voting(), "CA", "CPO", "CSO"), 9.0, "leader")
    assert counted.resolution is not None
    assert counted.resolution.decision is BoardDecision.APPROVED_WITH_REVIEW
    assert counted.turns[-1].by == "leader"
    for meeting in (called(), assessed(called()), counted):
        with pytest.raises(NotNow, match="nothing to count"):
            closed(meeting, 9.0, "leader")
    assert closed(assessed(called(quick=True), "CA"), 9.0, "leader").phase is Phase.RESOLVING


def test_an_open_meeting_can_be_cancelled_and_one_that_was_counted_cannot() -> None:
    for meeting in (called(), assessed(called()), voting()):
        assert cancelled(meeting, 9.0, "leader").phase is Phase.CANCELLED
    with pytest.raises(NotNow, match="nothing to cancel"):
        cancelled(voted(voting()), 9.0, "leader")


def test_a_deadline_begins_once_and_one_from_a_clock_that_was_set_back_is_not_believed() -> None:
    meeting = timed(called(), 100.0, 30.0)
    assert meeting.deadline_at == 130.0
    assert timed(meeting, 120.0, 30.0).deadline_at == 130.0
    assert timed(meeting, 10.0, 30.0).deadline_at == 40.0
    assert assessed(meeting).deadline_at is None, "the next phase has its own"
    assert timed(voted(voting()), 1.0, 30.0).deadline_at is None


def test_remarks_have_an_end() -> None:
    meeting = assessed(called("CA", "CPO"))
    with pytest.raises(NotNow, match="enough"):
        for number in range(501):
            meeting = spoken(meeting, "CA", message=f"{number}")


ACTS = st.lists(
    st.tuples(st.sampled_from(["assess", "discuss", "vote", "pass", "time"]), st.sampled_from([*FIVE, "CFO"])),
    max_size=60,
)


@given(acts=ACTS, quick=st.booleans(), no=st.sets(st.sampled_from(FIVE)))
def test_whatever_is_said_in_whatever_order_a_meeting_never_goes_back_and_is_whole_on_disk(
    acts: list[tuple[str, str]], quick: bool, no: set[str]
) -> None:
    meeting = called(quick=quick, rounds=2)
    order = list(Phase)
    for now, (what, who) in enumerate(acts):
        before = meeting
        meeting = _attempt(meeting, what, who, "REJECT" if who in no else "APPROVE", float(now))
        assert order.index(meeting.phase) >= order.index(before.phase)
        assert meeting.turns[: len(before.turns)] == before.turns
        assert set(meeting.votes) <= set(FIVE)
        assert decode(encode(meeting), "") == meeting
        assert (meeting.resolution is not None) == (meeting.phase is Phase.RESOLVING)
    for _ in range(5):
        meeting = advanced(meeting, 1e6, time_is_up=True)
    assert meeting.phase is Phase.RESOLVING, "time alone brings it to its end"


def _attempt(meeting: Meeting, what: str, who: str, verdict: str, now: float) -> Meeting:
    try:
        match what:
            case "assess":
                meeting = recorded(meeting, answers.assessment(who, {"verdict": verdict}), Channel.ACKD, now)
            case "discuss":
                said = {"type": "AGREE", "message": "so"}
                meeting = recorded(meeting, answers.remark(who, said), Channel.BUS, now)
            case "vote":
                meeting = recorded(meeting, answers.vote(who, {"final_verdict": verdict}), Channel.FILE, now)
            case "pass":
                meeting = passed(meeting, who)
            case _:
                return advanced(meeting, now, time_is_up=True)
    except (NotNow, NotOnBoard, BadAnswer):
        return meeting
    return advanced(meeting, now)


# --- the context -------------------------------------------------------------------------------------------------------
def nested(depth: int) -> object:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    "context", [None, "text", 7, {"a": [1, {"b": None}]}, nested(MAX_CONTEXT_DEPTH), [0] * (MAX_CONTEXT_VALUES - 1)]
)
def test_what_every_request_can_hold_is_not_too_much(context: object) -> None:
    assert context_excess(context) is None


@pytest.mark.parametrize("context", [nested(MAX_CONTEXT_DEPTH + 1), nested(900), {"a": nested(MAX_CONTEXT_DEPTH)}])
def test_what_is_nested_too_deep_is_said_to_be(context: object) -> None:
    assert context_excess(context) == TOO_DEEP


@pytest.mark.parametrize(
    "context", [[0] * MAX_CONTEXT_VALUES, {str(number): 0 for number in range(MAX_CONTEXT_VALUES // 2)}]
)
def test_names_and_values_are_counted(context: object) -> None:
    assert context_excess(context) == TOO_MANY
