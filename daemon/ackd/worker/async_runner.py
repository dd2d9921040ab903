"""Runs ``async`` work, one function after the other on one event loop.

Python has ``asyncio.Runner`` for that since 3.11; ``OlderRunner`` does the same for Python 3.9 and 3.10. SIGINT cancels
the work, which then ends with KeyboardInterrupt; a second SIGINT interrupts it wherever it is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType


class AsyncRunner(Protocol):
    def run(self, coro: Coroutine[Any, Any, Any], /) -> Any: ...
    def close(self) -> None: ...


def make_runner() -> AsyncRunner:
    return asyncio.Runner() if sys.version_info >= (3, 11) else OlderRunner()


class OlderRunner:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._interrupts = 0
        asyncio.set_event_loop(self._loop)  # Python 3.9 looks there when a queue or a lock is made

    def run(self, coro: Coroutine[Any, Any, Any], /) -> Any:
        task = self._loop.create_task(coro)
        self._interrupts = 0

        def interrupted(_number: int, _frame: FrameType | None) -> None:
            self._interrupts += 1
            if self._interrupts > 1 or task.done():
                raise KeyboardInterrupt
            task.cancel()
            self._loop.call_soon_threadsafe(lambda: None)  # a loop that waits for a file would not look otherwise

        ours = threading.current_thread() is threading.main_thread()
        ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:
            signal.signal(signal.SIGINT, interrupted)
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._interrupts:
                raise KeyboardInterrupt from None
            raise
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def close(self) -> None:
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True)) if left else None
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()
