"""The answers of directors: assessments, remarks and votes, each read from hostile text or refused with a reason.

Agents write answers by hand. Keys that the seed leaves out may be missing, a single text may stand for a list of one,
and case does not matter; but what is there must make sense. Whether it is the time for an answer is decided in
``meeting``. Fails with ``BadAnswer``.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from ackd.core.errors import BadAnswer
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL: Final = "ALL"
MAX_TEXT_CHARS: Final = 16_000
MAX_LIST_CHARS: Final = 8_000
MAX_ITEMS: Final = 50
#: Scores are from 0 to 10. A director who writes files by hand may mean percents, and is not refused for that.
SCALE: Final = 10
MAX_SCORE: Final = 100


class AssessmentVerdict(Word):
    APPROVE = "APPROVE"
    CONCERNS = "CONCERNS"
    REJECT = "REJECT"


class Talk(Word):
    CHALLENGE = "CHALLENGE"
    AGREE = "AGREE"
    QUESTION = "QUESTION"
    CLARIFY = "CLARIFY"


class Ballot(Word):
    APPROVE = "APPROVE"
    REJECT = "REJECT"


class Channel(Word):
    """The way by which an answer came in. Records and log lines call it "door"."""

    ACKD = "ackd"  # `ackd board`
    FILE = "file"  # the seed's flat files, edited by hand
    BUS = "bus"  # a BOARD_* line


class AnswerKind(Word):
    ASSESS = "assess"
    DISCUSS = "discuss"
    VOTE = "vote"


@value
class AnswerMark:
    """An answer's place in its meeting: ``number`` counts the answers. ``said``: the bus has a line of it."""

    number: int
    at: float
    channel: Channel
    said: bool


@value
class Assessment:
    director: str
    verdict: AssessmentVerdict
    score: float | None = None
    concerns: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()


@value
class Remark:
    """``to``: a director, or ALL. ``said_at``: the time that its author wrote; two remarks alike in it are one."""

    director: str
    to: str
    talk: Talk
    message: str
    changes_my_verdict: bool = False
    said_at: str = ""


@value
class Vote:
    director: str
    verdict: Ballot
    confidence: float | None = None
    conditions: tuple[str, ...] = ()


Answer: TypeAlias = Assessment | Remark | Vote

_Choice = TypeVar("_Choice", bound=enum.Enum)


def assessment(director: str, said: Mapping[str, object], most: float = MAX_SCORE) -> Assessment:
    return Assessment(
        director,
        _choice(AssessmentVerdict, said.get("verdict"), "verdict"),
        _number(said.get("score"), "score", most),
        _items(said.get("concerns"), "concerns"),
        _items(said.get("recommendations"), "recommendations"),
    )


def remark(director: str, said: Mapping[str, object]) -> Remark:
    message = said.get("message")
    if not isinstance(message, str) or not message.strip():
        raise BadAnswer("message", "nothing is said")
    if len(message) > MAX_TEXT_CHARS:
        raise BadAnswer("message", f"has {len(message)} characters, more than {MAX_TEXT_CHARS}")
    changes = said.get("changes_my_verdict") or False
    if not isinstance(changes, bool):
        raise BadAnswer("changes_my_verdict", "must be true or false")
    to, said_at = said.get("to") or ALL, said.get("timestamp") or ""
    if not isinstance(to, str) or not isinstance(said_at, str):
        raise BadAnswer("to", "must name a director, or ALL")
    talk = _choice(Talk, said.get("type"), "type")
    to = ALL if to.strip().upper() == ALL else _whole(to)
    return Remark(director, to, talk, _whole(message), changes_my_verdict=changes, said_at=_whole(said_at)[:64])


def vote(director: str, said: Mapping[str, object]) -> Vote:
    given = said.get("final_verdict", said.get("verdict"))
    return Vote(
        director,
        _choice(Ballot, given, "final_verdict"),
        _number(said.get("confidence"), "confidence", 1),
        _items(said.get("conditions"), "conditions"),
    )


def _choice(kind: type[_Choice], said: object, key: str) -> _Choice:
    for one in kind:
        if isinstance(said, str) and said.strip().upper() == one.value:
            return one
    allowed = ", ".join(one.value for one in kind)
    raise BadAnswer(key, "is missing" if said is None else f"is {_short(said)}: it must be one of {allowed}")


def _number(said: object, key: str, most: float) -> float | None:
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        raise BadAnswer(key, f"is {_short(said)}: it must be a number")
    if not 0 <= said <= most:
        raise BadAnswer(key, f"is {_short(said)}: it must be from 0 to {most}")
    return int(said) if said == int(said) else said  # 8 and 8.0 are the same answer


def _items(said: object, key: str) -> tuple[str, ...]:
    listed = [] if said is None else [said] if isinstance(said, str) else said
    if not isinstance(listed, list | tuple):
        raise BadAnswer(key, "must be a list")
    if len(listed) > MAX_ITEMS:
        raise BadAnswer(key, f"has {len(listed)} items, more than {MAX_ITEMS}")
    texts = [_whole(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)) for one in listed]
    if sum(map(len, texts)) > MAX_LIST_CHARS:
        raise BadAnswer(key, f"has more than {MAX_LIST_CHARS} characters")
    return tuple(texts)


def _whole(text: str) -> str:
    """Replace lone surrogates, which JSON can hold but no file can."""
    return text.encode("utf-8", "replace").decode()


def _short(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 40 else f"{text[:40]}…"


# --- as the seed writes them ------------------------------------------------------------------------------------------
def kind_of(answer: Answer) -> AnswerKind:
    match answer:
        case Assessment():
            return AnswerKind.ASSESS
        case Remark():
            return AnswerKind.DISCUSS
        case Vote():
            return AnswerKind.VOTE


def plain(answer: Answer) -> dict[str, object]:
    """Return an answer by the seed's keys, without its director and time."""
    match answer:
        case Assessment():
            return {
                "verdict": answer.verdict.value,
                "score": answer.score,
                "concerns": list(answer.concerns),
                "recommendations": list(answer.recommendations),
            }
        case Remark():
            return {
                "from": answer.director,
                "to": answer.to,
                "type": answer.talk.value,
                "message": answer.message,
                "changes_my_verdict": answer.changes_my_verdict,
            }
        case Vote():
            return {
                "final_verdict": answer.verdict.value,
                "confidence": answer.confidence,
                "conditions": list(answer.conditions),
            }


def digest(answer: Answer) -> str:
    """Return a digest of what was said. The time counts for remarks only, because a remark may be made again."""
    said_at = answer.said_at if isinstance(answer, Remark) else ""
    return digest_of([answer.director, said_at, plain(answer)])


def digest_of(said: object) -> str:
    """Return a digest of any value that came out of JSON."""
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
