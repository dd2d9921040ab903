"""One case: a script is run, the daemon dies or meets a fault at one call, is started again, comes to rest, is judged."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.faults import crash_checks
from tests.faults.crash_processes import PATIENCE_S, Child, Fault, Zygote
from tests.faults.crash_scripts import Key, Script, Stage
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit codes by which a daemon may say that the disk did not let it go on (docs/operations.md: cannot create; try again).
CLEAR_ENDS: Final = frozenset({73, 75})
_POLL_S: Final = 0.004


@dataclass
class Verdict:
    """``notes``: what the interposer did. ``problems``: empty for a pass."""

    script: str
    faults: tuple[Fault, ...]
    notes: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        what = "; ".join(map(str, self.faults)) or "no fault"
        return "\n  ".join([f"{self.script}, {what} ({', '.join(self.notes)}; ended {self.codes})", *self.problems])


@dataclass
class Case:
    """``faults``: one for each start of the daemon, in turn; later starts have none. ``patience_s``: for it to come to
    rest. A test that knows it will not has less of it, which is counted from where the daemon is up after its faults."""

    zygote: Zygote
    script: Script
    stage: Stage
    faults: Sequence[Fault] = ()
    broken: str | None = None
    patience_s: float = PATIENCE_S
    _final: dict[tuple[Key, str], int] = field(default_factory=dict)

    def run(self) -> Verdict:
        began = time.monotonic()
        verdict = Verdict(self.script.name, tuple(self.faults))
        try:
            self._run(verdict)
        except AssertionError as error:
            verdict.problems.append(str(error))
        finally:
            end_strays_of(self.stage)
        verdict.notes = notes(self.stage)
        verdict.problems += crash_checks.problems(self.stage) + self._run_again() + self._shown_by_tail()
        verdict.seconds = time.monotonic() - began
        if verdict.problems:
            verdict.problems.append(f"log:\n{self.stage.story()}")
        return verdict

    def _run(self, verdict: Verdict) -> None:
        steps = self.script.steps(self.stage)
        step = next(steps, None)
        left = list(self.faults)
        give_up_at = time.monotonic() + PATIENCE_S
        standstill_at = give_up_at
        child = self._start(left)
        try:
            while step is not None or not self._at_rest(child):
                if step is not None and step[0]():
                    self._note_committed()
                    step[1]()
                    step = next(steps, None)
                elif child.ended(_POLL_S):
                    self._after_an_end(child, verdict)
                    child = self._start(left)
                if self.patience_s < PATIENCE_S and not self._is_up_after_its_faults(child):
                    standstill_at = time.monotonic() + self.patience_s
                assert time.monotonic() < min(give_up_at, standstill_at), f"not at rest within {self.patience_s} s"
            self._note_committed()
            child.send(signal.SIGTERM)
            assert child.ended(PATIENCE_S), "does not stop"
            if child.code not in {0, -signal.SIGKILL, *CLEAR_ENDS} and not self._was_starting(child):
                verdict.problems.append(f"stopped with {child.code}: {self.stage.output()[-2000:]}")
            self.stage.disk_refused, self.stage.disk_refuses = self.stage.disk_refuses, False
            if child.code != 0 or not crash_checks.settled(self.stage):  # it died with its last words, or left a run
                verdict.codes.append(child.code or 0)
                self._settle_once_more()
        finally:
            if not child.ended():
                child.kill()

    def _at_rest(self, child: Child) -> bool:
        """Started, too: a signal that comes earlier ends it as it ends any process. The page that says so may be what
        the disk refuses."""
        started = self.stage.disk_refuses or self.stage.status_pid() == child.pid
        return started and crash_checks.settled(self.stage)

    def _is_up_after_its_faults(self, child: Child) -> bool:
        return self.stage.status_pid() == child.pid and len(notes(self.stage)) >= len(self.faults)

    def _was_starting(self, child: Child) -> bool:
        return child.code == -signal.SIGTERM and self.stage.status_pid() != child.pid

    def _settle_once_more(self) -> None:
        child = self._start([])
        give_up_at = time.monotonic() + self.patience_s
        try:
            while not self._at_rest(child):
                assert not child.ended(_POLL_S), "ended by itself"
                assert time.monotonic() < give_up_at, f"not at rest within {self.patience_s} s"
        finally:
            child.send(signal.SIGTERM)
            assert child.ended(PATIENCE_S), "does not stop"

    def _start(self, left: list[Fault]) -> Child:
        return self.zygote.run("run", place=self.stage.place, fault=left.pop(0) if left else None, broken=self.broken)

    def _after_an_end(self, child: Child, verdict: Verdict) -> None:
        assert child.code is not None
        verdict.codes.append(child.code)
        if child.code not in {-signal.SIGKILL, *CLEAR_ENDS} and not (self.stage.is_stopped and child.code == 0):
            verdict.problems.append(f"ended with {child.code}: {self.stage.output()[-2000:]}")
        self._note_committed()

    def _note_committed(self) -> None:
        """Whose end is on disk, and how often it had run by then. Asked while the daemon lives, too: one that survives
        its fault may run something again. In this order, for a run that counts before its end is looked for is none."""
        committed = crash_checks.committed(self.stage)
        ran = self.stage.ledger()
        for key, file in committed:
            self._final.setdefault((key, file), ran[key])

    def _run_again(self) -> list[str]:
        ran, copies = self.stage.ledger(), crash_checks.duplicates(self.stage)
        return [
            f"{key}: ran {ran[key]} times, {count} before its end was on disk"
            for (key, file), count in self._final.items()
            if ran[key] != count and file not in copies
        ]

    def _shown_by_tail(self) -> list[str]:
        """Where a line may be torn, what `ackd tail` shows is asked, too: each of its lines is one of the log, whole."""
        if not self.stage.torn_lines_allowed:
            return []
        place = self.stage.place
        child = self.zygote.run("tail", "--json", "--since", "1h", place=place, out="tail.out", err="tail.err")
        assert child.ended(PATIENCE_S)
        shown = [json.loads(line)["type"] for line in (place / "tail.out").read_text().splitlines()]
        written = [line["type"] for line in self.stage.lines()]
        return [] if shown == written else [f"ackd tail shows {len(shown)} lines of {len(written)}: {shown}"]


def notes(stage: Stage) -> list[str]:
    """What the interposer wrote down, as words: ``killed before call 12: rename queue/… → …``."""
    path = stage.place / "notes"
    if not path.exists():
        return []
    return [_in_words(line, stage) for line in path.read_text().splitlines()]


def _in_words(line: str, stage: Stage) -> str:
    what, number, call, one, two = line.split("\t")
    short = [path.replace(f"{stage.root}/", "") for path in (one, two) if path]
    return f"{what} {number}: {call} {' -> '.join(short)}"


def end_strays_of(stage: Stage) -> None:
    (stage.place / "go").touch()  # whatever waits, ends
    if any(stage.files("state/runs")):
        end_strays(stage.place)


def in_memory() -> Path | None:
    """Where files cost least: a crash of ackd is the same on every file system."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() else None


def run_case(
    zygote: Zygote, script: Script, *faults: Fault, broken: str | None = None, patience_s: float = PATIENCE_S
) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="ackd-crash-", dir=in_memory()) as place:
        stage = Stage(Path(place))
        stage.torn_lines_allowed = any(fault.action == "short" for fault in faults)
        stage.disk_refuses = any(fault.action in ("short", "fail") for fault in faults)
        with stage.mounts:
            return Case(zygote, script, stage, faults, broken, patience_s).run()
