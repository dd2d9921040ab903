"""A process that has imported ackd and forks a fresh ``python -m ackd`` per request: a start costs milliseconds.

Run as ``python -m tests.warm_parent FD``; warm.py is its client. A request is one JSON object on the socket FD, with
four descriptors: standard input, output and error of the new process, and a pipe for its exit code. When the socket
closes, this process ends; its children go on, as those of an ended shell do.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
from typing import Any, Final

import anyio
import anyio.lowlevel
from inotify_simple import INotify

import ackd

LARGEST: Final = 1 << 20


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """The request, in the child that is to carry it out; None in this process, when there are no more."""
    watched = selectors.DefaultSelector()
    watched.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj is not channel:
                watched.unregister(key.fileobj)
                _tell_the_end(*key.data)
                continue
            data, fds, _, _ = socket.recv_fds(channel, LARGEST, 4)
            if not data:
                return None
            request = json.loads(data)
            pid = os.fork()
            if pid == 0:
                watched.close()
                channel.close()
                os.close(fds.pop())
                _redirect(fds)
                return dict(request)
            for fd in fds[:3]:
                os.close(fd)
            pidfd = os.pidfd_open(pid)
            watched.register(pidfd, selectors.EVENT_READ, (pid, pidfd, fds[3]))
            channel.sendall(f"{pid}\n".encode())


def _tell_the_end(pid: int, pidfd: int, tells: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.close(pidfd)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(tells, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(tells)


def _redirect(fds: list[int]) -> None:
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)


def _become(request: dict[str, Any]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN if request["ignores_hangup"] else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if request["ignores_interrupt"] else signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["ackd", *request["argv"]]
    try:
        runpy.run_module("ackd", run_name="__main__", alter_sys=True)
    except SystemExit as leave:
        _leave(leave.code)
    _leave(None)  # any other exception ends the interpreter as it would anywhere


def _leave(code: object) -> None:
    """As an interpreter does, except that it does not take its modules apart, which are shared: 40 ms of writing."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


async def _nothing() -> None:
    await anyio.lowlevel.checkpoint()


def warm_up() -> None:
    """All that every process would do first: imports, those that wait for a first use too."""
    for module in pkgutil.walk_packages(ackd.__path__, "ackd."):
        if module.name != "ackd.__main__":
            importlib.import_module(module.name)
    anyio.run(_nothing)
    INotify().close()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, who then close the socket
    warm_up()
    with socket.socket(fileno=int(sys.argv[1])) as given:
        given.set_inheritable(False)
        asked = serve(given)
    if asked is not None:
        _become(asked)
