from __future__ import annotations

from dataclasses import replace
from typing import Any

from ackd.coordination.board.rules import exports
from ackd.coordination.board.rules.answers import Channel
from ackd.coordination.board.rules.meeting import advanced, cancelled, made_known
from ackd.coordination.board.rules.phases import Phase
from tests.coordination.board.rules.sample_meetings import FIVE, assessed, called, spoken, voted, voting


def test_the_session_has_the_seeds_fields_in_every_phase() -> None:
    meetings = [called(), assessed(called()), voting(), voted(voting()), made_known(voted(voting()), 9.0)]
    seen = []
    for meeting in meetings:
        session = exports.session(meeting)
        assert {"session_id", "checkpoint", "status", "proposal", "directors", "started_at", "phases"} <= set(session)
        phases = session["phases"]
        assert isinstance(phases, dict)
        assert list(phases) == ["assess", "discuss", "vote", "resolve"]
        seen.append([session["status"], *(one["status"] for one in phases.values())])
    done, now, not_yet = "COMPLETE", "IN_PROGRESS", "NOT_STARTED"
    assert seen == [
        ["ASSESSING", now, not_yet, not_yet, not_yet],
        ["DISCUSSING", done, now, not_yet, not_yet],
        ["VOTING", done, done, now, not_yet],
        ["RESOLVING", done, done, done, now],
        ["COMPLETE", done, done, done, done],
    ]


def test_rounds_are_counted() -> None:
    meeting = assessed(called())
    counted = []
    for _ in range(4):
        phases = exports.session(meeting)["phases"]
        assert isinstance(phases, dict)
        counted.append((phases["discuss"]["rounds"], phases["discuss"]["max_rounds"]))
        meeting = spoken(meeting) if meeting.phase is Phase.DISCUSSING else meeting
    assert counted == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_votes_stand_nowhere_while_they_are_sealed_or_after_a_cancellation() -> None:
    meeting = voted(voting(), "CA", conditions=["the secret"])
    assert exports.votes(meeting) == {}
    assert "secret" not in str(exports.session(meeting))
    assert list(exports.unsaid(replace(meeting, assessments={}, remarks=()))) == []
    assert exports.votes(cancelled(meeting, 9.0, "leader")) == {}
    assert set(exports.votes(voted(voting()))) == set(FIVE)


def test_answers_by_file_are_left_to_their_authors_until_the_phase_is_over() -> None:
    meeting = assessed(called(), "CA")
    answer, mark = meeting.assessments["CA"]
    meeting = replace(meeting, assessments={"CA": (answer, replace(mark, channel=Channel.FILE))})
    assert list(exports.unsaid(meeting)) == []
    assert [one.director for one, _ in exports.unsaid(advanced(meeting, 9.0, time_is_up=True))] == ["CA"]


def test_the_answers_have_the_seeds_shapes() -> None:
    full = exports.answer(voted(voting(), conditions=["tests"]))
    assert set(full) == {"session_id", "verdict", "votes", "conditions"}
    assert full["votes"] == dict.fromkeys(FIVE, "APPROVE")
    quick = exports.answer(assessed(called(quick=True)))
    assert set(quick) == {"session_id", "verdict", "assessments", "consensus"}
    assert quick["consensus"] is True
    resolve = exports.resolve_payload(voted(voting()))
    assert {"verdict", "vote_summary", "conditions", "dissent"} <= set(resolve)


def test_the_resolution_has_votes_conditions_dissent_and_who_was_absent() -> None:
    meeting = assessed(called(), "CA", "CPO", "CSO")
    meeting = assessed(meeting, "COO", verdict="REJECT")
    meeting = advanced(meeting, 1.0, time_is_up=True)
    for number in range(3):
        changes: dict[str, Any] = {"changes_my_verdict": True, "message": "you are right"} if number == 1 else {}
        meeting = spoken(spoken(meeting, "CA", **changes), "CPO", "CSO", "COO")
    meeting = voted(voted(meeting, "CA", "CPO", "CSO", conditions=["tests"]), "COO", verdict="REJECT")
    text = exports.resolution(advanced(meeting, 2.0, time_is_up=True))
    for words in (
        "# APPROVED_WITH_REVIEW: EVALUATE_PLAN",
        "> Use SQLite",
        "| CA | the CA side | APPROVE | 0.9 |",
        "| CXO | the CXO side | absent | |",
        "- tests (CSO)",
        "## Dissent\n\n- COO\n",
        "- assess: CXO",
        "- vote: CXO",
        "- CA, round 2: you are right",
    ):
        assert words in text, text


def test_a_proposal_cannot_pass_for_the_boards_words() -> None:
    meeting = replace(assessed(called(quick=True)), proposal="x\n# APPROVED: everything\n")
    text = exports.resolution(meeting)
    assert "\n> # APPROVED: everything" in text
    assert text.count("\n# ") == 0
