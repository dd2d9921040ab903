"""The facts about board meetings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import BLUE, CYAN, GREEN, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.fact import Shown


def _absent(of: Shown) -> str:
    return of.mark("absent", of("absent", "; absent: {}"))


@fact(
    "board",
    "■",
    BLUE,
    lambda of: f"{of['meeting']}: {of['checkpoint']}, called by {of['opener']}, with {of['directors']}",
)
def board_opened(
    *, meeting: str, track: str, checkpoint: str, opener: str, directors: list[str], by: str | None = None
) -> None:
    """A meeting was opened; ``by``: another program began it, and ackd drives it."""


def _phase(of: Shown) -> str:
    how = {"complete": "everybody has spoken", "time": "its time is up"}.get(of["by"], f"ended by {of['by']}")
    phase = f"{of['phase']}{of('round', ', round {}')}"
    return f"{of['meeting']}: {phase} after {of['before']}: {how}{_absent(of)}"


@fact("board", "·", CYAN, _phase)
def board_phase(
    *,
    meeting: str,
    track: str,
    before: str,
    phase: str,
    by: str,
    absent: list[str],
    round: int | None = None,  # noqa: A002
) -> None:
    """A meeting is in its next phase or round; ``by`` says what ended the one before."""


def _answer(of: Shown) -> str:
    if of("refused"):
        return f"{of['meeting']}: {of('director', '{}, ')}{of['what']} not counted: {of['refused']}"
    to = of("talk", ", {}") + of("to", " to {}") + of.mark("changes_my_verdict", ", which changes its verdict")
    return f"{of['meeting']}: {of['director']}, {of['what']}{of('verdict', ': {}')}{to} (by {of['door']})"


@fact("board", "→", CYAN, _answer)
def board_answer(
    *,
    meeting: str | None,
    what: str,
    track: str | None = None,
    door: str | None = None,
    director: str | None = None,
    agent: str | None = None,
    number: int | None = None,
    verdict: str | None = None,
    talk: str | None = None,
    to: str | None = None,
    changes_my_verdict: bool | None = None,
    refused: str | None = None,
) -> None:
    """A director assessed, spoke or voted; ``door`` says by which way. ``refused``: why it does not count."""


def _resolved(of: Shown) -> str:
    votes = of.mark("votes", of("votes", "; {}"))
    more = votes + _absent(of) + of("escalated_to", "; told {}") + of("by", " by {}")
    return f"{of['meeting']}: {of['verdict']}{more}"


@fact("board", "✓", GREEN, _resolved)
def board_resolved(
    *,
    meeting: str,
    track: str,
    verdict: str,
    votes: Mapping[str, str] | None = None,
    absent: list[str] | None = None,
    told: str | None = None,
    by: str | None = None,
    escalated_to: str | None = None,
) -> None:
    """A meeting has decided, or was cancelled."""
