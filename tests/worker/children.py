"""A worker as a real child, and the other end of its pipes.

What it says is read as the daemon reads it: a line that the dialect refuses fails the test. Every wait is for a word or
an end, with a deadline.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from ackd.endpoints.process import wire as worker_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ackd.endpoints.process.wire import Checkpoint, Said

    Word = TypeVar("Word", bound=Said)

PATIENCE_S = 60.0
HEAD = "import os, signal, subprocess, sys, threading, time\nfrom ackd.worker import HandOver, Refuse, Task, run\n"


class Child:
    """A worker process. ``script`` defines ``work`` and ends with ``run(…)``, unless the test gives that itself."""

    def __init__(
        self,
        place: Path,
        script: str,
        *,
        run: str = "run(work, heartbeat_s=60)",
        python: Sequence[str] = (sys.executable,),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self.body = "content: hello\n"
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | dict(env or {})
        self._log = (place / "stderr.log").open("ab")
        self.process = subprocess.Popen(
            [*python, "-c", f"{HEAD}{script}\n{run}\n"],
            cwd=place,
            env=kept | {"ACKD_AGENT": "ignitian_1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.said: list[Said] = []
        self._half = b""
        self._heard = 0
        self._over = False

    # --- to it ------------------------------------------------------------------------------------------------------
    def assign(
        self, task_id: str = "task_1", attempt: int = 1, checkpoint: Checkpoint | None = None, threshold: float = 0.7
    ) -> None:
        (self.place / "task.mime").write_text(f"From: user\n\n{self.body}")
        work = worker_json.Assignment(
            task_id=task_id,
            spec_path=str(self.place / "task.mime"),
            worktree_path=str(self.place),
            timeout_s=600,
            message_id=f"{task_id}@ignite.local",
            sender="user",
            message_type="task_assignment",
            priority="normal",
            attempt=attempt,
            generation=1,
            context_threshold=threshold,
            checkpoint=checkpoint,
        )
        self.tell(worker_json.assign("ignitian_1", time.time(), work))

    def tell(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def check(self) -> None:
        self.tell(worker_json.status_check("ignitian_1", time.time(), "Status check: are you still working?"))

    def ask_checkpoint(self, task_id: str | None = None) -> None:
        self.tell(worker_json.checkpoint_request("ignitian_1", time.time(), "context at 70 %", task_id))

    def ask_last_checkpoint(self, ends_in_s: float = 20) -> None:
        self.tell(
            worker_json.checkpoint_request("ignitian_1", time.time(), "ackd is stopping", None, ends_in_s=ends_in_s)
        )

    def shut_down(self) -> None:
        self.tell(worker_json.shutdown("ignitian_1", time.time(), "ackd stops"))

    def leave(self) -> None:
        """Close stdin, as if ackd had gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def go(self, name: str = "go") -> None:
        """Create the file that a script waits for with ``until``."""
        (self.place / name).touch()

    # --- from it ----------------------------------------------------------------------------------------------------
    def hear(self, kind: type[Word], **fields: object) -> Word:
        """Return the next line of that type with those fields; lines before it are skipped."""
        while True:
            said = self.hear_any()
            if isinstance(said, kind) and all(getattr(said, name) == value for name, value in fields.items()):
                return said

    def hear_any(self) -> Said:
        while len(self.said) == self._heard:
            if not self._read():
                raise AssertionError(f"it says no more; it said {self.said[-20:]}; stderr: {self.stderr()[-2000:]}")
        self._heard += 1
        return self.said[self._heard - 1]

    def hear_out(self) -> list[Said]:
        """Return all lines until the worker has ended."""
        while self._read():
            pass
        return self.said

    def hear_a_silence(self, seconds: float) -> None:
        """Wait until the worker has written nothing for that long."""
        assert self.process.stdout is not None
        give_up_at = time.monotonic() + PATIENCE_S
        while select.select([self.process.stdout.fileno()], [], [], seconds)[0]:
            assert time.monotonic() < give_up_at, "it goes on talking"
            assert self._read()

    def _read(self) -> bool:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        if self._over:
            return False
        if not select.select([fd], [], [], PATIENCE_S)[0]:
            raise AssertionError(
                f"silent for {PATIENCE_S} s; it said {self.said[-20:]}; stderr: {self.stderr()[-2000:]}"
            )
        chunk = os.read(fd, 65_536)
        *whole, self._half = (self._half + chunk).split(b"\n")
        self.said += map(worker_json.decode, whole)
        self._over = not chunk
        return bool(chunk)

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)

    def stderr(self) -> str:
        return (self.place / "stderr.log").read_text(errors="replace")

    def until_noted(self, word: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while word not in self.done():
            assert time.monotonic() < deadline, f"{word!r} was not noted; stderr: {self.stderr()[-2000:]}"
            time.sleep(0.005)

    def done(self) -> list[str]:
        """Return what a script wrote down with ``note``."""
        file = self.place / "notes"
        return file.read_text().split() if file.exists() else []


HANGS = """
def work(task):
    try:
        note("begun")
        until("never")
    finally:
        note("left")
"""
HANGS_ASYNC = """
import asyncio
async def work(task):
    try:
        note("begun")
        await asyncio.Event().wait()
    finally:
        note("left")
"""

#: For scripts: ``note(word)`` writes down what happened, ``until(name)`` waits for the test's sign.
TOOLS = """
def note(word):
    with open("notes", "a") as notes:
        notes.write(f"{word}\\n")
def until(name="go"):
    for _ in range(3000):
        if os.path.exists(name):
            return
        time.sleep(0.01)
"""


@contextlib.contextmanager
def child(
    place: Path,
    script: str,
    *,
    run: str = "run(work, heartbeat_s=60)",
    python: Sequence[str] = (sys.executable,),
    env: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    place.mkdir(parents=True, exist_ok=True)
    started = Child(place, TOOLS + script, run=run, python=python, env=env)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        for pipe in (started.process.stdin, started.process.stdout, started._log):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
