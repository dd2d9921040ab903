"""Real children in a directory of the test's own: shell and Python scripts that behave badly in one way each."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ackd.endpoints.process.child import Child, ChildProcess, OutputLine
from tests.strays import MARK, children
from tests.waiting import until

if TYPE_CHECKING:
    from ackd.core.fact import Fact

REPOSITORY = Path(__file__).parents[4]
#: Ignores TERM, says so, and stays.
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


#: Children of other tests in this process.
_others: set[int] = set()


def note_others() -> None:
    """Note the children that are there before a test: they are not its own."""
    _others.clear()
    _others.update(children())


def assert_no_child_left() -> None:
    assert children() <= _others


@dataclass
class RealChildren:
    tmp: Path
    facts: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)

    @property
    def work(self) -> Path:
        return self.tmp / "work"

    @property
    def directory(self) -> Path:
        return self.tmp / "state" / "children"

    @property
    def stderr_log(self) -> Path:
        return self.tmp / "logs" / "worker.stderr.log"

    def record(self, fact: Fact) -> None:
        type_, data = fact
        self.facts.append((type_, data))

    def recorded(self, type_: str) -> list[dict[str, object]]:
        return [data for kind, data in self.facts if kind == type_]

    def child(self, *command: str, **more: object) -> Child:
        options: dict[str, object] = {"agent": "worker", "cwd": self.work, "env": {MARK: str(self.tmp)}} | more
        return Child(
            command=command,
            directory=self.directory,
            logs=self.tmp / "logs",
            record=self.record,
            **options,  # type: ignore[arg-type]
        )

    def sh(self, script: str, **more: object) -> Child:
        return self.child("sh", "-c", script, **more)

    def python(self, script: str, **more: object) -> Child:
        return self.child(sys.executable, "-c", script, **more)

    async def pid_in(self, name: str) -> int:
        path = self.work / name
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())


async def all_lines(life: ChildProcess) -> list[OutputLine]:
    with anyio.fail_after(60):
        return [line async for line in life.lines()]


async def first_line(life: ChildProcess) -> OutputLine:
    with anyio.fail_after(60):
        async for line in life.lines():
            return line
    raise AssertionError("it said nothing")
