"""The decisions by count, as tables: for boards of 5, 3 and 7 directors."""

from __future__ import annotations

import pytest

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.counting import (
    BoardDecision,
    count_assessments,
    count_votes,
    decide,
    decide_quickly,
    large_majority,
    quorum,
)

A, R, J, E = BoardDecision.APPROVED, BoardDecision.APPROVED_WITH_REVIEW, BoardDecision.REJECTED, BoardDecision.ESCALATE

#: Five directors: rows are votes in favour (0-5), columns votes against, as many as are left.
OF_FIVE = [
    [E, E, E, J, J, J],
    [E, E, E, J, J],
    [E, E, E, J],
    [R, R, R],
    [A, A],
    [A],
]
#: Three directors: ⌈0.6 · 3⌉ = 2, ⌈0.8 · 3⌉ = 3.
OF_THREE = [[E, E, J, J], [E, E, J], [R, R], [A]]
#: Seven directors: 5 and 6.
OF_SEVEN = [
    [E, E, E, E, E, J, J, J],
    [E, E, E, E, E, J, J],
    [E, E, E, E, E, J],
    [E, E, E, E, E],
    [E, E, E, E],
    [R, R, R],
    [A, A],
    [A],
]
CELLS = [
    (len(table) - 1, approve, reject, verdict)
    for table in (OF_FIVE, OF_THREE, OF_SEVEN)
    for approve, row in enumerate(table)
    for reject, verdict in enumerate(row)
]


@pytest.mark.parametrize(("size", "approve", "reject", "verdict"), CELLS)
def test_the_verdict_for_every_count_of_votes(size: int, approve: int, reject: int, verdict: BoardDecision) -> None:
    assert decide(approve, reject, size) is verdict
    names = [f"D{n}" for n in range(size)]
    ballots = ["APPROVE"] * approve + ["REJECT"] * reject
    votes = {name: answers.vote(name, {"final_verdict": b}) for name, b in zip(names, ballots, strict=False)}
    found = count_votes(votes, names, 1.0)
    assert found.decision is verdict
    assert found.absent == tuple(names[approve + reject :])
    assert set(dict(found.summary)) | set(found.absent) == set(names)


def test_three_of_three_present_do_not_pass_as_if_they_were_five() -> None:
    """The seed counts only those who voted, so with three present of five, two votes would decide."""
    assert decide(3, 0, 5) is BoardDecision.APPROVED_WITH_REVIEW
    assert decide(2, 0, 5) is BoardDecision.ESCALATE
    assert decide(3, 0, 3) is BoardDecision.APPROVED


def test_fewer_votes_than_a_quorum_never_decide() -> None:
    for size in range(1, 40):
        for votes in range(quorum(size)):
            assert {decide(pro, votes - pro, size) for pro in range(votes + 1)} == {BoardDecision.ESCALATE}


def test_no_count_is_approved_and_rejected_at_once() -> None:
    for size in range(1, 40):
        assert quorum(size) * 2 > size
        assert quorum(size) <= large_majority(size) <= size
    assert [quorum(n) for n in (1, 3, 5, 7, 10)] == [1, 2, 3, 5, 6]
    assert [large_majority(n) for n in (1, 3, 5, 7, 10)] == [1, 3, 4, 6, 8]


@pytest.mark.parametrize(
    ("verdicts", "decision", "consensus"),
    [
        ("AAAAA", A, True),
        ("AAAC", A, True),
        ("ACCRR", A, False),
        ("AAC", A, False),
        ("AARRR", J, False),
        ("AAR", J, False),
        ("RRRRR", J, False),
        ("AA", E, False),
        ("R", E, False),
    ],
)
def test_a_quick_review_goes_by_assessments_alone(verdicts: str, decision: BoardDecision, consensus: bool) -> None:
    words = {"A": "APPROVE", "C": "CONCERNS", "R": "REJECT"}
    names = [f"D{n}" for n in range(5)]
    given = {n: answers.assessment(n, {"verdict": words[v]}) for n, v in zip(names, verdicts, strict=False)}
    found = count_assessments(given, names, 1.0)
    assert (found.decision, found.consensus) == (decision, consensus)


def test_silence_does_not_reject_in_a_quick_review() -> None:
    assert decide_quickly(2, 2, 5) is BoardDecision.ESCALATE
    assert decide_quickly(2, 3, 5) is BoardDecision.REJECTED


def test_conditions_and_dissent_name_their_directors() -> None:
    votes = {
        "CA": answers.vote("CA", {"final_verdict": "APPROVE", "conditions": ["add tests", "a migration"]}),
        "CSO": answers.vote("CSO", {"final_verdict": "REJECT", "conditions": "rotate the keys"}),
    }
    found = count_votes(votes, ["CA", "CSO"], 1.0)
    assert found.conditions == ("add tests (CA)", "a migration (CA)", "rotate the keys (CSO)")
    assert found.dissent == ("CSO",)
    rejected = {name: answers.vote(name, {"final_verdict": "REJECT"}) for name in "XY"}
    rejected["Z"] = answers.vote("Z", {"final_verdict": "APPROVE"})
    assert count_votes(rejected, "XYZ", 1.0).dissent == ("Z",)
