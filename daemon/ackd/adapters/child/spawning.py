"""Starting one child: its own session, three pipes, and a leash: it dies with us.

Owns what a child inherits. Refuses to know what it is for. Fails with OSError or ValueError, as the kernel refuses;
then nothing was started.

The parent-death signal must be set by the child itself. A ``preexec_fn`` would do that in a copy of this process, which
has threads: should the copy hang, so do we. So another program sets it and becomes the child's: util-linux's setpriv,
or where that is missing this Python, which takes some 15 ms longer.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Arguments: the parent's pid, the command. If the parent died before the signal was set, none will come.
_LEASH: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(sys.argv[1]) or os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Spawned:
    """``stdin``, ``stdout``, ``stderr`` are our ends of its pipes, and never block."""

    process: subprocess.Popen[bytes]
    pidfd: int
    stdin: int
    stdout: int
    stderr: int


def spawn(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Spawned:
    """``command`` begins with an absolute path."""
    # The signal comes when the thread that forked ends, and the main thread is the last to.
    assert threading.current_thread() is threading.main_thread(), "a child of another thread would die with that"
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
        child_in, stdin = _pipe(its, ours)
        stdout, child_out = _pipe(ours, its)
        stderr, child_err = _pipe(ours, its)
        process = subprocess.Popen(
            [*leash(), *command],
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
        pidfd = _held(process)
        ours.pop_all()
    for fd in (stdin, stdout, stderr):
        os.set_blocking(fd, False)
    return Spawned(process, pidfd, stdin, stdout, stderr)


def leash() -> tuple[str, ...]:
    """What stands before a command, so that it is killed when we die."""
    setpriv = _setpriv()
    if setpriv is not None:
        return (setpriv, "--pdeathsig", "KILL", "--")
    return (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()))


@cache
def _setpriv() -> str | None:
    found = shutil.which("setpriv")
    if found is None:
        return None
    asked = subprocess.run([found, "--help"], capture_output=True, check=False, timeout=10)
    return found if b"--pdeathsig" in asked.stdout else None  # util-linux before 2.33 and busybox have none


def _pipe(of_reader: contextlib.ExitStack, of_writer: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    of_reader.callback(os.close, reader)
    of_writer.callback(os.close, writer)
    return reader, writer


def _held(process: subprocess.Popen[bytes]) -> int:
    try:
        return os.pidfd_open(process.pid)
    except OSError:  # no descriptors: what we cannot hold we do not keep
        process.kill()
        process.wait()
        raise
