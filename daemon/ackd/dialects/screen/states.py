"""What an agent's screen can say. ``text`` is the part that said so, one printable line for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Ready:
    """It waits for a line. The only state in which one is typed, if nobody's words stand on the input line."""


@dataclass(frozen=True, slots=True)
class Busy:
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """It asks for a permission: whatever is typed may be the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Limit:
    """``until``: when it is over, in wall seconds; None where the screen does not say."""

    text: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Menu:
    text: str


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell's prompt where the agent was: what is typed would be run."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing that the profile knows. Nothing is typed; while the screen changes its agent is taken for busy, and once
    it stands still someone is told. ``text``: its last row."""

    text: str


State: TypeAlias = Ready | Busy | Prompt | Limit | Menu | Shell | Unknown


@dataclass(frozen=True, slots=True)
class Reading:
    """``typed``: what stands on the input line, "" if that is empty; None where none is to be seen."""

    state: State
    typed: str | None = None
    context_usage: float | None = None

    @property
    def is_idle(self) -> bool:
        """It waits for a line, and nobody's words stand where one would be typed."""
        return isinstance(self.state, Ready) and self.typed == ""
