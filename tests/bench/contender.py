"""Somebody else's queue doing the same work: 1 KB put by each sender, taken, handled, acknowledged.

Owns how a peer is driven, so that all of them are driven alike; each module in peers/ knows one of them. Where a peer has
no way to wait for a message, it is asked every millisecond, which is more often than its own worker would.
"""

from __future__ import annotations

import importlib.util
import shutil
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tests.bench import pace, race
from tests.bench.figures import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.bench.scale import Scale

PAYLOAD_BYTES = 1024
ASK_EVERY_S = 0.001


class Queue(Protocol):
    """One process's access to the peer."""

    def put(self, payloads: Sequence[bytes]) -> None:
        """Returns when all of them are accepted, as safely as the setting allows."""

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        """Until ``count`` messages are handled and acknowledged."""


@dataclass(frozen=True)
class Contender:
    """``serving`` prepares a place and gives a function that opens a queue there.

    ``together``: how many a sender puts at a time. ``threads``: it is made for the threads of one process.
    """

    name: str
    setting: str
    module: str
    serving: Callable[[Path], AbstractContextManager[Callable[[], Queue]]]
    program: str = ""
    together: int = 1
    threads: bool = False

    def why_not(self) -> str:
        """Empty: it can run."""
        if self.program and shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if importlib.util.find_spec(self.module) is None:
            return f"the package {self.module} is not installed (extra: bench)"
        return ""

    def measure(self, run: Callable[[], float], values: list[float], tell: Callable[[str], None]) -> None:
        """One more value, if it can run. Should it fail, that is its own line and costs nobody else's figures."""
        if self.why_not():
            return
        try:
            values.append(run())
        except race.BenchFailed as failure:
            tell(f"{self.name}: {failure}")
        else:
            tell(f"{self.name} {values[-1]:.2f}")

    def row(self, bench: str, unit: str, values: Sequence[float]) -> Peer:
        why_not = "" if values else self.why_not() or "it failed"
        return Peer(bench, self.name, self.setting, unit, tuple(values), why_not)

    def throughput(self, place: Path, scale: Scale) -> float:
        """Messages per second."""
        place.mkdir(parents=True)
        with self.serving(place) as opened:
            shares = [race.share(scale.messages, scale.senders, number) for number in range(scale.senders)]
            senders = [partial(self._send, opened, share) for share in shares]
            return scale.messages / self._seconds(senders, partial(_take, opened, scale.messages, _check))

    def latency(self, place: Path, count: int) -> list[float]:
        """Milliseconds from before ``put`` to the handling."""
        place.mkdir(parents=True)
        sent, called = place / "sent", place / "called"
        with self.serving(place) as opened:
            sender = partial(pace.paced, sent, count, lambda: _putter(opened()))
            taker = partial(_take, opened, count + pace.WARM_UP, lambda data: pace.note(called, number_in(data)))
            self._seconds([sender], taker)
        at, taken = pace.read(sent), pace.read(called)
        return pace.waits_ms({number: at[number] for number in taken}, taken)  # what it lost was said and is not timed

    def _send(self, opened: Callable[[], Queue], share: range, ready: Callable[[], object]) -> None:
        queue = opened()
        ready()
        for start in range(0, len(share), self.together):
            queue.put([payload(number) for number in share[start : start + self.together]])

    def _seconds(self, senders: Sequence[race.Work], consumer: race.Work) -> float:
        if not self.threads:
            return race.seconds(senders, consumer)
        return race.seconds([], partial(_in_threads, senders, consumer))


def payload(number: int) -> bytes:
    return b"%012d" % number + b"." * (PAYLOAD_BYTES - 12)


def number_in(payload: bytes) -> int:
    return int(payload[:12])


def _putter(queue: Queue) -> Callable[[int], None]:
    return lambda number: queue.put([payload(number)])


def _check(data: bytes) -> None:
    """The agent. It looks at what it got, so that a peer that hands over less is found out."""
    if len(data) != PAYLOAD_BYTES:
        raise race.BenchFailed(f"{len(data)} bytes came instead of {PAYLOAD_BYTES}")


def _take(
    opened: Callable[[], Queue], count: int, handle: Callable[[bytes], None], ready: Callable[[], object]
) -> None:
    queue = opened()
    ready()
    queue.take(count, handle)


def _in_threads(senders: Sequence[race.Work], consumer: race.Work, ready: Callable[[], object]) -> None:
    """All in one process. The race is told that we are ready when all the threads are."""

    def go() -> None:
        ready()

    start = threading.Barrier(len(senders) + 1, action=go)
    threads = [threading.Thread(target=sender, args=(start.wait,), daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    consumer(start.wait)
    for thread in threads:
        thread.join()
