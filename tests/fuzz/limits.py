"""The bounds of one run: so much processor time, so much memory, and not more.

Processor time, not the clock on the wall: a busy machine makes nobody guilty. What waits for something that never comes
uses none of it; pytest's and libFuzzer's own timeouts are there for that.
"""

from __future__ import annotations

import contextlib
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

CPU_S: Final = 5.0
#: Beyond what the process has already; no input is larger than a megabyte or two.
MEMORY_BYTES: Final = 1 << 30


class TooSlow(BaseException):
    """Not an Exception: nobody who handles errors may take it for one."""


@contextlib.contextmanager
def bounded(cpu_s: float = CPU_S, memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """TooSlow or MemoryError for what goes beyond. In the main thread only, as signals have it."""
    before = signal.signal(signal.SIGPROF, _too_slow)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(soft, limit), hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()
