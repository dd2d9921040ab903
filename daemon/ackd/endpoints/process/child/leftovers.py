"""Leftover processes of children whose daemon was killed: found at the next start, and ended.

The child itself dies with its daemon, but processes that it had started do not. So each child is recorded in
``state/children/<agent>.json`` while any process of it may be alive: its mark, and its identity (pid, start time,
boot). The files are not flushed to the disk, because after a power cut there are no processes. Writing one may fail
with OSError; a file that cannot be read, or is from another boot, leaves nothing to end.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import anyio

from ackd.endpoints.process.child.spawning import Cgroup
from ackd.storage.json_state import BadState, JsonState
from ackd.system import process_tree, processes


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """The record of a child. ``pid`` is None if the daemon died while it started the child: its processes are found by
    the mark all the same."""

    agent: str
    mark: str
    boot_id: str
    pid: int | None = None
    start_ticks: int | None = None
    cgroup: str | None = None


def write_record(directory: Path, entry: ChildRecord) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = {name: value for name in ChildRecord.__slots__ if (value := getattr(entry, name)) is not None}
    JsonState(_path(directory, entry.agent), durable=False).save(said)


def remove_record(directory: Path, agent: str) -> None:
    with contextlib.suppress(OSError):
        _path(directory, agent).unlink()


def read_records(directory: Path) -> list[ChildRecord]:
    """The records of this boot; other files are removed."""
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        entry = _read(path)
        if entry is not None and entry.boot_id == processes.boot_id():
            found.append(entry)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return found


def left_alive(directory: Path) -> list[tuple[str, int]]:
    """List the recorded children that are alive, by agent and pid. Changes nothing."""
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        entry = _read(path)
        if entry is not None and entry.boot_id == processes.boot_id() and (pid := _session(entry)) is not None:
            found.append((entry.agent, pid))
    return found


async def end_leftovers(directory: Path, stop_timeout_s: float) -> list[str]:
    """End what is left of every recorded child; return the agents of which something was left.

    Called at a start, before any child is started. A process that cleaned its environment, in a session whose leader is
    dead, can only be found by its control group, if it had one.
    """
    walkers = anyio.CapacityLimiter(4)
    found = read_records(directory)
    lived: list[str] = []
    async with anyio.create_task_group() as tasks:
        for entry in found:
            tasks.start_soon(_end, directory, entry, stop_timeout_s, walkers, lived)
    return sorted(lived)


async def _end(
    directory: Path,
    entry: ChildRecord,
    stop_timeout_s: float,
    walkers: anyio.CapacityLimiter,
    lived: list[str],
) -> None:
    tree = process_tree.ProcessTree(f"{processes.CHILD_MARK}={entry.mark}", session=lambda: _session(entry))
    cgroup = Cgroup(Path(entry.cgroup)) if entry.cgroup is not None else None
    if cgroup is not None:
        tree = dataclasses.replace(tree, others=cgroup.pids, kill=cgroup.kill)
    cleared = await process_tree.end_tree(tree, stop_timeout_s, walkers)
    if cgroup is not None:
        cgroup.remove()
    if cleared.met:
        lived.append(entry.agent)
    if cleared.gone:
        remove_record(directory, entry.agent)


def _session(entry: ChildRecord) -> int | None:
    """The session of a child, as long as its leader is the recorded process; after that the number may belong to
    others."""
    if entry.pid is None or entry.start_ticks is None:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        if processes.identity_of(entry.pid) == processes.Identity(entry.pid, entry.start_ticks):
            return entry.pid
    return None


def _read(path: Path) -> ChildRecord | None:
    with contextlib.suppress(OSError, BadState, TypeError):
        found = JsonState(path, durable=False).load()
        return ChildRecord(**found) if found is not None else None
    return None


def _path(directory: Path, agent: str) -> Path:
    return directory / f"{agent}.json"
