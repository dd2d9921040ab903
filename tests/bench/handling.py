"""Messages per second through a handler to completed, against a bare loop that reads, renames and flushes as often."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, mime, running
from tests.bench.row import Row

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 1000
HANDLER = "async def nothing(mail, ctx):\n    pass\n"


def rows(place: Path) -> list[Row]:
    bare = _bare(place / "bare")
    ours = _through_ackd(place / "ackd")
    return [Row("messages/s to completed, handler, one start", f"{ours:.0f}/s", f"{bare:.0f}/s bare loop", bare / ours)]


def _fill(directory: Path) -> None:
    directory.mkdir(parents=True)
    for number in range(COUNT):
        name = f"message_{1_700_000_000_000_000 + number}.mime"
        (directory / name).write_bytes(mime(to="nothing", message_id=f"{number}.1.bench@ignite.local"))


def _bare(place: Path) -> float:
    """What cannot be left out: read, move, flush, move again, and two lines of log."""
    _fill(place / "queue")
    for name in ("processed", "archive"):
        (place / name).mkdir()
    log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    started = time.perf_counter()
    for entry in sorted(path.name for path in (place / "queue").iterdir()):
        data = (place / "queue" / entry).read_bytes()
        (place / "queue" / entry).rename(place / "processed" / entry)
        fd = os.open(place / "processed" / entry, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        os.write(log, data[:200])
        (place / "processed" / entry).rename(place / "archive" / entry)
        os.write(log, data[:200])
    os.close(log)
    return COUNT / (time.perf_counter() - started)


def _through_ackd(place: Path) -> float:
    site = place / "site"
    info = site / "bench_handler-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-handler\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ackd.handlers]\nnothing = bench_handler:nothing\n")
    (site / "bench_handler.py").write_text(HANDLER)
    os.environ["PYTHONPATH"] = str(site)
    team = Team(place / "team", '[agents.nothing]\nendpoint = "handler"\n')
    _fill(team.root / "queue" / "nothing")
    with running(team):
        team.until(lambda: len(team.facts("message_completed")) >= COUNT, 120)
        lines = team.lines()
    stamps = [line["timestamp"] for line in lines if line["type"] in ("session_start", "message_completed")]
    from datetime import datetime

    first, last = (datetime.fromisoformat(stamp) for stamp in (min(stamps), max(stamps)))
    return COUNT / (last - first).total_seconds()
