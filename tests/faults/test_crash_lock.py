"""`ackd lock` killed or refused at every change it makes: whoever comes next finds leases that it understands."""

from __future__ import annotations

import errno
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.leases import LeaseHeld, Leases
from tests.faults.crash_cases import in_memory, notes
from tests.faults.crash_processes import Fault
from tests.faults.crash_scripts import PATH, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.crash_processes import Zygote

FAULTS = [
    pytest.param("kill before", 0, id="killed before"),
    pytest.param("kill after", 0, id="killed after"),
    pytest.param("fail", errno.EIO, id="EIO"),
    pytest.param("fail", errno.ENOSPC, id="ENOSPC"),
    pytest.param("short", errno.ENOSPC, id="short write"),
]
#: Who holds the file before, for how long; and what is done then, by w1.
SCENES: dict[str, tuple[tuple[str, float] | None, tuple[str, ...]]] = {
    "acquire": (None, ("acquire", PATH)),
    "acquire again": (("w1", 60.0), ("acquire", PATH)),
    "release": (("w1", 60.0), ("release", PATH)),
    "release all": (("w1", 60.0), ("release", "--all")),
    "renew": (("w1", 60.0), ("renew", PATH, "--ttl", "2h")),
    "waited for": (("w0", 0.2), ("acquire", PATH, "--wait", "10")),
    "in line": (("w0", 60.0), ("acquire", PATH, "--later")),
}


class Scene:
    def __init__(self, place: Path, name: str) -> None:
        self.stage = Stage(place)
        self.before, self.command = SCENES[name]
        bus = self.stage.root / "bus"
        bus.mkdir(parents=True, mode=0o700)
        self.doors = Leases(bus, place)
        if self.before is not None:
            self.doors.acquire(PATH, self.before[0], ttl_s=self.before[1])

    def run(self, zygote: Zygote, fault: Fault) -> int:
        words = ("lock", *self.command, "--agent", "w1", "--json")
        child = zygote.run(*words, place=self.stage.place, fault=fault, out="out", err="err")
        assert child.ended(30)
        assert child.code is not None
        return child.code

    def problems(self, fault: Fault, code: int) -> Iterator[str]:
        if code < 0 and not fault.action.startswith("kill"):
            yield "died"
        text = (self.stage.place / "err").read_text()
        if code not in (0, 73, 75, -9) or "Traceback" in text:
            yield f"exit {code}: {text}"
        yield from self._of_what_was_said(code)
        yield from self._of_who_comes_next()
        yield from self._of_going_on()

    def _of_what_was_said(self, code: int) -> Iterator[str]:
        if code != 0:
            return
        holders, said = self._holders(), json.loads((self.stage.place / "out").read_text())
        if self.command[0] != "release" and holders != ["w1"]:
            yield f"it was told that it has the lease, and {holders} do"
        if self.command[0] == "release" and (holders or not said):
            yield f"it was told that it has let go, and {holders} hold"

    def _of_who_comes_next(self) -> Iterator[str]:
        """It is told who holds the file, or gets it, as the file says."""
        waits = "--wait" in self.command  # what hindered it may end meanwhile
        holders = self._holders()
        try:
            self.doors.acquire(PATH, "w2", wait_s=1.0 if waits else 0.0)
        except LeaseHeld as held:
            if not waits and [held.holder] != holders:
                yield f"{holders} held it, and w2 was told of {held.holder}"
        else:
            if not waits and holders:
                yield f"{holders} held it, and w2 got it"
        self.doors.release("w2")

    def _of_going_on(self) -> Iterator[str]:
        """Who was killed goes on where it was; and nothing is left in the end."""
        if self._holders() != ["w0"]:
            before = [lease.token for lease in self.doors.look().held.get(PATH, ())]
            lease = self.doors.acquire(PATH, "w1", wait_s=5)
            if before and lease.token != before[0]:
                yield f"its lease had token {before[0]}, and has {lease.token}"
        self.doors.release("w0")
        self.doors.release("w1")
        left = self.doors.look()
        if left.held or left.waiting:
            yield f"left: {left}"

    def _holders(self) -> list[str]:
        return [lease.agent for lease in self.doors.look().held.get(PATH, ())]


def in_a_scene(name: str, act: Callable[[Scene], list[str]]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="ackd-crash-", dir=in_memory()) as place:
        return act(Scene(Path(place), name))


def calls(zygote: Zygote, name: str) -> int:
    def act(scene: Scene) -> list[str]:
        assert scene.run(zygote, Fault("record")) == (75 if name == "in line" else 0)
        return notes(scene.stage)

    return len(in_a_scene(name, act))


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize(("action", "code"), FAULTS)
def test_a_lease_is_had_or_not_and_nobody_is_locked_out(
    zygote: Zygote, name: str, action: str, code: int, record_property: Callable[[str, object], None]
) -> None:
    def judged(fault: Fault) -> list[str]:
        def act(scene: Scene) -> list[str]:
            ended = scene.run(zygote, fault)
            return [f"{fault}, {notes(scene.stage)}, exit {ended}: {one}" for one in scene.problems(fault, ended)]

        return in_a_scene(name, act)

    faults = [Fault(action, n, code) for n in range(1, calls(zygote, name) + 1)]
    assert len(faults) > 2
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(judged, faults))
    assert not any(found), "\n".join(line for lines in found for line in lines)
    record_property("told", f"ackd lock, {name}, {action} {code or ''}: {len(faults)} calls")
