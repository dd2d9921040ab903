"""Says on a terminal that a command waits and for what, once that takes longer than a moment; and, if Ctrl-C ends the
wait, what stays.

The words go to stderr, and only to a terminal: a program that reads the output is told nothing new by them. A timer of
the kernel brings them, because a command waits in many ways (for a file, a lock, the log) and none of them should know.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from ackd.cli.output import echo, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Most answers come sooner, and need no words about a wait.
MOMENT_S: Final = 0.4


@contextlib.contextmanager
def waiting(words: str, *, stays: str = "") -> Iterator[None]:
    """Say "waiting WORDS" if the block takes longer than a moment. ``stays``: said after Ctrl-C."""
    notice = Notice(words)
    notice.begin()
    try:
        yield
    except KeyboardInterrupt:
        if stays:
            echo(f"ackd: {printable(stays)}", err=True)
        raise
    finally:
        notice.end()


class Notice:
    """The words about one wait. Nothing is said where stderr is no terminal, or outside of the main thread."""

    def __init__(self, words: str) -> None:
        self._words = f"waiting {printable(words)}; Ctrl-C ends the wait"
        self._text = b""
        self._before: object = None
        self._has_begun = False

    def begin(self) -> None:
        if not sys.stderr.isatty():
            return
        import signal

        from ackd.cli.table import folded_under, terminal_width

        lines = folded_under(self._words, "", "  ", terminal_width(sys.stderr))
        self._text = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        try:
            self._before = signal.signal(signal.SIGALRM, self._say)
        except ValueError:
            return
        self._has_begun = True
        signal.setitimer(signal.ITIMER_REAL, MOMENT_S)

    def end(self) -> None:
        if self._has_begun:
            import signal

            self._has_begun = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type]

    def _say(self, *_: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), self._text)  # not the stream, which may be writing just now
