"""Many children under one supervisor: from its start until all of them run, and from the death of all until they run again.

Beside ackd stand supervisord and circus, with the same program and in turns. ackd's restart has its wait in it, 0.5 to
1 s by design, so that children that died together do not come back together; the others start again at once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.bench import inhabited
from tests.bench.figures import Figure, Target, at_most
from tests.bench.peers import supervisors
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.bench.scale import Scale

BENCH = "children"


@dataclass(frozen=True)
class Keeper:
    """``running`` starts it in a place that has the program; it has ended, with its children, after the block."""

    name: str
    module: str
    running: Callable[[Path, int], AbstractContextManager[None]]
    target: Target | None = None
    starts: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def why_not(self) -> str:
        if importlib.util.find_spec(self.module) is None:
            return f"the package {self.module} is not installed (extra: bench)"
        return "" if self.starts else ", ".join(self.failures) or "it failed"


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    ours = Keeper("ackd", "ackd", _ackd)
    peers = [
        Keeper("supervisord", "supervisor", partial(_peer, supervisors.supervisord), at_most(2)),
        Keeper("circus", "circus", partial(_peer, supervisors.circus)),
    ]
    for turn in range(scale.children_repetitions):
        for keeper in (ours, *peers):
            if importlib.util.find_spec(keeper.module) is not None:
                _time(keeper, place / f"{keeper.name}{turn}", scale.children, tell)
    if not ours.starts:
        raise BenchFailed(ours.why_not())
    return [figure for peer in peers for figure in _figures(ours, peer, scale.children)]


def _figures(ours: Keeper, peer: Keeper, count: int) -> list[Figure]:
    start, restart = f"{count} children: start → all run", f"{count} children: all killed → all run again"
    starts, restarts = tuple(ours.starts), tuple(ours.restarts)
    if why_not := peer.why_not():
        return [Figure(BENCH, f"{start} ({peer.name} was not measured: {why_not})", "s", starts)]
    return [
        Figure(BENCH, start, "s", starts, peer.name, tuple(peer.starts), peer.target),
        Figure(BENCH, f"{restart}, 0.5 to 1 s of it by design", "s", restarts, peer.name, tuple(peer.restarts)),
    ]


def _time(keeper: Keeper, place: Path, count: int, tell: Callable[[str], None]) -> None:
    """A peer that fails costs nobody else's figures."""
    place.mkdir(parents=True)
    starter, notes = place / "starter.sh", place / "notes"
    starter.write_text(inhabited.STARTER)
    starter.chmod(0o700)
    try:
        began = time.time_ns()
        with keeper.running(place, count):
            first_s = _all_ran(notes, count, began)
            killed_at = time.time_ns()
            for _, _, pid in inhabited.notes(notes):
                os.kill(pid, signal.SIGKILL)
            again_s = _all_ran(notes, 2 * count, killed_at)
    except BenchFailed as failure:
        keeper.failures.append(str(failure))
        tell(f"{keeper.name}: {failure}")
        return
    keeper.starts.append(first_s)
    keeper.restarts.append(again_s)
    tell(f"{keeper.name}: started in {first_s:.2f} s, again in {again_s:.2f} s")


def _all_ran(notes: Path, count: int, since: int) -> float:
    inhabited.wait_for(lambda: len(inhabited.notes(notes)) >= count, f"{count} starts")
    return (max(at for _, at, _ in inhabited.notes(notes)) - since) / 1e9


@contextlib.contextmanager
def _ackd(place: Path, count: int) -> Iterator[None]:
    team = inhabited.make_team(place, inhabited.tables_of_starters(count))
    try:
        team.start("--quiet", ready=False)
        yield
    finally:
        if team.process is not None:
            team.stop()


@contextlib.contextmanager
def _peer(command: Callable[[Path, int], list[str]], place: Path, count: int) -> Iterator[None]:
    with (place / "said").open("wb") as said:
        keeper = subprocess.Popen([sys.executable, *command(place, count)], cwd=place, stdout=said, stderr=said)
    try:
        yield
    finally:
        keeper.terminate()
        try:
            keeper.wait(30)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
