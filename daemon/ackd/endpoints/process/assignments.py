"""The work that a worker has been given: from a message to an assignment, and from a word of the worker back to its
work.

``work_of`` decides which paths and how much time an assignment names: the message's file, the agent's directory and the
agent's time, unless the message's body names others. A body is hostile until it is read here; a path in it is passed on
to the worker and never opened by us, and a value of the wrong kind is ignored.

``Assignments`` matches the worker's lines to its work. A line whose message, attempt and generation are not those of
any work in hand is late: it was about an earlier assignment, and has no effect on this one.

``AgentCheckpoints`` translates checkpoints between the worker protocol and the store.
"""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadLine
from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.process.wire import Assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ackd.core.effects import TellAgent
    from ackd.core.message import Message, Place
    from ackd.endpoints.process.wire import Checkpoint, Words
    from ackd.storage import checkpoints

_MAX_PATH: Final = 4096
_MAX_TIMEOUT_S: Final = 30 * 86400.0


def work_of(
    order: TellAgent, task_id: str, body: Mapping[str, object], file: Path, cwd: Path, timeout_s: float
) -> Work:
    worktree = os.path.abspath(cwd)  # noqa: PTH100 - resolve() would follow links, and a worker may mind its path
    return Work(
        key=order.key,
        message=order.message,
        place=order.place,
        attempt=order.attempt,
        task_id=task_id,
        spec_path=_path(body.get("spec_path"), worktree) or os.path.abspath(file),  # noqa: PTH100
        worktree_path=_path(body.get("worktree_path"), worktree) or worktree,
        timeout_s=_seconds(body.get("timeout_seconds")) or timeout_s,
    )


def assignment(
    work: Work, generation: int, checkpoint: Checkpoint | None, context_threshold: float | None
) -> Assignment:
    message = work.message
    return Assignment(
        task_id=work.task_id,
        spec_path=work.spec_path,
        worktree_path=work.worktree_path,
        timeout_s=work.timeout_s,
        message_id=message.message_id,
        sender=message.sender,
        message_type=message.type,
        priority=message.priority.value,
        attempt=work.attempt,
        generation=generation,
        context_threshold=context_threshold,
        checkpoint=checkpoint,
    )


def _path(value: object, base: str) -> str | None:
    """A path from a body; a relative one is relative to the directory that the worker works in."""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _MAX_PATH:
        return None
    return os.path.normpath(os.path.join(base, value))  # noqa: PTH118


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return min(float(value), _MAX_TIMEOUT_S)


# --- work in hand -----------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Work:
    """A piece of work that the worker has in hand. Its clock runs while the worker is busy with it, and stands still
    while the worker is blocked."""

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
    #: The worker was told that the message is cancelled.
    called_off: bool = False
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
class Assignments:
    _works: dict[int, Work] = field(default_factory=dict, init=False)

    def __iter__(self) -> Iterator[Work]:
        return iter(list(self._works.values()))

    def __len__(self) -> int:
        return len(self._works)

    def get(self, key: int) -> Work | None:
        return self._works.get(key)

    def take(self, work: Work) -> None:
        """Add the work; a message that is told again replaces its earlier attempt."""
        self.drop(work.key)
        self._works[work.key] = work

    def drop(self, key: int) -> Work | None:
        work = self._works.pop(key, None)
        if work is not None:
            work.halt_clock()
        return work

    def task_id_for(self, key: int, message: Message) -> str:
        """The message's own task id, unless other work in hand has it: answers must tell them apart."""
        taken = {work.task_id for work in self if work.key != key}
        own = message.task_id
        return own if own is not None and own not in taken else message.message_id

    def about(self, words: Words, generation: int) -> Work | None:
        """The work that a word is about. None for a late word, and for one that is about no work."""
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


# --- checkpoints ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AgentCheckpoints:
    store: checkpoints.CheckpointFiles
    agent: str

    async def keep(self, message_id: str, checkpoint: Checkpoint) -> None:
        await self.store.keep(self.agent, message_id, checkpoint.value())

    def read(self, message_id: str) -> Checkpoint | None:
        kept = self.store.read(self.agent, message_id)
        if kept is None:
            return None
        try:
            return worker_json.checkpoint(kept)
        except BadLine:
            return None
