"""What a board has decided: votes in, a resolution out (DESIGN 5).

Owns the numbers. They are counted against the board's size N and not against who was there: three votes of three
present do not pass for five. Refuses to know phases and files. Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.board.answers import Assessment, Ballot, Verdict, Vote
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Decision(Word):
    APPROVED = "APPROVED"
    APPROVED_WITH_REVIEW = "APPROVED_WITH_REVIEW"
    REJECTED = "REJECTED"
    ESCALATE = "ESCALATE"  # too few agree, or too few have spoken: somebody else must decide


@value
class Resolution:
    """``summary``: director → its vote, or in a quick review its verdict. ``conditions`` and ``dissent`` name their
    directors; ``absent``: who did not vote. ``consensus`` is None where nobody asked for it."""

    decision: Decision
    summary: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...]
    dissent: tuple[str, ...]
    absent: tuple[str, ...]
    at: float
    consensus: bool | None = None


def quorum(size: int) -> int:
    """⌈0.6 N⌉, in whole numbers: 0.6 · 5 is 3.0000000000000004 on some days."""
    return -(-3 * size // 5)


def large_majority(size: int) -> int:
    """⌈0.8 N⌉"""
    return -(-4 * size // 5)


def decide(approve: int, reject: int, size: int) -> Decision:
    """Every answer but the last needs as many votes on one side as a quorum has: fewer votes than that escalate."""
    if approve >= large_majority(size):
        return Decision.APPROVED
    if approve >= quorum(size):
        return Decision.APPROVED_WITH_REVIEW
    if reject >= quorum(size):
        return Decision.REJECTED
    return Decision.ESCALATE


def decide_quickly(in_favour: int, answered: int, size: int) -> Decision:
    """By assessments alone; one with concerns is in favour. With fewer answers than a quorum silence would reject, so
    that escalates."""
    if in_favour >= quorum(size):
        return Decision.APPROVED
    return Decision.REJECTED if answered >= quorum(size) else Decision.ESCALATE


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
    in_favour = sum(one.verdict is not Verdict.REJECT for one in given)
    decision = decide_quickly(in_favour, len(given), len(names))
    return Resolution(
        decision,
        tuple((one.director, one.verdict.value) for one in given),
        tuple(f"{concern} ({one.director})" for one in given for concern in one.concerns),
        tuple(one.director for one in given if (one.verdict is not Verdict.REJECT) != _is_approval(decision)),
        tuple(name for name in names if name not in assessments),
        at,
        consensus=in_favour >= large_majority(len(names)),
    )


def deserted(directors: Iterable[str], at: float, *, quick: bool) -> Resolution:
    return Resolution(Decision.ESCALATE, (), (), (), tuple(directors), at, consensus=False if quick else None)


def _is_approval(decision: Decision) -> bool:
    """With ESCALATE nobody has won: those against are the dissent."""
    return decision is not Decision.REJECTED
