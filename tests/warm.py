"""``ackd`` as a process of its own that need not import itself first: forked from a parent that has (warm_parent.py).

Importing takes some 0.35 s of a processor for a daemon and 0.05 to 0.15 s for a command, and the tests start thousands.
What runs is the real command line in a real process with its own environment, directory and descriptors; only the
interpreter's start is shared. What depends on that start (PYTHONPATH, LD_PRELOAD, limits, inherited descriptors) is started
cold by whoever tests it, and ACKD_COLD=1 starts everything cold. One parent serves all tests of a pytest process.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

#: Read when an interpreter starts: whoever sets one of them otherwise than we have it needs a start of his own.
_OF_THE_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_")
#: Whether everything is to be started cold; read before a test's environment is cleared of such names.
_COLD: Final = bool(os.environ.get("ACKD_COLD"))


class WarmProcess:
    """As much of ``subprocess.Popen`` as the tests use."""

    def __init__(self, pid: int, end: int, args: list[str]) -> None:
        self.pid, self.args = pid, args
        self.returncode: int | None = None
        self._end = end  # a pipe: its exit code comes by it

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._ended()
        assert self.returncode is not None
        return self.returncode

    def _ended(self) -> None:
        told = os.read(self._end, 32)
        os.close(self._end)
        self.returncode = int(told) if told else -signal.SIGKILL  # its parent ended first, which should not be
        _living.pop(self.pid, None)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Parent:
    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.fileno()
        command = [sys.executable, "-m", "tests.warm_parent", str(fd)]
        repository = Path(__file__).parents[1]
        self._process = subprocess.Popen(command, pass_fds=(fd,), cwd=repository, stdin=subprocess.DEVNULL)
        theirs.close()
        self._environment = dict(os.environ)
        self._lock = threading.Lock()  # tests start commands from threads, too
        self._owner = os.getpid()

    def serves(self, environment: dict[str, str]) -> bool:
        names = {name for name in (*environment, *self._environment) if name.startswith(_OF_THE_START)}
        return all(environment.get(name) == self._environment.get(name) for name in names)

    def start(
        self, argv: list[str], cwd: Path, environment: dict[str, str], inp: int, out: int, err: int
    ) -> WarmProcess:
        ours, theirs = os.pipe()
        request = {
            "argv": argv,
            "cwd": os.fspath(cwd),
            "env": environment,
            "ignores_hangup": signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,
            "ignores_interrupt": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        }
        try:
            with self._lock:
                socket.send_fds(self._channel, [json.dumps(request).encode()], [inp, out, err, theirs])
                pid = int(self._channel.recv(32))
        finally:
            os.close(theirs)
        process = WarmProcess(pid, ours, ["ackd", *argv])
        _living[pid] = (process, environment)
        return process

    def close(self) -> None:
        if os.getpid() == self._owner:
            self._channel.close()
            self._process.wait()


_living: dict[int, tuple[WarmProcess, dict[str, str]]] = {}
_making = threading.Lock()


def serves(environment: dict[str, str]) -> bool:
    """Whether a start with that environment can be shared."""
    return not _COLD and _the_parent().serves(environment)


def start(argv: list[str], *, cwd: Path, env: dict[str, str], out: int) -> WarmProcess:
    """``ackd ARGV…``, with nothing to read, and both outputs to that descriptor."""
    with Path(os.devnull).open("rb") as nothing:
        return _the_parent().start(argv, cwd, env, nothing.fileno(), out, out)


def run(
    argv: list[str], *, cwd: Path, env: dict[str, str], stdin: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """To its end. What it prints is gathered in memory, not by a pipe: nobody need read meanwhile."""
    with (
        os.fdopen(os.memfd_create("in"), "w+b") as given,
        os.fdopen(os.memfd_create("out"), "w+b") as out,
        os.fdopen(os.memfd_create("err"), "w+b") as err,
        Path(os.devnull).open("rb") as nothing,
    ):
        if stdin is not None:
            given.write(stdin.encode(errors="surrogateescape"))
            given.seek(0)
        source = nothing if stdin is None else given
        process = _the_parent().start(argv, cwd, env, source.fileno(), out.fileno(), err.fileno())
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="surrogateescape"))
        return subprocess.CompletedProcess(process.args, code, *texts)


def living(name: str) -> dict[int, str]:
    """Of those that run: the value of that variable of their environment, which /proc does not show."""
    return {pid: env[name] for pid, (process, env) in list(_living.items()) if name in env and process.poll() is None}


@functools.cache
def _a_parent(_pid: int) -> _Parent:
    parent = _Parent()
    atexit.register(parent.close)
    return parent


def _the_parent() -> _Parent:
    with _making:
        return _a_parent(os.getpid())
