"""The machine as ackd's modules see it: ``os``, ``io``, ``fcntl``, ``time`` and threads, led to the simulation.

Owns the list of what is replaced, for as long as ``replaced`` lasts. Only paths below ``ROOT`` and descriptors of the
kernel in memory are led there; everything else is this process's own, as ever. So every module of ackd runs as it is.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import gc
import io
import os
import secrets
import shutil
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import anyio.from_thread
import anyio.to_thread

from ackd.runtime import status_page, upkeep
from ackd.system import syscalls
from tests.simulation.kernel import FIRST_FD, Kernel

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from tests.simulation.timeline import Timeline

ROOT: Final = "/simulated"
#: Larger than any that Linux gives (PID_MAX_LIMIT): whether its writer lives is asked of the real /proc.
PID: Final = 42_424_242
#: A file system whose size nobody knows: there is room as long as no fault says otherwise.
ROOM: Final = SimpleNamespace(f_flag=0, f_blocks=0, f_frsize=4096, f_bavail=0, f_files=0, f_favail=0)
_CALLS: Final = (
    "open close dup read pread write pwrite lseek ftruncate fsync fdatasync fchmod stat lstat fstat scandir listdir "
    "mkdir rmdir unlink rename replace chmod utime"
).split()


@contextlib.contextmanager
def replaced(kernel: Kernel, timeline: Timeline, rng: random.Random) -> Iterator[None]:
    with contextlib.ExitStack() as patches:

        def put(owner: Any, name: str, value: Any) -> None:
            patches.enter_context(mock.patch.object(owner, name, value))

        for name in _CALLS:
            put(os, name, _led(getattr(os, name), getattr(kernel, name)))
        opened = _led(io.open, kernel.open_file)
        put(io, "open", opened)
        put(builtins, "open", opened)
        put(os, "fdopen", opened)
        put(os, "remove", os.unlink)
        put(shutil, "rmtree", _led(shutil.rmtree, kernel.rmtree))
        put(fcntl, "flock", _led(fcntl.flock, kernel.flock))
        put(fcntl, "fcntl", _led(fcntl.fcntl, kernel.fcntl))
        put(syscalls, "_renameat2", _renameat2(kernel))
        put(syscalls, "born_at_ns", _led(syscalls.born_at_ns, kernel.born_at_ns))
        put(os, "getpid", lambda: PID)
        put(os, "statvfs", _led(os.statvfs, lambda _: ROOM))
        put(status_page, "_spare_descriptor", lambda: None)
        put(upkeep, "PROBE_EVERY_S", 15.0)  # it wakes for nothing nearly always, and an hour has 3600 seconds
        put(upkeep, "ROOM_EVERY_S", 600.0)  # the same
        put(gc, "freeze", lambda: None)  # a daemon that died would never be collected
        put(os, "urandom", rng.randbytes)
        put(secrets, "token_hex", lambda size: rng.randbytes(size).hex())
        put(time, "time", lambda: timeline.wall)
        put(time, "time_ns", lambda: int(timeline.wall * 1e9))
        put(time, "monotonic", lambda: timeline.mono)
        put(time, "sleep", _no_sleep)
        put(anyio.to_thread, "run_sync", _in_thread)
        put(anyio.from_thread, "check_cancelled", lambda: None)
        yield


def _led(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *args: Any, **how: Any) -> Any:
        if isinstance(first, int):
            return (simulated if first >= FIRST_FD else real)(first, *args, **how)
        path = first.__fspath__() if hasattr(first, "__fspath__") else first
        if not isinstance(path, str):
            return real(first, *args, **how)
        if path.startswith(ROOT) or (how and (how.get("dir_fd") or 0) >= FIRST_FD):
            return simulated(path, *map(_plain, args), **how) if args else simulated(path, **how)
        return real(first, *args, **how)

    return call


def _plain(argument: Any) -> Any:
    return argument.__fspath__() if hasattr(argument, "__fspath__") else argument


def _renameat2(kernel: Kernel) -> Callable[..., bool]:
    real = syscalls._renameat2

    def call(source: str, target: str, flags: int, source_dir: int = -100, target_dir: int = -100) -> bool:
        simulated = source.startswith(ROOT) or source_dir >= FIRST_FD
        return (kernel.renameat2 if simulated else real)(source, target, flags, source_dir, target_dir)

    return call


def _no_sleep(seconds: float) -> None:
    raise AssertionError(f"the event loop was to sleep for {seconds} s")


async def _in_thread(func: Callable[..., Any], *args: Any, **_: Any) -> Any:
    import asyncio

    return await asyncio.get_running_loop().run_in_executor(None, func, *args)
