"""The journal's lines, and the state that they add up to.

A line is one JSON object: ``in``, ``out`` or ``stop``. A torn or foreign line is counted and skipped, never believed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import orjson

from ackd.core.parts import PartEnd, PartsNotice
from ackd.core.values import value
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from pathlib import Path

_END_OF_TIME_S: Final = 1e11  # the year 5138
STOP: Final = b'{"op":"stop"}\n'

#: A message that an agent has in hand: agent, id, digest, pool. The digest tells apart two messages of which one copied
#: the other's id; the pool, what it has for itself and what it has as a member.
Held: TypeAlias = tuple[str, str, str, str]
_TWIN: Final = "twin "


def twin_digest(digest: str, name: str) -> str:
    """Return the digest under which a duplicate is journalled, so that its end is not taken for its twin's."""
    return f"{_TWIN}{name} {digest}"


#: Parent, holder, and the part's id and agent.
PartKey: TypeAlias = tuple[str, str, str, str]
#: Ends of parts of which nobody was told for so long are forgotten: their sender has left the team, or the daemon did
#: not run.
PARTS_KEPT_S: Final = 30 * 86_400.0


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
    #: The message of which this one is a part. ``notify``: what its header says of telling its sender, if anything.
    part_of: str = ""
    notify: bool | None = None
    #: The agent has it as a member of this pool.
    pool: str = ""

    @property
    def key(self) -> Held:
        return (self.agent, self.message_id, self.digest, self.pool)

    @property
    def addressee(self) -> str:
        """The agent or pool that it was sent to."""
        return self.pool or self.agent

    @property
    def is_duplicate(self) -> bool:
        return self.digest.startswith(_TWIN)


@value
class NoticeWritten:
    """A notice about parts is on disk."""

    notice_id: str


@value
class PutAway:
    """The agent no longer has the message: its file has left the agent's processed/, or is gone. ``end`` says why."""

    agent: str
    message_id: str
    name: str
    end: MessageEnd
    digest: str
    at: float
    pool: str = ""

    @property
    def key(self) -> Held:
        return (self.agent, self.message_id, self.digest, self.pool)

    @property
    def addressee(self) -> str:
        return self.pool or self.agent


@dataclass(slots=True)
class JournalState:
    """The sum of the lines. ``completed`` is in the order it happened."""

    in_flight: dict[Held, TakenIn] = field(default_factory=dict)
    completed: list[PutAway] = field(default_factory=list)
    #: Parts that have ended, and whose senders were not told.
    parts: dict[PartKey, PartEnd] = field(default_factory=dict)
    #: Notices about parts, by their ids, of which nobody knows whether they were written.
    notices: dict[str, PartsNotice] = field(default_factory=dict)
    #: Parts of which a notice tells, and when they ended. A compaction forgets them.
    told_parts: dict[PartKey, float] = field(default_factory=dict)
    #: The last line says that ackd stopped by itself: none of what is in flight was lost by a crash.
    clean_stop: bool = True
    unreadable_lines: int = 0


# --- adding up --------------------------------------------------------------------------------------------------------
def add_up(path: Path, size: int, completed_since: float, parts_since: float = 0) -> tuple[JournalState, int]:
    """Return the state after the whole lines within the first ``size`` bytes, and how many bytes those are."""
    state, covered = JournalState(), 0
    with path.open("rb") as file:
        for line in file:
            if covered + len(line) > size:  # this line was written after ``size`` was taken
                break
            if line.strip():
                _add(state, line, completed_since, parts_since)
            if line.endswith(b"\n"):
                covered += len(line)
    return state, covered


def _add(state: JournalState, line: bytes, completed_since: float, parts_since: float) -> None:
    try:
        entry = _read(line)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        state.unreadable_lines += 1
        state.clean_stop = False  # even an unreadable line shows that the stop was not the last thing that happened
        return
    state.clean_stop = entry is None
    if isinstance(entry, TakenIn):
        state.in_flight[entry.key] = entry
    elif isinstance(entry, PutAway):
        state.in_flight.pop(entry.key, None)
        if entry.end is MessageEnd.COMPLETED and entry.at >= completed_since:
            state.completed.append(entry)
    elif isinstance(entry, PartEnd):
        # The lane of a part may be slower than that of its sender, and its line come after the notice.
        if entry.at >= parts_since and state.told_parts.get(part_key(entry)) != entry.at:
            state.parts[part_key(entry)] = entry
    elif isinstance(entry, PartsNotice):
        state.notices[entry.notice_id] = entry
        for part in entry.parts:
            state.parts.pop(part_key(part), None)
            state.told_parts[part_key(part)] = part.at
    elif isinstance(entry, NoticeWritten):
        state.notices.pop(entry.notice_id, None)


def part_key(part: PartEnd) -> PartKey:
    return (part.parent, part.holder, *part.key)


# --- one line ---------------------------------------------------------------------------------------------------------
Entry: TypeAlias = TakenIn | PutAway | PartEnd | PartsNotice | NoticeWritten


def encode(entry: Entry) -> bytes:
    shape = _shape(entry)
    try:
        return orjson.dumps(shape) + b"\n"
    except TypeError:  # a file name that is not UTF-8: only json writes surrogates, and reads them back
        return json.dumps(shape).encode() + b"\n"


def _shape(entry: Entry) -> dict[str, object]:
    match entry:
        case TakenIn():
            return _taken_in(entry)
        case PutAway():
            return _let_go(entry)
        case PartEnd():
            return {"op": "part", **_part(entry)}
        case PartsNotice():
            return {
                "op": "notice",
                "notice_id": entry.notice_id,
                "parent": entry.parent,
                "holder": entry.holder,
                "thread_id": entry.thread_id,
                "parts": [_part(one) for one in entry.parts],
            }
        case NoticeWritten(notice_id):
            return {"op": "noticed", "notice_id": notice_id}
        case _:
            assert_never(entry)


def _part(entry: PartEnd) -> dict[str, object]:
    return {
        "parent": entry.parent,
        "holder": entry.holder,
        "message_id": entry.message_id,
        "agent": entry.agent,
        "type": entry.type,
        "end": entry.end,
        "at": entry.at,
        "reason": entry.reason,
    }


def _taken_in(entry: TakenIn) -> dict[str, object]:
    part: dict[str, object] = {"part_of": entry.part_of, "notify": entry.notify} if entry.part_of else {}
    if entry.pool:
        part["pool"] = entry.pool
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
        **part,
    }


def _let_go(entry: PutAway) -> dict[str, object]:
    return {
        "op": "out",
        "agent": entry.agent,
        "message_id": entry.message_id,
        "name": entry.name,
        "end": entry.end,
        "digest": entry.digest,
        "at": entry.at,
        **({"pool": entry.pool} if entry.pool else {}),
    }


def _read(line: bytes) -> Entry | None:
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
                part_of=str(found.get("part_of") or ""),
                notify=found.get("notify") if isinstance(found.get("notify"), bool) else None,
                pool=str(found.get("pool") or ""),
            )
        case "out":
            return PutAway(
                **_texts(found, "agent", "message_id", "name", "digest"),
                end=MessageEnd(found["end"]),
                at=_wall(found["at"]),
                pool=str(found.get("pool") or ""),
            )
        case "part":
            return _read_part(found)
        case "notice":
            texts = _texts(found, "notice_id", "parent", "holder")
            thread_id = found.get("thread_id")
            parts = tuple(map(_read_part, found["parts"]))
            return PartsNotice(**texts, parts=parts, thread_id=thread_id if isinstance(thread_id, str) else None)
        case "noticed":
            return NoticeWritten(**_texts(found, "notice_id"))
        case "stop":
            return None
        case other:
            raise ValueError(f"unknown op {other!r}")


def _read_part(found: dict[str, object]) -> PartEnd:
    texts = _texts(found, "parent", "holder", "message_id", "agent", "type", "reason")
    return PartEnd(**texts, end=MessageEnd(str(found["end"])), at=_wall(found["at"]))


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
