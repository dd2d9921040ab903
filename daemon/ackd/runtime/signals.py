"""Hands signals (core/signals) to those who have subscribed to their type.

Subscribers are called at once, in the order in which they subscribed. An exception in one of them is a bug, and ends
the turn like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ackd.core.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=Signal)


class Signals:
    def __init__(self) -> None:
        self._subscribers: dict[type[Signal], list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[S], hear: Callable[[S], None]) -> None:
        """Call ``hear`` for every signal of exactly this type that is emitted from now on."""
        self._subscribers.setdefault(kind, []).append(hear)

    def emit(self, signal: Signal) -> None:
        for hear in self._subscribers.get(type(signal), ()):
            hear(signal)
