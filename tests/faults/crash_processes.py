"""Processes of ackd for the crash tests: forked from one warm parent, with or without a fault armed.

``Zygote`` is the parent, ``Child`` one command of ackd. A ``Fault`` says what happens at which change on disk.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from tests.strays import MARK

HERE = Path(__file__).parent
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """``at``: the number of the call, from 1. ``lasts_ms``: for how long every further call fails, too.

    ``only``: a glob over ``CALL PATH PATH``, by which calls are counted.
    """

    action: str
    at: int = 0
    code: int = 0
    lasts_ms: int = 0
    only: str = ""

    def __str__(self) -> str:
        failing = f" with {os.strerror(self.code)} for {self.lasts_ms} ms" if self.code else ""
        return f"{self.action} call {self.at}{failing}"


@dataclass
class Child:
    zygote: Zygote
    pid: int
    code: int | None = None
    _pidfd: int = field(init=False)

    def __post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)

    def ended(self, within_s: float = 0.0) -> bool:
        if self.code is None and select.select([self._pidfd], [], [], within_s)[0]:
            self.code = self.zygote.reap(self.pid)
            os.close(self._pidfd)
        return self.code is not None

    def send(self, number: signal.Signals) -> None:
        if self.code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self.ended(PATIENCE_S)


class Zygote:
    """One per test process. Its requests are answered one at a time."""

    def __init__(self, lib: Path, interposer: Path) -> None:
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ACKD_")}
        paths = (str(HERE.parent.parent), str(lib), environment.get("PYTHONPATH", ""))
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "LD_PRELOAD": str(interposer)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.crash_zygote", str(theirs.fileno())],
                env=environment,
                pass_fds=(theirs.fileno(),),
            )
        self._socket = ours
        self._answers = ours.makefile("r")
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()
        self._process.wait(PATIENCE_S)

    def run(
        self,
        *argv: str,
        place: Path,
        fault: Fault | None = None,
        broken: str | None = None,
        out: str = "daemon.out",
        err: str = "daemon.out",
    ) -> Child:
        arm: dict[str, object] | None = None
        if fault is not None:
            arm = {"root": str(place / ".ackd"), "notes": str(place / "notes"), "action": fault.action}
            arm |= {"at": fault.at, "code": fault.code, "lasts_ms": fault.lasts_ms, "only": fault.only}
        request = {"do": "run", "argv": argv, "cwd": str(place), "env": {MARK: str(place)}, "arm": arm}
        request |= {"out": str(place / out), "err": str(place / err), "broken": broken}
        return Child(self, self._ask(request)["pid"])

    def reap(self, pid: int) -> int:
        code = self._ask({"do": "wait", "pid": pid})["code"]
        assert isinstance(code, int)
        return code

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._answers.readline()
        assert line, "the zygote is gone"
        found: dict[str, Any] = json.loads(line)
        return found


def compiled(directory: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (cc) for the interposer")
    library = directory / "interpose.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), str(HERE / "interpose.c"), "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"the interposer does not compile here: {built.stderr.splitlines()[:3]}")
    return library
