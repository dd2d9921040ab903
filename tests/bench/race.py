"""Senders and a consumer, processes of their own, started together: how long until the last message is through.

Forked from a process without threads, so that nobody pays for imports while the clock runs. ``ready()`` in each of them
waits for all the others; the clock starts when the last one is there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.context import ForkProcess

PATIENCE_S = 300.0
_FORK = multiprocessing.get_context("fork")


class Work(Protocol):
    """Prepares, calls ``ready``, works, returns."""

    def __call__(self, ready: Callable[[], object], /) -> None: ...


class BenchFailed(Exception):  # noqa: N818 - says what became of the bench
    """A process of a bench failed, or nothing came through in time."""


def seconds(senders: Sequence[Work], consumer: Work) -> float:
    """From the common start to the return of ``consumer``."""
    started_at, ended_at = _FORK.Value("d", 0.0), _FORK.Value("d", 0.0)

    def starts() -> None:  # in whoever comes last: others may get to run much later
        started_at.value = time.monotonic()

    start = _FORK.Barrier(len(senders) + 2, starts)

    def consuming(ready: Callable[[], object]) -> None:
        consumer(ready)
        ended_at.value = time.monotonic()

    with contextlib.ExitStack() as stack:
        crew = [stack.enter_context(_process(work, start.wait)) for work in (consuming, *senders)]
        _wait_for_start(start.wait, crew)
        give_up_at = time.monotonic() + PATIENCE_S
        for process in crew:
            _join(process, crew, give_up_at)
    return float(ended_at.value - started_at.value)


def share(count: int, senders: int, number: int) -> range:
    """The numbers of the messages that this sender sends."""
    return range(number, count, senders)


@contextlib.contextmanager
def background(work: Work) -> Iterator[None]:
    """``work`` in a process of its own, ready when this returns, ended at the latest with the block."""
    start = _FORK.Barrier(2)
    with _process(work, start.wait) as process:
        _wait_for_start(start.wait, [process])
        yield


@contextlib.contextmanager
def _process(work: Work, ready: Callable[[], object]) -> Iterator[ForkProcess]:
    process = _FORK.Process(target=_guarded, args=(work, ready), daemon=True)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def _guarded(work: Work, ready: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        work(ready)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must see that there was one
        traceback.print_exc()
        os._exit(1)


def _wait_for_start(wait: Callable[[float], object], crew: Sequence[ForkProcess]) -> None:
    from threading import BrokenBarrierError

    try:
        wait(60.0)
    except BrokenBarrierError:
        dead = [process.exitcode for process in crew if process.exitcode]
        raise BenchFailed(f"not everyone was ready; exit codes {dead}") from None


def _join(process: ForkProcess, crew: Sequence[ForkProcess], give_up_at: float) -> None:
    """A sender that failed is known at once, and not when the consumer has waited in vain."""
    while process.exitcode is None:
        process.join(0.2)
        if any(one.exitcode for one in crew):
            raise BenchFailed("a process of the bench failed, see above")
        if time.monotonic() > give_up_at:
            raise BenchFailed(f"not through within {PATIENCE_S:.0f} s")
    if process.exitcode:
        raise BenchFailed("a process of the bench failed, see above")
