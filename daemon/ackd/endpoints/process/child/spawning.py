"""Starts one child: with a session of its own, three pipes, killed when we die, and in a control group if we may make
one.

Fails with OSError or ValueError, as the kernel refuses; then nothing was started.

The parent-death signal must be set by the child itself. A ``preexec_fn`` would do that in a copy of this process, which
has threads: should the copy hang, so would we. So another program sets it and becomes the child: util-linux's setpriv,
or where that is missing this Python, which takes some 15 ms longer.

A control group is used where the service manager has handed us ours to divide (``Delegate=yes``). No process leaves a
control group by itself: one that cleaned its environment and fled its session is still in it. Without a control group a
child is known by the mark in its environment.
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
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Arguments: the parent's pid, the command. If the parent died before the signal was set, no signal will come.
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
    """The words before a command that make the kernel kill it when we die."""
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
    except OSError:  # no descriptors left: a child without a pidfd could not be watched
        process.kill()
        process.wait()
        raise


# --- control groups ---------------------------------------------------------------------------------------------------
_MOUNTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
#: Arguments: the group's directory, the command. A child must be in the group before it can fork.
_JOIN: Final = 'echo 0 >"$0/cgroup.procs"; exec "$@"'


def delegated(mounts: Iterable[Path] = _MOUNTS) -> Path | None:
    """Our own control group, if we may divide it; of version 2 only, which can kill a whole group at once."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        (own,) = (line[3:] for line in lines if line.startswith("0::"))
        for path in (mount / own.lstrip("/") for mount in mounts if own != "/"):
            if (path / "cgroup.procs").exists() and _is_handed_to_us(path):
                return path
    return None


def _is_handed_to_us(path: Path) -> bool:
    """Tell whether the group was delegated to us. Root may write anywhere, which proves nothing; systemd marks groups
    that it delegates."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(path, name) == b"1":
                return True
    return os.geteuid() != 0 and os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK)


@dataclass(frozen=True, slots=True)
class Cgroup:
    path: Path

    def make(self) -> bool:
        try:
            self.path.mkdir()
        except OSError:
            return False
        return True

    def joining(self) -> tuple[str, ...]:
        """The words before a command that make it run in this group; if it cannot join, it runs all the same."""
        return ("/bin/sh", "-c", _JOIN, str(self.path))

    def pids(self) -> set[int]:
        try:
            return {int(pid) for pid in (self.path / "cgroup.procs").read_text().split()}
        except (OSError, ValueError):
            return set()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()
