"""A process that has imported all of ackd and forks a fresh ``ackd`` per request: a start costs milliseconds.

Run as ``python -m tests.faults.crash_zygote FD`` with interpose.so preloaded. Requests come as JSON lines on the socket
FD: ``run`` forks, arms the interposer in the child only, and calls the real command line; ``wait`` reaps. When the
socket closes, what still runs is killed. Waits that are long only for people are cut to fractions of a second.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any

from ackd.cli.main import main
from ackd.core import agent_rules, transitions
from ackd.runtime.runner import runner as effect_runner
from tests.faults import crash_breakage
from tests.warm_parent import warm_up

#: What the interposer calls its actions, by number.
ACTIONS = ("record", "kill before", "kill after", "fail", "short")


def serve(channel: socket.socket) -> None:
    children: set[int] = set()
    requests = channel.makefile("r")
    try:
        for line in requests:
            request = json.loads(line)
            if request["do"] == "wait":
                _, status = os.waitpid(request["pid"], 0)
                children.discard(request["pid"])
                answer = {"code": os.waitstatus_to_exitcode(status)}
            else:
                pid = os.fork()
                if pid == 0:
                    channel.close()
                    _become(request)
                children.add(pid)
                answer = {"pid": pid}
            channel.sendall(json.dumps(answer).encode() + b"\n")
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _become(request: dict[str, Any]) -> None:
    """The child: a command of ackd from here on, and nothing else."""
    code: Any = 70
    try:
        os.chdir(request["cwd"])
        os.environ.update(request["env"])
        _redirect(request["out"], request["err"])
        crash_breakage.apply(request["broken"])
        _arm(request["arm"])
        sys.argv = ["ackd", *request["argv"]]
        main()
        code = 0
    except SystemExit as leave:
        code = leave.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _redirect(out: str, err: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for path, number in ((out, 1), (err, 2)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(fd, number)
        os.close(fd)
    os.close(nothing)


def _arm(arm: dict[str, Any] | None) -> None:
    if arm is None:
        return
    notes = os.open(arm["notes"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    lasts_ms, at = ctypes.c_long(arm["lasts_ms"]), ctypes.c_long(arm["at"])
    root, only = os.fsencode(arm["root"]), os.fsencode(arm["only"])
    ctypes.CDLL(None).interpose_arm(root, ACTIONS.index(arm["action"]), at, arm["code"], lasts_ms, notes, only)


if __name__ == "__main__":
    del os.environ["LD_PRELOAD"]  # not for what the daemon starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()
    for owner, name in ((transitions, "DISK_RETRY_S"), (agent_rules, "PARK_BASE_S"), (effect_runner, "SEND_AGAIN_S")):
        setattr(owner, name, 0.1)
    with socket.socket(fileno=int(sys.argv[1])) as given:
        given.set_inheritable(False)
        serve(given)
