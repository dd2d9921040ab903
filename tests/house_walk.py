"""The way of one message through the modules of a real daemon, seen by ``sys.setprofile``.

The daemon serves in this process, with an agent that reads its inbox; the message, its ack and its done are files that
``ackd send``, ``ack`` and ``done`` write, as processes of their own. What the daemon calls for itself meanwhile (its page, its
heartbeat) is part of the walk: it is met by whoever steps through it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ackd.config.model import load_site
from ackd.config.site import find_site
from ackd.runtime.daemon import Daemon
from tests.house import PACKAGE, room_of

if TYPE_CHECKING:
    from types import CodeType, FrameType

CONFIG = "[agents.reader]\n"


@dataclass
class Walk:
    functions: int
    modules: int
    changes: int


class Steps:
    """Calls of functions of ackd while it is ``on``: of each thread, one after the other.

    The flusher's thread works beside the loop's, and how their calls interleave says nothing about either walk."""

    def __init__(self) -> None:
        self.on = False
        self.calls: defaultdict[int, list[CodeType]] = defaultdict(list)
        self._package = f"{PACKAGE}{os.sep}"

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(self._package):
            self.calls[threading.get_ident()].append(frame.f_code)

    def walked(self) -> Walk:
        changes = 0
        for calls in self.calls.values():
            rooms = [room_of(Path(code.co_filename)) for code in calls]
            changes += sum(one != other for one, other in itertools.pairwise(rooms))
        codes = {code for calls in self.calls.values() for code in calls}
        return Walk(len(codes), len({code.co_filename for code in codes}), changes)


class _Watching:
    """``ports.View``: by type, an event that is set when such a line is shown."""

    def __init__(self) -> None:
        self.shown: dict[str, anyio.Event] = {}

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        self.of(type_).set()

    def flush(self) -> None:
        pass

    def of(self, type_: str) -> anyio.Event:
        return self.shown.setdefault(type_, anyio.Event())


def walk() -> Walk:
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="ackd-house-") as place:
        threading.setprofile(steps)
        sys.setprofile(steps)
        try:
            anyio.run(_one_message, Path(place), steps)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return steps.walked()


async def _one_message(place: Path, steps: Steps) -> None:
    (place / "ackd.toml").write_text(CONFIG)
    site = find_site(cwd=place)
    watching = _Watching()
    daemon = Daemon(load_site(site), site, watching)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.serve)
        with anyio.fail_after(60):
            await watching.of("session_start").wait()
            await anyio.sleep(1.0)  # its start is over
            steps.on = True
            sent = json.loads(await _ackd(place, "send", "reader", "--body", "hello", "--json"))["message_id"]
            await watching.of("message_told").wait()
            await _ackd(place, "ack", sent, "--agent", "reader")
            await watching.of("message_acked").wait()
            await _ackd(place, "done", sent, "--agent", "reader")
            await watching.of("message_completed").wait()
            steps.on = False
        daemon._stop_asked.set()


async def _ackd(place: Path, *words: str) -> str:
    command = [sys.executable, "-m", "ackd", *words]
    run = partial(subprocess.run, command, cwd=place, capture_output=True, text=True, check=True)
    done = await anyio.to_thread.run_sync(run)
    return done.stdout
