"""Which lines of the session logs are wanted, as a value. Pure.

``takes`` is the meaning of a query: the index only narrows down where to look, and every line that is found there is
asked again. ``marks_of`` with ``keys_of``, and ``LineQuery.lookups``, must agree: a line that a query takes has, for
each of its conditions, one of the keys that are looked up. Never fails, whatever a line's data holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core import message_ids
from ackd.core.message import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.storage.session_log.lines import Line

#: The longest key that is kept, in characters. Longer ids share the key of their beginning, and are told apart by
#: reading the line.
LONGEST_KEY: Final = 200

_ABOUT: Final = ("message_id", "in_reply_to", "escalation_id")
_NAMES: Final = ("agent", "pool", "from", "to", "a", "b")
#: The first byte of a key says what the key is about.
MESSAGE: Final = b"m"
_HASH: Final = b"h"
_REPLY: Final = b"r"
_ESCALATION: Final = b"e"
_THREAD: Final = b"t"
_AGENT: Final = b"a"
_ALONE: Final = b"n"
TYPE: Final = b"y"
_KIND_OF: Final = {
    "message_id": MESSAGE,
    "in_reply_to": _REPLY,
    "escalation_id": _ESCALATION,
    "thread_id": _THREAD,
}
#: Text that stands in a line of JSON as it is. Anything else may be written in more than one way.
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]+")


class Lookup(NamedTuple):
    """A key to look up. ``beginning``: any key that begins so."""

    key: bytes
    beginning: bool = False


@dataclass(frozen=True, slots=True)
class LineQuery:
    """Which lines are wanted. All conditions that are given must hold; without any, every line is.

    ``about``: the line has this id as its message, as what it replies to, or as the escalation that it is.
    ``message``: the line's message is this one: an id, a beginning of one, or its hash. ``in_reply_to``, ``thread``,
    ``escalation``: the line has exactly this. ``agent``: the line is about this agent, or names it as sender, as the
    one told, or as a member of a loop. ``alone``: the line is about this agent and names no message. ``types``:
    alternatives (``is_of_type``). ``since`` and ``until``: wall-clock seconds, both included.
    """

    about: str | None = None
    message: str | None = None
    in_reply_to: str | None = None
    thread: str | None = None
    escalation: str | None = None
    agent: str | None = None
    alone: str | None = None
    types: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None

    def takes(self, line: Line) -> bool:
        data = line.data
        return (
            (self.about is None or any(data.get(key) == self.about for key in _ABOUT))
            and (self.message is None or message_ids.fits(self.message, message_of(line)))
            and (self.in_reply_to is None or data.get("in_reply_to") == self.in_reply_to)
            and (self.thread is None or data.get("thread_id") == self.thread)
            and (self.escalation is None or data.get("escalation_id") == self.escalation)
            and (self.agent is None or concerns(line, self.agent))
            and (self.alone is None or ("message_id" not in data and _is_name(data.get("agent"), self.alone)))
            and (not self.types or any(is_of_type(line.type, wanted) for wanted in self.types))
            and (self.since is None or line.at >= self.since)
            and (self.until is None or line.at <= self.until)
        )

    def lookups(self) -> Iterator[tuple[Lookup, ...]]:
        """Yield the keys of each condition, which are alternatives. Conditions of time have none."""
        if self.about is not None:
            yield tuple(Lookup(_key(_KIND_OF[key], self.about)) for key in _ABOUT)
        if self.message is not None:
            kinds = (MESSAGE, _HASH) if message_ids.may_be_hash(self.message) else (MESSAGE,)
            yield tuple(Lookup(_key(kind, self.message), beginning=True) for kind in kinds)
        for kind, wanted in ((_REPLY, self.in_reply_to), (_THREAD, self.thread), (_ESCALATION, self.escalation)):
            if wanted is not None:
                yield (Lookup(_key(kind, wanted)),)
        for kind, name in ((_AGENT, self.agent), (_ALONE, self.alone)):
            if name is not None:
                yield (Lookup(_key(kind, identity(name))),)
        if self.types:
            yield tuple(one for wanted in self.types for one in _lookups_of_type(wanted))

    def hint(self) -> re.Pattern[bytes] | None:
        """Return what stands in every line that is taken, for passing over lines without parsing them; None: no hint.

        A backslash fits, too: the text may be written with escapes in that line.
        """
        for text in (self.about, self.message, self.in_reply_to, self.thread, self.escalation):
            if text is not None and _PLAIN.fullmatch(text):
                return re.compile(re.escape(text).encode() + rb"|\\")
        for name in (self.alone, self.agent):
            if name is not None and _PLAIN.fullmatch(name):
                spellings = "[-_]".join(map(re.escape, re.split("[-_]", name)))
                return re.compile(b'"' + spellings.encode() + b'"' + rb"|\\")
        return None


def is_of_type(type_: str, wanted: str) -> bool:
    """``message_dead`` is taken by its name, by its family ``message`` and by its last word ``dead``."""
    return type_ == wanted or type_.startswith(f"{wanted}_") or type_ == f"message_{wanted}"


def concerns(line: Line, agent: str) -> bool:
    """Tell whether the line is about the agent, or names it as sender, as the one told, or as a member of a loop."""
    return any(_is_name(line.data.get(key), agent) for key in _NAMES)


def marks_of(line: Line) -> set[tuple[bytes, str]]:
    """Return all that the line can be looked up by: what each is about, and its text. ``keys_of`` makes keys of it."""
    data = line.data
    found = {(TYPE, line.type)}
    for name, kind in _KIND_OF.items():
        if isinstance(said := data.get(name), str):
            found.add((kind, said))
    for name in _NAMES:
        if isinstance(said := data.get(name), str):
            found.add((_AGENT, said))
    if "message_id" not in data and isinstance(said := data.get("agent"), str):
        found.add((_ALONE, said))
    return found


def keys_of(kind: bytes, text: str) -> tuple[bytes, ...]:
    """Return the keys of one of a line's marks."""
    if kind == MESSAGE and (hash_ := message_ids.hash_part(text)):
        return _key(MESSAGE, text), _key(_HASH, hash_)
    return (_key(kind, identity(text) if kind in (_AGENT, _ALONE) else text),)


def key_of_type(type_: str) -> bytes:
    return _key(TYPE, type_)


def _lookups_of_type(wanted: str) -> tuple[Lookup, ...]:
    family = Lookup(_key(TYPE, f"{wanted}_"), beginning=True)
    return Lookup(_key(TYPE, wanted)), family, Lookup(_key(TYPE, f"message_{wanted}"))


def _key(kind: bytes, text: str) -> bytes:
    return kind + text[:LONGEST_KEY].encode("utf-8", "replace")


def _is_name(said: object, agent: str) -> bool:
    return isinstance(said, str) and identity(said) == identity(agent)


def message_of(line: Line) -> str:
    """Return the id of the message that the line is about; empty if there is none, or if it is no text."""
    said = line.data.get("message_id")
    return said if isinstance(said, str) else ""
