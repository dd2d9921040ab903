"""The engine's timers: which kinds there are, and when each one is due.

A timer belongs to a message (by its key), to an agent (by its name) or to the engine (by ``ENGINE``); each of them has
at most one of a kind. Times are monotonic seconds and come from the caller. ``timeouts.py`` says what is done when one
is due. Cancelling a timer that does not run is no error, because it may have come due first.
"""

from __future__ import annotations

import heapq
from typing import Final, TypeAlias

from ackd.core.words import Word


class TimerKind(Word):
    """The reason why somebody waits."""

    # Of a message. Those of one state are cancelled when it leaves that state.
    PROCESSING = "processing"  # its endpoint has not answered whether the agent was told
    STATUS = "status"  # told a moment ago: if that lasts, its header is written
    ACK = "ack"  # the ack timeout: told, and not acknowledged, so the agent's wake ladder goes on
    REMIND = "remind"  # it waits in an inbox, and nobody has looked
    TASK = "task"  # acknowledged long ago, and not completed
    RETRY = "retry"  # it failed, and is tried again after this
    DISK = "disk"  # the disk refused its move, which is asked for again
    CANCEL = "cancel"  # its agent was told that it is cancelled, and has not let go of it
    # Of a message, by its sender's word. They are started anew in each state in which they count.
    EXPIRES = "expires"  # nobody has it in hand, and it will not be delivered after this
    NEARLY_DUE = "nearly due"  # most of the time until its deadline is over: its agent is reminded
    DEADLINE = "deadline"  # it should be completed by then
    # Of an agent.
    PARK = "park"  # the agent could not be told, and is tried again
    LIVENESS = "liveness"  # the agent holds work, and its signs of life are looked at
    CHECKPOINT = "checkpoint"  # its context is full, and it was asked to write down where it stands
    OFFER = "offer"  # more mail waits than one event may offer
    # Of a pool.
    POOL = "pool"  # mail waits in its queue, and none of its members can take it
    # Of the parts of one message: its owner is "parent's id, line end, holder".
    PARTS = "parts"  # no part is open any more: is there anybody to be told?
    # Of the engine.
    RECOVERY = "recovery"  # nothing from before the start has been met for a while
    SUMMARY = "summary"  # an hour is over in which notices were held back


#: The owner of timers that belong to no message and no agent.
ENGINE: Final = ""

#: A timer, by its kind and its owner: a message's key, an agent's name, or ``ENGINE``.
Timer: TypeAlias = tuple[TimerKind, int | str]

#: Below this many, cancelled entries in the heap are not worth a rebuild.
_SMALL: Final = 64


class Timers:
    """A heap from which entries are removed late: an entry counts while ``_running`` holds that very tuple."""

    __slots__ = ("_heap", "_kinds", "_running", "_started_so_far")

    def __init__(self) -> None:
        #: (at, order of starting, timer): the number settles ties, so that owners of two types are never compared.
        self._heap: list[tuple[float, int, Timer]] = []
        self._running: dict[Timer, tuple[float, int, Timer]] = {}
        self._started_so_far = 0
        #: Kinds that were started for each owner. One that came due may still be in here.
        self._kinds: dict[int | str, set[TimerKind]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, timer: object) -> bool:
        return timer in self._running

    def start(self, kind: TimerKind, owner: int | str, at_mono: float) -> None:
        """Replace the timer if it runs already."""
        self._started_so_far += 1
        timer = (kind, owner)
        entry = (at_mono, self._started_so_far, timer)
        self._running[timer] = entry
        self._kinds.setdefault(owner, set()).add(kind)
        heapq.heappush(self._heap, entry)
        self._compact()

    def cancel(self, kind: TimerKind, owner: int | str) -> None:
        if self._running.pop((kind, owner), None) is not None:
            self._compact()

    def cancel_all(self, owner: int | str) -> None:
        kinds = self._kinds.pop(owner, None)
        if kinds is not None:
            for kind in kinds:
                self._running.pop((kind, owner), None)
            self._compact()

    def at(self, kind: TimerKind, owner: int | str) -> float | None:
        entry = self._running.get((kind, owner))
        return entry[0] if entry is not None else None

    def due(self, now_mono: float) -> list[Timer]:
        """Return the timers up to and including now, the earliest first. They run no longer."""
        timers: list[Timer] = []
        while (at := self.next()) is not None and at <= now_mono:
            timer = heapq.heappop(self._heap)[2]
            del self._running[timer]
            timers.append(timer)
        return timers

    def next(self) -> float | None:
        """Return the moment of the earliest timer; None if none runs."""
        while self._heap:
            entry = self._heap[0]
            if self._running.get(entry[2]) is entry:
                return entry[0]
            heapq.heappop(self._heap)
        return None

    def _compact(self) -> None:
        # At least half of the heap is dead when it is rebuilt, so the cost of each cancelling stays constant.
        if len(self._heap) > 2 * len(self._running) + _SMALL:
            self._heap = list(self._running.values())
            heapq.heapify(self._heap)
