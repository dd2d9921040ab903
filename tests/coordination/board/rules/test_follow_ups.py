from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ackd.coordination.board.rules.follow_ups import Address, FollowUp, follow_ups
from ackd.coordination.board.rules.meeting import Meeting, advanced, cancelled, made_known, timed
from ackd.coordination.ensemble.rules.plain_words import missing_facts, vague_words
from tests.coordination.board.rules.sample_meetings import FIVE, assessed, called, spoken, voted, voting

if TYPE_CHECKING:
    from ackd.core.message import Draft

API_TRACK = Address("api", "/work/api/.message-bus", "boss")


def due(meeting: Meeting) -> list[FollowUp]:
    return list(follow_ups(meeting, API_TRACK))


def mails(meeting: Meeting) -> list[Draft]:
    return [one.mail for one in due(meeting) if one.mail is not None]


def told(meeting: Meeting) -> Meeting:
    return replace(meeting, done=meeting.done | {one.key for one in due(meeting)})


def test_each_director_is_asked_once_in_each_phase_and_round_with_ids_of_their_own() -> None:
    meeting, ids = timed(called(), 1000.0, 1800.0), []
    while meeting.is_open:
        asked = mails(meeting)
        assert [draft.recipient for draft in asked] == [f"agent-{name}" for name in FIVE]
        assert {draft.type for draft in asked} == {"board_request"}
        ids += [draft.message_id for draft in asked]
        meeting = told(meeting)
        assert due(meeting) == []
        meeting = [assessed, spoken, voted][["ASSESSING", "DISCUSSING", "VOTING"].index(meeting.phase.value)](meeting)
    assert len(ids) == len(set(ids)) == 5 * 5


def test_a_request_made_again_is_the_same_whatever_was_said_meanwhile() -> None:
    meeting = assessed(called())
    before = mails(meeting)[-1]
    after = mails(spoken(meeting, "CA", "CPO"))[-1]
    assert (before.recipient, before.message_id, before.body) == (after.recipient, after.message_id, after.body)


def test_who_has_spoken_is_not_asked() -> None:
    assert [draft.recipient for draft in mails(assessed(called(), "CA", "CPO"))] == [
        f"agent-{name}" for name in ("CSO", "COO", "CXO")
    ]


def test_a_request_has_the_focus_the_papers_and_exactly_the_commands() -> None:
    def body(meeting: Meeting) -> dict[str, Any]:
        return mails(timed(meeting, 1000.0, 60.0))[-1].body

    first = body(assessed(called(), "CA"))
    assert (first["director"], first["focus"], first["proposal"]) == ("CXO", "the CXO side", "Use SQLite")
    assert "assessments" not in first, "nobody's mind is made up for it"
    assert first["answer_with"][0].startswith(
        "ackd board assess board-20260201120000 --track /work/api/.message-bus --director CXO --verdict "
    )
    second = body(assessed(called()))
    assert set(second["assessments"]) == set(FIVE)
    assert (second["round"], second["rounds"]) == (1, 3)
    meeting = spoken(spoken(assessed(called()), "CA", to="CPO"), *FIVE[1:])
    assert [one["from"] for one in body(meeting)["discussion"]] == ["CPO", "CSO", "COO", "CXO"], "what is for it"
    last = body(voted(voting(), "CA", conditions=["the secret"]))
    assert "secret" not in str(last)
    assert "ackd board vote" in last["answer_with"][0]


def test_a_long_discussion_is_cut_and_says_so() -> None:
    meeting = assessed(called(rounds=10))
    for _ in range(5):
        meeting = spoken(meeting, message="x" * 15_000)
    said: Any = mails(meeting)[0].body["discussion"]
    assert said[0]["earlier"] > 0
    assert len(said) < 5


def test_who_called_the_meeting_is_told_and_an_undecided_one_escalates_with_everything() -> None:
    meeting = advanced(voted(voting(), "CA"), 2000.0, time_is_up=True)
    answer, escalation = mails(made_known(meeting, 2001.0))
    assert (answer.recipient, answer.type, answer.body["verdict"]) == ("leader", "message", "ESCALATE")
    assert (escalation.recipient, escalation.type) == ("boss", "escalation")
    body = escalation.body
    assert body["votes"] and body["assessments"] and body["discussion"] and body["proposal"]
    summary = str(body["summary"])
    assert vague_words(summary) == []
    assert missing_facts(summary, ("board", "leader", *FIVE)) == []
    assert len(mails(made_known(voted(voting()), 9.0))) == 1


def test_a_cancellation_is_told_to_whoever_was_asked_and_to_whoever_called() -> None:
    assert [draft.recipient for draft in mails(cancelled(called(), 9.0, "leader"))] == []
    meeting = cancelled(told(called()), 9.0, "CA")
    assert [draft.recipient for draft in mails(meeting)] == [*(f"agent-{name}" for name in FIVE), "leader"]


def test_the_log_has_the_answers_the_phases_and_the_absent_and_no_vote_before_its_time() -> None:
    meeting = advanced(voted(voting(), "CA"), 2000.0, time_is_up=True)
    lines = [one.line for one in due(made_known(meeting, 2001.0)) if one.line is not None]
    assert [kind for kind, _ in lines].count("board_answer") == 5 + 15 + 1
    assert all(data["meeting"] == meeting.meeting_id and data["track"] == "api" for _, data in lines)
    votes = [data for kind, data in lines if kind == "board_answer" and data["what"] == "vote"]
    assert "verdict" not in votes[0]
    phases = [data for kind, data in lines if kind == "board_phase"]
    assert [data["phase"] for data in phases][-2:] == ["RESOLVING", "COMPLETE"]
    assert phases[-2]["absent"] == list(FIVE[1:])
    assert lines[-1][0] == "board_resolved"
