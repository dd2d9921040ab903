"""Signals of a worker: SIGINT interrupts the task in progress, SIGTERM ends the process.

Work runs in the main thread, so that a signal reaches it wherever it hangs. SIGINT is held back while a line is being
written and while there is no work, because a late signal must neither tear a line nor interrupt the next task. Asyncio
handles SIGINT itself (it cancels the task) and is left to do so. Python delivers signals to the main thread only, so
nothing is installed when the worker runs in another thread.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


#: SIGTERM is sent to the main thread every ``_AGAIN_S`` until it has noticed, at most ``_TIMES`` times.
_AGAIN_S: Final = 0.05
_TIMES: Final = 100


class EndedByOthers(SystemExit):
    """The process ends on somebody else's decision: by SIGTERM, or because ackd has gone."""


class Interrupts:
    def __init__(self, *, by_hand: bool) -> None:
        self.exit_code = 128 + signal.SIGTERM
        self._by_hand = by_hand  # a person at a terminal: Ctrl-C ends what has nothing to do
        self._main = threading.get_ident()
        self._installed = threading.current_thread() is threading.main_thread()
        self._open = False
        self._held_back = False
        self._ending = False
        if self._installed:
            signal.signal(signal.SIGINT, self._interrupted)
            signal.signal(signal.SIGTERM, self._ended)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        if self._open:
            self._open = False  # a second SIGINT must not interrupt the code that handles this one
            raise KeyboardInterrupt
        if self._by_hand:
            raise EndedByOthers(128 + signal.SIGINT)
        self._held_back = True

    def _ended(self, _number: int, _frame: FrameType | None) -> None:
        """Raise ``EndedByOthers`` for the first SIGTERM only, so that a second one does not interrupt the clean-up."""
        if not self._ending:
            self._ending = True
            raise EndedByOthers(self.exit_code)

    def end(self, exit_code: int) -> None:
        """End the process from another thread: the main thread is interrupted, and its ``finally`` blocks run.

        A signal that arrives just before the main thread begins to wait, in an event loop for example, does not end
        that wait. Only the next one does, which is why the signal is repeated.
        """
        self.exit_code = exit_code
        for _ in range(_TIMES if self._installed else 0):
            if self._ending:
                break
            signal.pthread_kill(self._main, signal.SIGTERM)
            time.sleep(_AGAIN_S)

    def forget(self) -> None:
        """Drop a SIGINT that was held back before this task began: it was not meant for this task."""
        self._held_back = False

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let SIGINT interrupt the body of this context: the work."""
        self._open = self._installed
        self._catch_up()
        try:
            yield
        finally:
            self._open = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold SIGINT back while the work writes a line; one that arrives meanwhile interrupts the work afterwards."""
        if threading.get_ident() != self._main:
            yield
            return
        was_open, self._open = self._open, False
        try:
            yield
        finally:
            self._open = was_open
        self._catch_up()

    def _catch_up(self) -> None:
        if self._open and self._held_back:
            self._held_back = self._open = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def left_to_asyncio(self) -> Iterator[None]:
        """Restore Python's own SIGINT handler meanwhile: ``asyncio.Runner`` installs its own only over that one."""
        if not self._installed:
            yield
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._interrupted)
