"""What a worker has in hand: which task is which message, and whether a word is about it.

Owns the match of words to work. A word whose echoes (message, attempt, generation) are not those of the work in hand is
late: it was said about an earlier telling, and means nothing for this one. Refuses to act on any. Cannot fail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.core.message import Message, Place
    from ackd.dialects.worker_json import Words


@dataclass(eq=False)
class Work:
    """One assignment. ``clock`` runs while its worker is at it, and stands still while it is blocked."""

    key: int
    message: Message
    place: Place
    attempt: int
    task_id: str
    spec_path: str
    worktree_path: str
    timeout_s: float
    seen: bool = False
    handed_over: bool = False
    _left_s: float = field(init=False)
    _clock: asyncio.TimerHandle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._left_s = self.timeout_s

    def run_clock(self, ring: Callable[[Work], None]) -> None:
        if self._clock is None:
            self._clock = asyncio.get_running_loop().call_later(self._left_s, ring, self)

    def halt_clock(self) -> None:
        if self._clock is not None:
            self._left_s = max(0.0, self._clock.when() - asyncio.get_running_loop().time())
            self._clock.cancel()
            self._clock = None


@dataclass(eq=False)
class Hand:
    _works: dict[int, Work] = field(default_factory=dict, init=False)

    def __iter__(self) -> Iterator[Work]:
        return iter(list(self._works.values()))

    def __len__(self) -> int:
        return len(self._works)

    def get(self, key: int) -> Work | None:
        return self._works.get(key)

    def take(self, work: Work) -> None:
        """Told again, it is the same message with another attempt."""
        self.drop(work.key)
        self._works[work.key] = work

    def drop(self, key: int) -> Work | None:
        work = self._works.pop(key, None)
        if work is not None:
            work.halt_clock()
        return work

    def task_id_for(self, key: int, message: Message) -> str:
        """The message's own, unless another in hand has it: answers must tell them apart."""
        taken = {work.task_id for work in self if work.key != key}
        own = message.task_id
        return own if own is not None and own not in taken else message.message_id

    def about(self, words: Words, generation: int) -> Work | None:
        """The work that is meant. None for a late word, and for one that is about none."""
        if words.generation is not None and words.generation != generation:
            return None
        meant = [work for work in self if _is_meant(words, work)]
        return meant[0] if len(meant) == 1 else None


def _is_meant(words: Words, work: Work) -> bool:
    return (
        words.task_id in (None, work.task_id)
        and words.message_id in (None, work.message.message_id)
        and words.attempt in (None, work.attempt)
    )
