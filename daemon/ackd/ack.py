"""Tasks that are acknowledged by a file, and waking workers that do not. Public Python.

    acks = AckManager("queue/ack")
    acks.dispatched("task-001")                   # then write the task's file
    acked, phase = acks.wait_with_escalation("task-001", worker_id=1, pane_id="%3")

and in the worker ``AckManager().send("task-001")``, or ``touch queue/ack/task-001.ack``.

An ack counts if its file is newer than the dispatch. The time of the dispatch is the one that ``dispatched`` noted,
else the time of the task's file (``task_file``, or the one in ``tasks`` beside the ack directory that has the task's id
in its name): so a program that writes the task, tells its worker and then waits finds an ack that came meanwhile.
Without either it is the time when this AckManager was made, so that acks of an earlier run do not count. Workers are
woken by ackd's own ladder: see ``wait_with_escalation``. Waits are measured by the clock, not as a sum of sleeps, and
end with a last look.

The constructor, ``send`` and ``cleanup`` fail with OSError; a bad profile is ``BadProfile``, and phases that do not
exist are ValueError. Trouble with tmux or the pane is no error: the wait goes on, and ``record`` is called.
"""

from __future__ import annotations

import contextlib
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackd.config.site import find_site, read_toml
from ackd.coordination.ensemble.rules.ack_files import SUFFIX, ack_names
from ackd.core.agent_facts import nudged
from ackd.core.message_facts import escalation
from ackd.files import FileLockTimeout, atomic_write, make_private, with_file_lock

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from ackd.endpoints.tmux.screen import Profile
    from ackd.endpoints.tmux.standalone_wake import StandaloneWake

__all__ = ["RUNGS", "AckManager"]

#: The rungs: the line again · an interrupt, then the line · a reset, then a line for a worker that knows nothing.
RUNGS: Final = 3
DEFAULT_ACK_DIR: Final = "queue/ack"
_TASK_ENDS: Final = (".yaml", ".yml")
_LOOK_EVERY_S: Final = 0.05
#: A file's time is that of the kernel's last tick, which may be before the time that was read from the clock.
_TICK_S: Final = 0.01
_TYPING_TAKES_S: Final = 60.0


class AckManager:
    """Sends acks, and waits for them. ``ack_dir``: made if it does not exist; by default ``queue/ack`` in the current
    directory. ``profile``: the profile of the worker's program: a shipped name, one of the ackd.toml here or above, or
    a table of that form. ``tmux_socket``: as in the config; empty: the user's own server. ``record``: called with what
    was done, as (type, data), such as ``NDJSONLogger().log_event``."""

    def __init__(
        self,
        ack_dir: str | os.PathLike[str] | None = None,
        *,
        profile: str | Mapping[str, Any] = "claude",
        tmux_socket: str = "",
        record: Callable[[str, dict[str, object]], None] | None = None,
    ) -> None:
        self._given = Path(ack_dir if ack_dir is not None else DEFAULT_ACK_DIR)
        self.ack_dir = self._given.absolute()
        make_private(self.ack_dir)
        self._profile = profile
        self._tmux_socket = tmux_socket
        self._record = record or (lambda _type, _data: None)
        self._made_at = time.time()
        self._dispatched: dict[str, float] = {}

    # --- the worker's side
    def send(self, task_id: str, worker_id: str | int | None = None, *, agent: str | None = None) -> Path:
        """Acknowledge the task, even if an older ack is there; the file is on disk when this returns. ``agent``: the
        worker by its name, for one that has no number."""
        path = self.ack_dir / ack_names(task_id)[0]
        who = worker_id if worker_id is not None else agent
        by = f"worker_id: {_quoted(str(who))}\n" if who is not None else ""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        atomic_write(path, f"task_id: {_quoted(task_id)}\nacked_at: {_quoted(at)}\n{by}")
        return path

    # --- the dispatcher's side
    def dispatched(self, task_id: str) -> None:
        """Note that the task is handed out now (again): only newer acks count."""
        self._dispatched[task_id] = time.time()

    def cleanup(self) -> int:
        """Remove all acks, of every task. Returns how many there were."""
        removed = 0
        for path in self.ack_dir.glob(f"*{SUFFIX}"):
            with contextlib.suppress(
                FileNotFoundError, IsADirectoryError
            ):  # another process has removed it, or it is not a file
                path.unlink()
                removed += 1
        return removed

    def check(self, task_id: str, since: float | datetime | None = None) -> bool:
        """True if the task is acknowledged. ``since``: the time of the dispatch, in wall seconds; 0: any ack counts."""
        since_s = self._since(task_id, since)
        return any(_is_newer(self.ack_dir / name, since_s) for name in ack_names(task_id))

    def wait(
        self,
        task_id: str,
        timeout: float = 30.0,
        since: float | datetime | None = None,
        *,
        interval: float = _LOOK_EVERY_S,
    ) -> bool:
        """Wait for the ack. ``interval``: between two looks, in seconds."""
        since_s, give_up_at = self._since(task_id, since), time.monotonic() + timeout
        while not self.check(task_id, since_s):
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(max(interval, 0.001), left_s))
        return True

    async def wait_async(
        self,
        task_id: str,
        timeout: float = 30.0,  # noqa: ASYNC109 - as `wait`
        since: float | datetime | None = None,
    ) -> bool:
        import anyio  # noqa: PLC0415 - costs 70 ms, which a worker that only sends need not pay

        since_s, give_up_at = self._since(task_id, since), anyio.current_time() + timeout
        while not self.check(task_id, since_s):
            left_s = give_up_at - anyio.current_time()
            if left_s <= 0:
                return False
            await anyio.sleep(min(_LOOK_EVERY_S, left_s))
        return True

    def wait_with_escalation(
        self,
        task_id: str,
        worker_id: str | int,
        pane_id: str,
        phase_timeout: float = 60,
        max_phases: int = RUNGS,
        *,
        since: float | datetime | None = None,
        task_file: str | os.PathLike[str] | None = None,
    ) -> tuple[bool, int]:
        """Wait for the ack and wake the worker step by step. Returns (acknowledged, phase): phase 0 is the wait before
        the worker is woken, then there is one phase for each rung.

        Each phase waits for ``phase_timeout``. One line is typed, with the task's id, ``task_file`` and the ack file's
        path. It is typed only into a pane that shows that it is ready, never into a prompt, a menu or a screen that is
        not understood, and it is proven to be submitted. A worker that is seen at work is not interrupted, and one that
        a running daemon serves is left to the daemon. ``(False, max_phases)``: a person must look. Inside an event loop
        use ``wait_with_escalation_async``.
        """
        import anyio  # noqa: PLC0415

        arguments = (task_id, worker_id, pane_id, phase_timeout, max_phases)
        return anyio.run(lambda: self.wait_with_escalation_async(*arguments, since=since, task_file=task_file))

    async def wait_with_escalation_async(
        self,
        task_id: str,
        worker_id: str | int,
        pane_id: str,
        phase_timeout: float = 60,
        max_phases: int = RUNGS,
        *,
        since: float | datetime | None = None,
        task_file: str | os.PathLike[str] | None = None,
    ) -> tuple[bool, int]:
        if not 0 <= max_phases <= RUNGS:
            raise ValueError(f"max_phases is 0 to {RUNGS}, for there are {RUNGS} rungs, each climbed once")
        since_s, wake = self._since(task_id, since, task_file), self._wake_of(pane_id)
        lines = self._lines(task_id, str(worker_id), task_file)
        for phase in range(max_phases + 1):
            if phase:
                done = await self._climb(wake, pane_id, phase, lines)
                self._record(*nudged(agent=str(worker_id), task_id=task_id, rung=phase, done=done))
            await wake.note_screen()
            if await self.wait_async(task_id, phase_timeout, since_s):
                return True, phase
        self._record(*escalation(**_escalation(task_id, worker_id, pane_id, max_phases)))
        return False, max_phases

    # --- waking
    async def _climb(self, wake: StandaloneWake, pane_id: str, rung: int, lines: tuple[str, str]) -> str:
        """Take the next rung. Only one process at a time types into a pane."""
        try:
            async with with_file_lock(self.ack_dir / f"pane-{_plain(pane_id)}", timeout=_TYPING_TAKES_S):
                return await wake.climb(rung, *lines)
        except FileLockTimeout as busy:
            return f"nothing typed: {busy}"

    def _wake_of(self, pane_id: str) -> StandaloneWake:
        from ackd.endpoints.tmux.client import server_called  # noqa: PLC0415
        from ackd.endpoints.tmux.standalone_wake import StandaloneWake  # noqa: PLC0415
        from ackd.system.clock import SystemClock  # noqa: PLC0415 - pydantic, for who wakes somebody only

        tmux = server_called(self._tmux_socket)
        return StandaloneWake(tmux=tmux, profile=_profile(self._profile), clock=SystemClock(), target=pane_id)

    def _lines(self, task_id: str, worker: str, task_file: str | os.PathLike[str] | None) -> tuple[str, str]:
        from ackd.endpoints.tmux import lines  # noqa: PLC0415

        name, task = ack_names(task_id)[0], Path(task_file).absolute() if task_file is not None else None
        acks = (self.ack_dir / name, self._given / name)
        fresh = lines.task_waits_for_one_who_knows_nothing(worker, task_id, task, acks)
        return lines.task_waits(task_id, task, acks), fresh

    def _since(
        self, task_id: str, since: float | datetime | None, task_file: str | os.PathLike[str] | None = None
    ) -> float:
        if since is not None:
            return since.timestamp() if isinstance(since, datetime) else since
        if task_id in self._dispatched:
            return self._dispatched[task_id]
        files = [Path(task_file)] if task_file is not None else self._task_files(task_id)
        given = [at for at in map(_given_at, files) if at is not None]
        return max(given, default=self._made_at)

    def _task_files(self, task_id: str) -> list[Path]:
        """Files beside the acks whose name is the task's id, or ends with it, as ``worker-1-task-001.yaml`` does."""
        files = (path for end in _TASK_ENDS for path in (self.ack_dir.parent / "tasks").glob(f"*{end}"))
        return [path for path in files if path.stem == task_id or path.stem.endswith((f"-{task_id}", f"_{task_id}"))]


def _given_at(path: Path) -> float | None:
    """The later of the task file's two times: a copy that keeps the old mtime makes no old ack count."""
    try:
        found = path.stat()
    except OSError:
        return None
    return max(found.st_mtime, found.st_ctime)


def _is_newer(path: Path, since_s: float) -> bool:
    """True for a regular file that is newer: the target of a link may have any time."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime + _TICK_S >= since_s


def _profile(wanted: str | Mapping[str, Any]) -> Profile:
    from ackd.endpoints.tmux.screen import SHIPPED, load_profile  # noqa: PLC0415

    if not isinstance(wanted, str):
        return load_profile("given", {"given": wanted})
    if wanted in SHIPPED:
        return load_profile(wanted)
    path = find_site().config_path
    own = read_toml(path).get("profiles") if path is not None else None
    return load_profile(wanted, own if isinstance(own, dict) else None)


def _escalation(task_id: str, worker_id: str | int, pane_id: str, phases: int) -> dict[str, Any]:
    who: dict[str, Any] = {"agent": str(worker_id), "task_id": task_id, "pane": pane_id, "phases": phases}
    return {**who, "cause": "no_ack", "to": "whoever dispatched it", "counted": 1}


def _quoted(text: str) -> str:
    """The text, quoted for YAML and JSON alike."""
    import json  # noqa: PLC0415

    return json.dumps(text)


def _plain(pane_id: str) -> str:
    return "".join(char if char.isalnum() and char.isascii() else "_" for char in pane_id)[:80]
