"""The count: votes in, a resolution out (DESIGN 5).

Votes are counted against the board's size N, not against how many were there: three votes of three present directors
do not pass for a board of five. Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.coordination.board.rules.answers import Assessment, AssessmentVerdict, Ballot, Vote
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class BoardDecision(Word):
    APPROVED = "APPROVED"
    APPROVED_WITH_REVIEW = "APPROVED_WITH_REVIEW"
    REJECTED = "REJECTED"
    ESCALATE = "ESCALATE"  # too few agree, or too few have spoken: somebody else must decide


@value
class Resolution:
    """``summary``: each director and its vote, or in a quick review its verdict. ``conditions`` and ``dissent`` name
    their directors; ``absent``: directors who did not vote. ``consensus`` is None except in a quick review."""

    decision: BoardDecision
    summary: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...]
    dissent: tuple[str, ...]
    absent: tuple[str, ...]
    at: float
    consensus: bool | None = None


def quorum(size: int) -> int:
    """Return ⌈0.6 N⌉, by whole numbers: as a float, 0.6 · N may come out slightly too large."""
    return -(-3 * size // 5)


def large_majority(size: int) -> int:
    """Return ⌈0.8 N⌉."""
    return -(-4 * size // 5)


def decide(approve: int, reject: int, size: int) -> BoardDecision:
    """Decide by votes. Every decision but ESCALATE needs at least a quorum of votes on one side."""
    if approve >= large_majority(size):
        return BoardDecision.APPROVED
    if approve >= quorum(size):
        return BoardDecision.APPROVED_WITH_REVIEW
    if reject >= quorum(size):
        return BoardDecision.REJECTED
    return BoardDecision.ESCALATE


def decide_quickly(in_favour: int, answered: int, size: int) -> BoardDecision:
    """Decide by assessments alone; one with concerns is in favour.

    Fewer answers than a quorum escalate: otherwise silence would reject.
    """
    if in_favour >= quorum(size):
        return BoardDecision.APPROVED
    return BoardDecision.REJECTED if answered >= quorum(size) else BoardDecision.ESCALATE


def count_votes(votes: Mapping[str, Vote], directors: Iterable[str], at: float) -> Resolution:
    names = tuple(directors)
    cast = [votes[name] for name in names if name in votes]
    approve = sum(one.verdict is Ballot.APPROVE for one in cast)
    decision = decide(approve, len(cast) - approve, len(names))
    return Resolution(
        decision,
        tuple((one.director, one.verdict.value) for one in cast),
        tuple(f"{condition} ({one.director})" for one in cast for condition in one.conditions),
        tuple(one.director for one in cast if (one.verdict is Ballot.APPROVE) != _is_approval(decision)),
        tuple(name for name in names if name not in votes),
        at,
    )


def count_assessments(assessments: Mapping[str, Assessment], directors: Iterable[str], at: float) -> Resolution:
    names = tuple(directors)
    given = [assessments[name] for name in names if name in assessments]
    in_favour = sum(one.verdict is not AssessmentVerdict.REJECT for one in given)
    decision = decide_quickly(in_favour, len(given), len(names))
    return Resolution(
        decision,
        tuple((one.director, one.verdict.value) for one in given),
        tuple(f"{concern} ({one.director})" for one in given for concern in one.concerns),
        tuple(one.director for one in given if (one.verdict is not AssessmentVerdict.REJECT) != _is_approval(decision)),
        tuple(name for name in names if name not in assessments),
        at,
        consensus=in_favour >= large_majority(len(names)),
    )


def deserted(directors: Iterable[str], at: float, *, quick: bool) -> Resolution:
    return Resolution(BoardDecision.ESCALATE, (), (), (), tuple(directors), at, consensus=False if quick else None)


def _is_approval(decision: BoardDecision) -> bool:
    """Return whether those against are the dissent, which they are in ESCALATE too, where nobody has won."""
    return decision is not BoardDecision.REJECTED
