"""A fact in plain English: the sentence of a line of the session log.

The sentences stand where the facts are declared (core.fact); here a line's fields become the words in them, each value
harmless for a terminal. Never fails: a type that nobody declared is shown key by key, and a missing field as ``?``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ackd.core.message_facts import evidence, progress
from ackd.facts.harmless import duration, local_time, short_id, visible
from ackd.facts.table import FACTS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LogLine", "agent_of", "evidence", "progress_words", "words"]


class LogLine(Protocol):
    """A line of a session log, as far as it is shown."""

    @property
    def type(self) -> str: ...

    @property
    def data(self) -> Mapping[str, Any]: ...

    @property
    def at(self) -> float: ...


def words(line: LogLine) -> str:
    """The sentence that says what happened, without time, kind, id and agent."""
    declared = FACTS.get(line.type)
    return declared.sentence(_Fields(line.data)) if declared is not None else _generic(line.data)


def agent_of(line: LogLine) -> str:
    """The agent that the line is about: the recipient, or who reports progress."""
    agent = line.data.get("from" if line.type == progress.type else "agent")
    return agent if isinstance(agent, str) else ""


def progress_words(data: Mapping[str, Any]) -> str:
    """Progress in the seed's one-line format; what was not said is a dash."""
    return FACTS["progress"].sentence(_Fields(data))


class _Fields:
    """A line's fields as words (``core.fact.Shown``)."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> str:
        return _word(self.data[key]) if key in self.data else "?"

    def __call__(self, key: str, shape: str = "{}") -> str:
        value = self.data.get(key)
        return shape.format(_word(value)) if value not in (None, "", False) else ""

    def mark(self, key: str, words: str) -> str:
        return words if self.data.get(key) else ""

    def time(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(duration(value)) if isinstance(value, int | float) else ""

    def id(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(short_id(value)) if isinstance(value, str) else ""

    def counts(self, key: str) -> str:
        counts = self.data.get(key)
        if not isinstance(counts, dict):
            return ""
        return ", ".join(f"{visible(count)} {visible(name)}" for name, count in counts.items() if count)

    def percent(self, key: str) -> str:
        share = self.data.get(key)
        return f"{share:.0%}" if isinstance(share, int | float) else "?"

    def shown(self, value: object) -> str:
        return _word(value)


def _word(value: object) -> str:
    """A field's value for people, who are shown a time by their own clock."""
    if isinstance(value, str) and value.endswith("Z") and 20 <= len(value) <= 27 and value[10:11] == "T":
        return local_time(value)
    return visible(value)


def _generic(data: Mapping[str, Any]) -> str:
    return " ".join(f"{visible(k)}={_word(v)}" for k, v in data.items() if k not in ("message_id", "agent"))
