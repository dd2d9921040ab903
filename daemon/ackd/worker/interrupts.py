"""SIGINT interrupts the work, and SIGTERM ends the process: nothing else of it is hurt.

Work runs in the main thread, so that a signal reaches it wherever it hangs. SIGINT is held back while a line is being
written and while there is no work: one that comes late must not tear a line, nor hurt whoever is next. Asyncio has its
own way (the task is cancelled) and is left to it. Outside the main thread there are no signals, and nothing is done.
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


#: How often the main thread is told to end until it has noticed, and how many times.
_AGAIN_S: Final = 0.05
_TIMES: Final = 100


class Ended(SystemExit):
    """By someone else's hand: SIGTERM, or nobody is left to work for."""


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
            self._open = False  # the next must not hit who deals with this one
            raise KeyboardInterrupt
        if self._by_hand:
            raise Ended(128 + signal.SIGINT)
        self._held_back = True

    def _ended(self, _number: int, _frame: FrameType | None) -> None:
        """Once: whoever cleans up is not hurt by the next."""
        if not self._ending:
            self._ending = True
            raise Ended(self.exit_code)

    def end(self, exit_code: int) -> None:
        """From any other thread: the main one leaves what it does, its ``finally`` blocks run, the process ends.

        A signal that meets it just before it begins to wait, in an event loop for example, does not end that wait; only
        the next one does.
        """
        self.exit_code = exit_code
        for _ in range(_TIMES if self._installed else 0):
            if self._ending:
                break
            signal.pthread_kill(self._main, signal.SIGTERM)
            time.sleep(_AGAIN_S)

    def forget(self) -> None:
        """What came before there was this work was not meant for it."""
        self._held_back = False

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """While the work runs."""
        self._open = self._installed
        self._catch_up()
        try:
            yield
        finally:
            self._open = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While the work has something written: what comes meanwhile interrupts it afterwards."""
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
        """``asyncio.Runner`` takes SIGINT for itself if nobody else has."""
        if not self._installed:
            yield
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._interrupted)
