"""The journal's lines, and the state that they add up to.

A line is one JSON object: ``in``, ``out`` or ``stop``. A torn or foreign line is counted and skipped, never believed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from ackd.core.values import value
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from pathlib import Path

_END_OF_TIME_S: Final = 1e11  # the year 5138
STOP: Final = b'{"op":"stop"}\n'

#: A message that an agent has in hand. The digest tells apart two messages of which one copied the other's id.
Held: TypeAlias = tuple[str, str, str]
_TWIN: Final = "twin "


def twin_digest(digest: str, name: str) -> str:
    """Return the digest under which a duplicate is journalled, so that its end is not taken for its twin's."""
    return f"{_TWIN}{name} {digest}"


@value
class TakenIn:
    """A message was taken in hand. ``crashes``: how often ackd had died with it in hand when this was written. ``at``:
    wall seconds. ``late``: a dead letter, to be completed after all."""

    agent: str
    message_id: str
    box: str
    name: str
    digest: str
    sender: str
    type: str
    crashes: int
    at: float
    late: bool = False

    @property
    def key(self) -> Held:
        return (self.agent, self.message_id, self.digest)

    @property
    def is_duplicate(self) -> bool:
        return self.digest.startswith(_TWIN)


@value
class LetGo:
    agent: str
    message_id: str
    name: str
    end: MessageEnd
    digest: str
    at: float

    @property
    def key(self) -> Held:
        return (self.agent, self.message_id, self.digest)


@dataclass(slots=True)
class JournalState:
    """The sum of the lines. ``completed`` is in the order it happened."""

    in_flight: dict[Held, TakenIn] = field(default_factory=dict)
    completed: list[LetGo] = field(default_factory=list)
    #: The last line says that ackd stopped by itself: none of what is in flight was lost by a crash.
    clean_stop: bool = True
    unreadable_lines: int = 0


# --- adding up --------------------------------------------------------------------------------------------------------
def add_up(path: Path, size: int, completed_since: float) -> tuple[JournalState, int]:
    """Return the state after the whole lines within the first ``size`` bytes, and how many bytes those are."""
    state, covered = JournalState(), 0
    with path.open("rb") as file:
        for line in file:
            if covered + len(line) > size:  # this line was written after ``size`` was taken
                break
            if line.strip():
                _add(state, line, completed_since)
            if line.endswith(b"\n"):
                covered += len(line)
    return state, covered


def _add(state: JournalState, line: bytes, completed_since: float) -> None:
    try:
        entry = _read(line)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        state.unreadable_lines += 1
        state.clean_stop = False  # even an unreadable line shows that the stop was not the last thing that happened
        return
    state.clean_stop = entry is None
    if isinstance(entry, TakenIn):
        state.in_flight[entry.key] = entry
    elif isinstance(entry, LetGo):
        state.in_flight.pop(entry.key, None)
        if entry.end is MessageEnd.COMPLETED and entry.at >= completed_since:
            state.completed.append(entry)


# --- one line ---------------------------------------------------------------------------------------------------------
def encode(entry: TakenIn | LetGo) -> bytes:
    shape = _taken_in(entry) if isinstance(entry, TakenIn) else _let_go(entry)
    try:
        return orjson.dumps(shape) + b"\n"
    except TypeError:  # a file name that is not UTF-8: only json writes surrogates, and reads them back
        return json.dumps(shape).encode() + b"\n"


def _taken_in(entry: TakenIn) -> dict[str, object]:
    return {
        "op": "in",
        "agent": entry.agent,
        "message_id": entry.message_id,
        "box": entry.box,
        "name": entry.name,
        "digest": entry.digest,
        "from": entry.sender,
        "type": entry.type,
        "crashes": entry.crashes,
        "at": entry.at,
        "late": entry.late,
    }


def _let_go(entry: LetGo) -> dict[str, object]:
    return {
        "op": "out",
        "agent": entry.agent,
        "message_id": entry.message_id,
        "name": entry.name,
        "end": entry.end,
        "digest": entry.digest,
        "at": entry.at,
    }


def _read(line: bytes) -> TakenIn | LetGo | None:
    """Parse a line; None is the clean stop."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        found = json.loads(line)
    match found["op"]:
        case "in":
            return TakenIn(
                **_texts(found, "agent", "message_id", "box", "name", "digest", "type"),
                sender=str(found["from"]),
                crashes=int(found["crashes"]),
                at=_wall(found["at"]),
                late=found.get("late") is True,
            )
        case "out":
            return LetGo(
                **_texts(found, "agent", "message_id", "name", "digest"),
                end=MessageEnd(found["end"]),
                at=_wall(found["at"]),
            )
        case "stop":
            return None
        case other:
            raise ValueError(f"unknown op {other!r}")


def _wall(value: object) -> float:
    """Return seconds of which a date can be made, because recovery asks for the day; else ValueError."""
    if isinstance(value, int | float) and 0 <= value < _END_OF_TIME_S:
        return float(value)
    raise ValueError("no time")


def _texts(found: dict[str, object], *names: str) -> dict[str, str]:
    texts = {name: found[name] for name in names}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("not a text")
    return {name: str(text) for name, text in texts.items()}
