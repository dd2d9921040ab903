"""What a daemon that was killed left of its children: found at the next start, and ended.

The child itself dies with its daemon; what it had started does not. So each child is written down in
``state/children/<agent>.json`` while anything of it may live: its mark, and who it is (pid, start time, boot). Not
flushed to the disk: after a power cut there are no processes. Owns these files. Fails with OSError for one that cannot
be written; what cannot be read, or is of another boot, has nothing to end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import anyio

from ackd import processes
from ackd.adapters.child.cgroup import Cgroup


@dataclass(frozen=True, slots=True)
class Remnant:
    """``pid`` is None if its daemon died while it started it: the mark finds it all the same."""

    agent: str
    mark: str
    boot_id: str
    pid: int | None = None
    start_ticks: int | None = None
    cgroup: str | None = None


def write_down(directory: Path, remnant: Remnant) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = {name: value for name in Remnant.__slots__ if (value := getattr(remnant, name)) is not None}
    path = _path(directory, remnant.agent)
    temp = path.with_name(f".{path.name}.tmp")
    temp.touch(mode=0o600)
    temp.write_text(json.dumps(said))
    temp.replace(path)


def cross_out(directory: Path, agent: str) -> None:
    with contextlib.suppress(OSError):
        _path(directory, agent).unlink()


def remnants(directory: Path) -> list[Remnant]:
    """Of this boot; files that tell of none are removed."""
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        remnant = _read(path)
        if remnant is not None and remnant.boot_id == processes.boot_id():
            found.append(remnant)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return found


async def end_remnants(directory: Path, stop_timeout_s: float) -> list[str]:
    """Ends what is left of every child there was; returns the agents of which there was something.

    For a start, before any child is. Of a child whose environment was cleaned in a session whose leader is dead nothing
    is known but its control group, if it had one.
    """
    walkers = anyio.CapacityLimiter(4)
    found = remnants(directory)
    lived: list[str] = []
    async with anyio.create_task_group() as tasks:
        for remnant in found:
            tasks.start_soon(_end, directory, remnant, stop_timeout_s, walkers, lived)
    return sorted(lived)


async def _end(
    directory: Path, remnant: Remnant, stop_timeout_s: float, walkers: anyio.CapacityLimiter, lived: list[str]
) -> None:
    brood = processes.Brood(f"{processes.CHILD_MARK}={remnant.mark}", session=lambda: _session(remnant))
    cgroup = Cgroup(Path(remnant.cgroup)) if remnant.cgroup is not None else None
    if cgroup is not None:
        brood = dataclasses.replace(brood, others=cgroup.pids, kill=cgroup.kill)
    cleared = await processes.clear_away(brood, stop_timeout_s, walkers)
    if cgroup is not None:
        cgroup.remove()
    if cleared.met:
        lived.append(remnant.agent)
    if cleared.gone:
        cross_out(directory, remnant.agent)


def _session(remnant: Remnant) -> int | None:
    """Only while its leader is the one that was written down: else the number may be anyone's."""
    if remnant.pid is None or remnant.start_ticks is None:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        if processes.identity_of(remnant.pid) == processes.Identity(remnant.pid, remnant.start_ticks):
            return remnant.pid
    return None


def _read(path: Path) -> Remnant | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Remnant(**json.loads(path.read_text(encoding="utf-8")))
    return None


def _path(directory: Path, agent: str) -> Path:
    return directory / f"{agent}.json"
