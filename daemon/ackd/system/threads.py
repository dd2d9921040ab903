"""Work that may take long, in a thread beside the event loop.

A machine that has no room for another thread is an OSError (EAGAIN), as it is when it has none for another process:
callers that wait for a disk know what to do about that, and nobody expects a RuntimeError.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


async def in_thread(
    work: Callable[[*_Args], _T],
    *args: *_Args,
    abandon_on_cancel: bool = False,
    limiter: anyio.CapacityLimiter | None = None,
) -> _T:
    try:
        return await anyio.to_thread.run_sync(work, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
    except RuntimeError as error:
        raise refused_thread(error) from error


def refused_thread(error: RuntimeError) -> OSError:
    """Return the OSError to raise for the RuntimeError of a thread that could not be started: a fault of the machine is
    known by its errno. Any other RuntimeError is raised as it is."""
    if str(error) != "can't start new thread":
        raise error
    return OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: no thread could be started")
