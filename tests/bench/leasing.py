"""A lease taken and let go, by one process that nobody hinders, beside what a lock costs that says less.

*flock*: taken and given back, and nothing is written down. *flock and rename*: the same, and the bytes of the same
locks.json written to a new file and renamed, once for taking and once for letting go: what cannot be left out if others
are to see who holds it. A lease is that and a token, who waits, edits by hand; *said* is the lines and events on the bus
besides, with the appends and events beside it as well.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from ackd.coordination.bus import files as bus_files
from ackd.coordination.bus.rules.layout import event_name
from ackd.coordination.leases import files as lease_files
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import Ask
from ackd.leases import Leases
from tests.bench.figures import Figure, at_least

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

PATH = "src/app.py"
AGENT = "builder"
WHAT = "a lease taken and let go"


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    place.mkdir(parents=True)
    kinds = {
        "lease": _lease(_bus(place, "quiet")),
        "said": _said(_bus(place, "said")),
        "flock": _flock(_bus(place, "flock")),
        "rename": _rename(_bus(place, "rename"), says=False),
        "rename and say": _rename(_bus(place, "both"), says=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(scale.repetitions):
        for name, turn in kinds.items():
            rates[name].append(_rate(turn, scale.leases))
    tell(", ".join(f"{name} {sorted(values)[len(values) // 2]:,.0f}/s" for name, values in rates.items()))
    found = {name: tuple(values) for name, values in rates.items()}
    return [
        Figure("leases", WHAT, "/s", found["lease"], "flock, new file and rename", found["rename"], at_least(0.3)),
        Figure("leases", WHAT, "/s", found["lease"], "flock alone", found["flock"]),
        Figure(
            "leases",
            f"{WHAT}, said on the bus",
            "/s",
            found["said"],
            "flock, new file and rename, append, events",
            found["rename and say"],
            at_least(0.3),
        ),
    ]


def _rate(turn: Callable[[], None], count: int) -> float:
    turn()  # makes its files
    began = time.perf_counter()
    for _ in range(count):
        turn()
    return count / (time.perf_counter() - began)


def _bus(place: Path, name: str) -> Path:
    bus = place / name
    (bus / "events").mkdir(parents=True)
    return bus


def _lease(bus: Path) -> Callable[[], None]:
    files, ask = lease_files.LeaseFiles(str(bus), str(bus)), Ask(AGENT)

    def turn() -> None:
        change, _ = lease_files.acquire(files, PATH, ask)
        assert lease_files.granted(change, PATH, AGENT)
        files.change(lambda table, now, dead: leases.release(table, AGENT, now, PATH, dead=dead))

    return turn


def _said(bus: Path) -> Callable[[], None]:
    doors = Leases(bus, bus)

    def turn() -> None:
        doors.acquire(PATH, AGENT)
        doors.release(AGENT, PATH)

    return turn


def _flock(bus: Path) -> Callable[[], None]:
    fd = os.open(bus / "lock", os.O_RDWR | os.O_CREAT, 0o600)

    def turn() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        fcntl.flock(fd, fcntl.LOCK_UN)

    return turn


def _rename(bus: Path, *, says: bool) -> Callable[[], None]:
    model = _bus(bus, "model")
    Leases(model, model).acquire(PATH, AGENT)
    held, line = (model / "locks.json").read_bytes(), (model / "queue.jsonl").read_bytes()
    fd = os.open(bus / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    path, temp, queue, events = (str(bus / name) for name in ("locks.json", "locks.json.new", "queue.jsonl", "events"))
    names = ("FILE_UNLOCK_all.event", event_name("FILE_UNLOCK", PATH))

    def put(data: bytes, raised: tuple[str, ...]) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        new = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(new, data)
        os.close(new)
        os.rename(temp, path)  # noqa: PTH104 - a limit: pathlib is slower
        if says:
            bus_files.append(queue, line)
            for name in raised:
                bus_files.raise_event(events, name)
        fcntl.flock(fd, fcntl.LOCK_UN)

    def turn() -> None:
        put(held, ())
        put(b"{}\n", names)

    return turn
