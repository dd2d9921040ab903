"""The daemon as a bench runs it: a real process, as the service unit starts it, with handler agents from a distribution.

Two handlers: ``nothing`` returns at once; ``note`` first writes down when it was called. Waiting looks at the new bytes
of the session log only, so that it costs the daemon's cores next to nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HANDLERS = """\
import os
import time

_notes = os.open(os.environ["BENCH_NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def nothing(mail, ctx):
    pass


async def note(mail, ctx):
    at = time.monotonic_ns()
    os.write(_notes, b"%s %d\\n" % (mail.message_id.encode(), at))
"""
_COMPLETED = b'"type":"message_completed"'
_LOOK_EVERY_S = 0.01
#: A thousand queue directories are made and flushed before it is ready.
START_PATIENCE_S = 120.0


def make_team(
    place: Path,
    agents: Sequence[str],
    *,
    handler: str = "nothing",
    durability: str = "power",
    keys: str = "",
    more: str = "",
) -> Team:
    """A team of handler agents with the default settings. ``keys``: further ones of each agent; ``more``: tables."""
    of_each = f'endpoint = "handler"\nhandler = "{handler}"\n{keys}'
    tables = "".join(f"[agents.{name}]\n{of_each}" for name in agents) + more
    team = Team(place, tables, delivery=f'durability = "{durability}"\n', quick="")
    site = place / "handlers"
    info = site / "bench_handlers-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-handlers\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[ackd.handlers]\nnothing = bench_handlers:nothing\nnote = bench_handlers:note\n"
    )
    (site / "bench_handlers.py").write_text(HANDLERS)
    # A package that is installed was compiled then: no run may pay for that.
    compiled = {"PYTHONDONTWRITEBYTECODE": ""}
    team.extra_env = {"PYTHONPATH": str(site), "BENCH_NOTES": str(notes_of(team)), **compiled}
    return team


def notes_of(team: Team) -> Path:
    """Message ids, and when the handler ``note`` was called with them."""
    return team.place / "notes"


@contextlib.contextmanager
def serving(team: Team, *, ready: bool = True) -> Iterator[Team]:
    """The daemon runs inside. Its end is not waited for politely: the team's directory goes with the bench."""
    try:
        team.start("--quiet", ready=False)
        if ready:
            until(lambda: team.status_pid() == team.pid, team, "the daemon is ready", START_PATIENCE_S)
        yield team
    finally:
        if team.process is not None:
            team.kill()


class LinesSeen:
    """Counts lines of some types in the session logs of a team, from bytes that are read once. ``marks``: the bytes by
    which such a line is known; by default those of a completion."""

    def __init__(self, team: Team, *marks: bytes) -> None:
        self._team = team
        self._marks = marks or (_COMPLETED,)
        self._offsets: dict[Path, int] = {}
        self.count = 0

    def wait(self, count: int, patience_s: float) -> float:
        """Until ``count`` are there; when that was seen, on the monotonic clock."""
        return until(lambda: self.look() >= count, self._team, f"{count} lines {self._marks!r}", patience_s)

    def wait_for_start(self, patience_s: float) -> float:
        """Until the session has its first line, which is written before recovery begins."""

        def started() -> bool:
            self.look()
            return any(self._offsets.values())

        return until(started, self._team, "a line in the log", patience_s)

    def look(self) -> int:
        for path in (self._team.root / "logs").glob("session-*.ndjson"):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as log:
                log.seek(offset)
                new = log.read()
            whole = new.rfind(b"\n") + 1
            self.count += sum(new.count(mark, 0, whole) for mark in self._marks)
            self._offsets[path] = offset + whole
        return self.count


#: Of messages, which nearly every bench counts.
Completions = LinesSeen


def until(holds: Callable[[], bool], team: Team, what: str, patience_s: float) -> float:
    """When it held, on the monotonic clock."""
    give_up_at = time.monotonic() + patience_s
    while not holds():
        if not _lives(team.pid):
            raise BenchFailed(f"the daemon ended: {team.output()[-2000:]}")
        if time.monotonic() > give_up_at:
            raise BenchFailed(f"not within {patience_s:.0f} s: {what}")
        time.sleep(_LOOK_EVERY_S)
    return time.monotonic()


def _lives(pid: int) -> bool:
    """Asked of the kernel: in a forked process the daemon is not our child."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def memory_bytes(pid: int, what: str) -> int:
    """``VmRSS`` (now) or ``VmHWM`` (the most so far)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise BenchFailed(f"/proc/{pid}/status has no {what}")


def cpu_s(pid: int) -> float:
    """Time on a processor, all threads, those that have ended included. In ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
