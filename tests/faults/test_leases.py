"""20 processes, 10,000 leases, holders and waiters killed at random: never two holders, nobody starves, locks.json whole.

What is proven of a death: a process that waits, or holds for as long as it lives (``Leases.hold``), has a FIFO open that
nobody else can have. So its end is known at once, however it ended, and what it held is free without waiting for any
time to be over. A lease that an agent asked for by `ackd lock` is not bound to that command's process; it ends with its
time, or by the daemon (acceptance/test_leases.py).
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ackd.leases import LeaseHeld, Leases
from tests.faults import counts, lease_crowd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROCESSES = 20
IN_ALL = counts.pick(600, 10_000)
KILLS = counts.pick(30, 500)
PATIENCE_S = counts.pick(240, 3600)

pytestmark = pytest.mark.timeout(PATIENCE_S + 60)


@dataclass
class Reader:
    """Reads locks.json as fast as it can, as an agent might at any moment."""

    path: Path
    looks: int = 0
    broken: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.is_set():
            data = self.path.read_bytes()
            self.looks += 1
            try:
                found = json.loads(data)
                assert all({"worker_id", "expires_at", "token"} <= entry.keys() for entry in found.values())
            except (ValueError, AssertionError):
                self.broken.append(data)
            self.over.wait(0.001)


class Crowd:
    """Keeps 20 processes at it; one that was killed is followed by another, which has what is left to do."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.rng = place, random.Random(seed)
        self.number = 0
        self.done = self.kills = 0
        self.longest = 0
        self.problems: list[str] = []
        self._alive: list[tuple[subprocess.Popen[str], Path, int]] = []

    def start(self, count: int) -> None:
        self.number += 1
        name, out = f"w{self.number}", self.place / f"out.{self.number}"
        command = [sys.executable, "-m", "tests.faults.lease_crowd", str(self.place), name, str(count)]
        with out.open("w") as file:
            process = subprocess.Popen([*command, f"{self.rng.random()}"], stdout=file, stderr=file, text=True)
        self._alive.append((process, out, count))

    def run(self, kills: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self._alive:
            assert time.monotonic() < end, f"{self.done} of {IN_ALL} leases, {len(self._alive)} still at it"
            time.sleep(0.01)
            total = self.done + sum(_dots(out) for _, out, _ in self._alive)
            if self.kills < kills and total * kills > self.kills * IN_ALL * 0.8:
                self._kill_one()
            for one in [one for one in self._alive if one[0].poll() is not None]:
                self._alive.remove(one)
                self._judge(*one)

    def _kill_one(self) -> None:
        process, _, _ = self.rng.choice(self._alive)
        process.kill()  # wherever it is: waiting, holding, or between two writes
        self.kills += 1

    def _judge(self, process: subprocess.Popen[str], out: Path, count: int) -> None:
        done, text = _dots(out), out.read_text()
        self.done += done
        if process.returncode == -9:
            if count > done:
                self.start(count - done)
        elif process.returncode != 0:
            self.problems.append(text[-500:])
        elif found := re.search(r"longest (\d+)", text):
            self.longest = max(self.longest, int(found[1]))


def _dots(out: Path) -> int:
    return out.read_text().partition("\n")[0].count(".")


def test_twenty_processes_and_random_kills_never_make_two_holders(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(1 << 32) if counts.full() else 5
    print(f"seed {seed}")
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus/locks.json").write_text("{}")
    crowd, reader = Crowd(tmp_path, seed), Reader(tmp_path / "bus/locks.json")
    watching = threading.Thread(target=reader.run)
    watching.start()
    try:
        for _ in range(PROCESSES):
            crowd.start(IN_ALL // PROCESSES)
        crowd.run(KILLS)
    finally:
        reader.over.set()
        watching.join()
        for process, _, _ in crowd._alive:
            process.kill()
    assert crowd.problems == []
    assert reader.broken == []
    assert crowd.kills == KILLS
    assert crowd.done >= IN_ALL
    # Who was killed right after its lease began has no dot for it.
    had = sum(int((tmp_path / f"{path.replace('/', '_')}.count").read_text().split()[0]) for path in lease_crowd.PATHS)
    assert crowd.done <= had <= crowd.done + KILLS
    left = Leases(tmp_path / "bus", tmp_path)
    left.acquire("src/a.py", "last", wait_s=5)  # whatever the last kill left behind
    assert left.look().waiting == {}
    record_property(
        "told",
        f"leases: {crowd.done} taken by {crowd.number} processes, {crowd.kills} killed, {reader.looks} looks at a whole "
        f"locks.json, at most {crowd.longest} others before one that waited",
    )


def test_the_proof_of_the_crowd_finds_two_holders(tmp_path: Path) -> None:
    """A lease that is taken away by hand, while its holder works: the check apart from ackd must see it."""
    (tmp_path / "bus").mkdir()
    leases = Leases(tmp_path / "bus", tmp_path)
    first, second = lease_crowd.Proof(tmp_path, "src/a.py"), lease_crowd.Proof(tmp_path, "src/a.py")
    first.enter(leases.acquire("src/a.py", "a").token)
    with pytest.raises(LeaseHeld):
        leases.acquire("src/a.py", "b")
    (tmp_path / "bus/locks.json").write_text("{}")
    lease = leases.acquire("src/a.py", "b")
    with pytest.raises(lease_crowd.TwoHolders):
        second.enter(lease.token)
