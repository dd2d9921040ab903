"""Processes that lease the same few files, each proving in its turn that it is alone; for test_leases.py.

Run as ``python -m tests.faults.lease_crowd PLACE NAME COUNT SEED``: takes leases until it has had COUNT of them, and says
``.`` on stdout for each. The proof is apart from ackd: a link that can be made once only while the lease is held, and a
counter that is read, waited with, and written back. A holder that is killed leaves both behind; the file has its pid, so that the
next one can tell a dead holder's from a living one's.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from ackd.leases import LeaseHeld, Leases

#: Fewer paths than processes: most of the time is spent waiting.
PATHS = ("src/a.py", "src/b.py", "src/c.py")
WAIT_S = 900.0
#: Nobody overtakes in line; some may be quicker on the way to it. Counted in turns, for seconds are the machine's.
MOST_TURNS = 100


class TwoHolders(Exception):  # noqa: N818
    """What must never be."""


class Proof:
    """Of one path: who is in, how often anybody was, and the last token."""

    def __init__(self, place: Path, path: str) -> None:
        self._inside = place / f"{path.replace('/', '_')}.inside"
        self._count = place / f"{path.replace('/', '_')}.count"

    def enter(self, token: int) -> None:
        mine = self._inside.with_name(f"{os.getpid()}.mine")
        mine.write_text(f"{os.getpid()} {token}\n")
        for _ in range(2):
            try:
                os.link(mine, self._inside)  # with its content, or not at all
            except FileExistsError:
                self._remove_if_dead()
                continue
            return
        raise TwoHolders(f"{self._inside.name} is there: {self._inside.read_text()!r}")

    def _remove_if_dead(self) -> None:
        pid = int(self._inside.read_text().split()[0])
        if _lives(pid):
            raise TwoHolders(f"{pid} holds {self._inside.name}, and so does {os.getpid()}")
        self._inside.unlink()  # what it left when it was killed: only who holds the lease comes here

    def turns(self) -> int:
        return self._read()[0]

    def work(self, token: int, rng: random.Random) -> None:
        count, last = self._read()
        if token <= last:
            raise TwoHolders(f"token {token} after {last}")
        time.sleep(rng.random() * 0.002)
        if self._read() != (count, last):
            raise TwoHolders(f"{self._count.name} changed under its holder")
        temp = self._count.with_suffix(".new")  # whole, though its writer may be killed at any time
        temp.write_text(f"{count + 1} {token}\n")
        temp.rename(self._count)

    def _read(self) -> tuple[int, int]:
        try:
            count, last = self._count.read_text().split()
        except FileNotFoundError:
            return 0, 0
        return int(count), int(last)

    def leave(self) -> None:
        self._inside.unlink()


def _lives(pid: int) -> bool:
    """Not a zombie: what was killed waits for its parent, and holds nothing."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def main(place: Path, name: str, count: int, seed: str) -> int:
    rng = random.Random(seed)
    leases = Leases(place / "bus", place)
    longest = 0
    for _ in range(count):
        path = rng.choice(PATHS)
        proof = Proof(place, path)
        before = proof.turns()
        try:
            with leases.hold(path, name, ttl_s=3600, wait_s=WAIT_S) as lease:
                longest = max(longest, proof.turns() - before)
                proof.enter(lease.token)
                proof.work(lease.token, rng)
                proof.leave()
        except LeaseHeld as held:
            print(f"\nstarved: {name} waited {WAIT_S} s for {held}", flush=True)
            return 3
        except TwoHolders as two:
            print(f"\ntwo holders: {two}", flush=True)
            return 4
        if longest > MOST_TURNS:
            print(f"\nstarved: {name} saw {longest} others come before it", flush=True)
            return 3
        sys.stdout.write(".")
        sys.stdout.flush()
    print(f"\nlongest {longest}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
