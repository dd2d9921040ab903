"""Every form that a text may have, as a row of pieces, and how far a text follows one.

Reading walks along a form, and the walk ends where a near miss differs. A piece is a literal, or a pattern with a name
and words for people. A form may have a tail, which a text has whole or not at all: newer leads want to know which
agents took part (``Agents: …``). Cannot fail: a walk that does not reach the end says how far it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece that varies. ``words`` tell people what belongs there."""

    name: str
    pattern: re.Pattern[str]
    words: str


_END: Final = "the end"

Piece: TypeAlias = str | Slot


@dataclass(frozen=True, slots=True)
class Form:
    name: str
    pieces: tuple[Piece, ...]
    tail: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Walk:
    """The distance that a text follows a form.

    ``at``: the first character that does not fit. ``values``: name → (text, where).
    """

    form: Form
    at: int
    wanted: str
    values: dict[str, tuple[str, int]]
    whole: bool


def _slot(name: str, pattern: str, words: str) -> Slot:
    """Make a slot. White space is what ``str.strip`` takes for it, as everywhere else."""
    return Slot(name, re.compile(pattern, re.DOTALL), words)


_STAGE: Final = _slot("stage", "[0-3]", "a stage, 0 to 3")
_TASKS: Final = _slot("tasks", "(?:0|[1-9][0-9]{0,5})", "a number of tasks")
#: Decimals are allowed, because reviewers write 7.5.
_SCORE: Final = _slot("score", r"(?:0|[1-9][0-9]{0,3})(?:\.[0-9]{1,6})?", "a score")
#: The seed sets no scale for readiness.
_READINESS: Final = _slot("score", r"-?[0-9]{1,12}(?:\.[0-9]{1,6})?", "a number")
_PASSED: Final = _slot("verdict", "(?:PASS|CONCERNS|WAIVED)", "PASS, CONCERNS or WAIVED")
_DOING: Final = _slot("doing", "(?:EXECUTING|WAITING|ERROR)", "EXECUTING, WAITING or ERROR")
_TEXT: Final = _slot("text", r"\S.*\Z", "a text")
_LIST: Final = r"\S[^\n]{0,500}?(?=\s*\.\Z)"
_LISTED: Final = _slot("agents", _LIST, "which agents took part, and a full stop")
#: Details, without the agents after them.
_DETAILS: Final = _slot("text", rf"\S.*(?=\.\s+Agents:\s+{_LIST})|\S.*\Z", "a text")
_STEP: Final = _slot("text", r"\S.*?(?=\.\Z)", "what it is doing, and a full stop")
#: The seed's ``\s*`` before the details; they may begin on a line of their own.
_GAP: Final = _slot("gap", r"\s+", "a space")
_SPACE: Final = _slot("space", r"\s*", "a full stop")
_AGENTS: Final[tuple[Piece, ...]] = (_GAP, "Agents:", _GAP, _LISTED, _SPACE, ".")


@lru_cache(maxsize=8)
def reports(id_pattern: str) -> tuple[Form, ...]:
    """Return the forms of a worker's texts."""
    story = _slot("story", f"(?a:{id_pattern})", "a story's id")
    return (
        Form(
            "Stage 0 COMPLETE",
            ("Stage 0 COMPLETE for ", story, ".", _GAP, _TASKS, " tasks created. Plan score: ", _SCORE, "/4."),
        ),
        Form(
            "Stage 1 GO",
            ("Stage 1 COMPLETE for ", story, ".", _GAP, "Verdict: GO. Readiness: ", _READINESS, "."),
            _AGENTS,
        ),
        Form(
            "Stage 1 NO-GO",
            (
                "Stage 1 COMPLETE for ",
                story,
                ".",
                _GAP,
                "Verdict: NO-GO. Readiness: ",
                _READINESS,
                ".",
                _GAP,
                "Reason:",
                _GAP,
                _DETAILS,
            ),
            (".", *_AGENTS),
        ),
        Form(
            "Stage 2 COMPLETE",
            ("Stage 2 COMPLETE for ", story, ".", _GAP, "All tasks Done. Story set to To Review."),
        ),
        Form(
            "Stage 3 passed",
            ("Stage 3 COMPLETE for ", story, ".", _GAP, "Verdict: ", _PASSED, ". Quality Score: ", _SCORE, "/100."),
            _AGENTS,
        ),
        Form(
            "Stage 3 FAIL",
            (
                "Stage 3 COMPLETE for ",
                story,
                ".",
                _GAP,
                "Verdict: FAIL. Quality Score: ",
                _SCORE,
                "/100.",
                _GAP,
                "Issues:",
                _GAP,
                _DETAILS,
            ),
            (".", *_AGENTS),
        ),
        Form("ERROR", ("Stage ", _STAGE, " ERROR for ", story, ":", _GAP, _TEXT)),
        Form("Status", ("Status for ", story, ": Stage ", _STAGE, " ", _DOING, ". Current step: ", _STEP, ".")),
    )


@lru_cache(maxsize=8)
def commands(id_pattern: str) -> tuple[Form, ...]:
    """Return the forms of the lead's texts."""
    story = _slot("story", f"(?a:{id_pattern})", "a story's id")
    return (
        Form("Execute", ("Execute Stage ", _STAGE, " for ", story)),
        Form("Status check", ("Status check: are you still working on Stage ", _STAGE, " for ", story, "?")),
        Form("ACK", ("ACK Stage ", _STAGE, " for ", story)),
    )


def walk(form: Form, text: str) -> Walk:
    main = _walk(form, form.pieces, text, 0)
    if main.whole or not form.tail or main.at == len(text) or main.wanted != _END:
        return main
    tail = _walk(form, form.tail, text, main.at)
    begun = tail.whole or text[main.at :].lstrip(" .").startswith("Agents:")
    return Walk(form, tail.at, tail.wanted, main.values | tail.values, tail.whole) if begun else main


def _walk(form: Form, pieces: tuple[Piece, ...], text: str, at: int) -> Walk:
    values: dict[str, tuple[str, int]] = {}
    for piece in pieces:
        if isinstance(piece, str):
            if not text.startswith(piece, at):
                alike = _alike(piece, text, at)
                return Walk(form, at + alike, repr(piece[alike:]), values, whole=False)
            at += len(piece)
            continue
        found = piece.pattern.match(text, at)
        if found is None:
            return Walk(form, at, piece.words, values, whole=False)
        values[piece.name] = (found[0], at)
        at = found.end()
    return Walk(form, at, _END, values, whole=at == len(text))


def _alike(piece: str, text: str, at: int) -> int:
    return next((n for n, char in enumerate(piece) if text[at + n : at + n + 1] != char), len(piece))
