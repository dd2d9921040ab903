"""Remove files that nobody will ask for: old days of the archive, and the temporary files of crashed writers.

A temporary file is left alone while its writer lives, whatever the clock says: a clock that is set ahead must not
remove a rewrite in progress. A day is old by its name and by when a file was last put there: one of the two may be by a
clock that was wrong.
"""

# ruff: noqa: PTH108, PTH208
from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
import time
from typing import Final

from ackd.storage.spool.disk import writer_of
from ackd.system.syscalls import ASIDE, settle_aside

_DAY: Final = re.compile(r"\d{8}")
#: Position of the start time in /proc/PID/stat, counted after the program's name.
_START_TICKS: Final = 19
_CLOCK_SET_S: Final = 86_400.0


def old_days(archive: str, oldest: dt.date, ours: tuple[dt.date, dt.date] | None) -> list[str]:
    """Return the days before ``oldest``. ``ours``: days whose names and times are wrong, because the clock was set
    since. Those get the time of now: a later daemon cannot know, and keeps them too."""
    before = dt.datetime(oldest.year, oldest.month, oldest.day, tzinfo=dt.UTC).timestamp()
    old = {name: day for name, day in _days(archive).items() if day < oldest and _changed(f"{archive}/{name}") < before}
    kept = [name for name, day in old.items() if ours and ours[0] <= day <= ours[1]]
    for name in kept:
        os.utime(f"{archive}/{name}", follow_symlinks=False)
    return sorted(old.keys() - kept)


def remove_day(archive: str, name: str) -> None:
    shutil.rmtree(f"{archive}/{name}")


def _changed(day: str) -> float:
    """Return when a file was last put into a day, or the first of an agent."""
    with os.scandir(day) as entries:
        boxes = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    return max(os.lstat(day).st_mtime, *(box.stat(follow_symlinks=False).st_mtime for box in boxes), 0.0)


def latest_days(archive: str, count: int) -> list[str]:
    return sorted(_days(archive))[-count:]


def _days(archive: str) -> dict[str, dt.date]:
    with os.scandir(archive) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return {name: day for name in names if (day := _as_day(name)) is not None}


def _as_day(name: str) -> dt.date | None:
    if not _DAY.fullmatch(name):
        return None
    try:
        return dt.date(int(name[:4]), int(name[4:6]), int(name[6:]))
    except ValueError:
        return None


def sweep_temporary(directory: str, before: float, now: float) -> int:
    """Remove temporary files of dead writers, and return how many."""
    removed = 0
    for path in stale_temporaries(directory, before, now):
        with contextlib.suppress(FileNotFoundError):  # somebody else has removed it
            os.unlink(path)
            removed += 1
    return removed


def stale_temporaries(directory: str, before: float, now: float) -> list[str]:
    """List the temporary files of dead writers. Their age is their ctime, since a rewrite in progress carries the mtime
    of its file."""
    try:
        with os.scandir(directory) as entries:
            temps = [entry for entry in entries if entry.name[0] == "." and entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    stale = []
    for entry in temps:
        writer = writer_of(entry.name)
        if writer is None:
            continue
        with contextlib.suppress(FileNotFoundError):
            written_at = entry.stat(follow_symlinks=False).st_ctime
            if written_at < before and not _lives(writer, now - written_at):
                stale.append(entry.path)
    return stale


def settle_asides(directory: str, suffix: str) -> int:
    """Give files a name again that a crash left aside in the midst of a move of several steps (``syscalls``). Such a
    file may be the only copy of a message, so it is not removed; its old name is not known, and may be taken."""
    try:
        asides = [name for name in os.listdir(directory) if name.startswith(ASIDE)]
    except FileNotFoundError:
        return 0
    settled = 0
    for name in asides:
        with contextlib.suppress(FileNotFoundError):
            settle_aside(f"{directory}/{name}", f"{directory}/{name.removeprefix(ASIDE)}{suffix}")
            settled += 1
    return settled


def _lives(pid: int, age_s: float) -> bool:
    """Say whether the writer still lives, and its number is not another process's by now, as in a container, where the
    same few numbers are always taken: that one began long after the file was written. The comparison allows for a day,
    because the clock may have been set."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - also of others
            ticks = int(file.read().rpartition(")")[2].split()[_START_TICKS])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, IndexError):
        return True
    lives_for_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return age_s < lives_for_s + _CLOCK_SET_S
