"""Removing what nobody will ask for: old days of the archive, and what crashed writers left.

A temporary file is left alone while its writer lives, whatever the clock says: a clock that is set ahead must not take
a rewrite from under whoever makes it.
"""

# ruff: noqa: PTH108, PTH208
from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
from typing import Final

from ackd.adapters.spool.names import writer_of
from ackd.syscalls import ASIDE, settle_aside

_DAY: Final = re.compile(r"\d{8}")


def sweep_days(archive: str, oldest: dt.date) -> int:
    old = [name for name, day in _days(archive).items() if day < oldest]
    for name in old:
        shutil.rmtree(f"{archive}/{name}")
    return len(old)


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


def sweep_temporary(directory: str, before: float) -> int:
    """Judged by ctime, since a rewrite in progress carries the mtime of its file."""
    try:
        with os.scandir(directory) as entries:
            temps = [entry for entry in entries if entry.name[0] == "." and entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return 0
    swept = 0
    for entry in temps:
        writer = writer_of(entry.name)
        if writer is None or _lives(writer):
            continue
        with contextlib.suppress(FileNotFoundError):  # somebody else has swept it
            if entry.stat(follow_symlinks=False).st_ctime < before:
                os.unlink(entry.path)
                swept += 1
    return swept


def settle_asides(directory: str, suffix: str) -> int:
    """What crashed in the midst of a move where that is several steps (``syscalls``). A message is not removed, but
    given a name by which the next scan finds it: nobody else may have it. Its own is not known, and may be taken."""
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


def _lives(pid: int) -> bool:
    """Or another process that has its number by now: then the file stays a while longer."""
    return os.path.exists(f"/proc/{pid}")  # noqa: PTH110 - also for processes of others, and without a signal
