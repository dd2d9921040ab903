"""`ackd`: where the command line begins.

Tries without click first (quick.py), because importing it takes longer than `ackd send`; click does all the rest.
"""

from __future__ import annotations

import contextlib
import os
import sys

from ackd.frontends.cli import quick
from ackd.frontends.cli.output import put_doors


def _open_what_is_closed() -> None:
    """Whatever is opened next would get the number of a closed stdin, stdout or stderr, and Python has no stream for
    it. What is printed goes nowhere; stdin stays None, because an empty body is not what was meant (options.py)."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _leave_threads_behind(exit_code: int) -> None:
    """A plain handler that never returns cannot be ended, and Python would wait for its thread, however we end."""
    import threading

    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if any(not thread.daemon for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a reader that is gone
                stream.flush()
        os._exit(exit_code)


def main() -> None:
    _open_what_is_closed()
    put_doors()
    exit_code = quick.attempt(sys.argv[1:])
    if exit_code is not None:
        sys.exit(exit_code)
    from ackd.frontends.cli.group import cli

    try:
        cli.main(prog_name="ackd")
    except SystemExit as end:
        if sys.argv[1:2] == ["run"]:
            _leave_threads_behind(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise
