"""The files of a session log: ``logs/session-YYYYMMDD-HHMMSS[-N].ndjson``, UTC, 0600; ``.gz`` behind it: compressed.

Here are their names, their order and their making. A log is named by its plain file, in whichever form it is stored.
Fails with OSError when none can be made; a directory that is not there holds none.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.storage.atomic_file import make_private
from ackd.storage.session_log.stored import SUFFIX, packed_path

if TYPE_CHECKING:
    from pathlib import Path

_CREATE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NAME: Final = re.compile(r"session-(\d{8}-\d{6})(?:-(\d{1,9}))?\.ndjson")


#: Directories with more entries are listed by more than one system call.
_LISTED_AT_ONCE: Final = 250


def session_files(logs_dir: Path) -> list[Path]:
    """The session logs of a directory, oldest first, each by the name of its plain file. None when there is no such
    directory."""
    try:
        found, entries = _listed(logs_dir)
        if entries > _LISTED_AT_ONCE:
            # Between two calls one may be compressed: its old name was ahead of the first, its new one behind the
            # second. Whoever looks twice sees it, since it is compressed once.
            found |= _listed(logs_dir)[0]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [logs_dir / name for name in sorted(found, key=age_order)]


def _listed(logs_dir: Path) -> tuple[set[str], int]:
    with os.scandir(logs_dir) as entries:
        names = {entry.name: entry for entry in entries}
    logs = (name.removesuffix(SUFFIX) for name, entry in names.items() if _regular(entry))
    return {name for name in logs if _NAME.fullmatch(name)}, len(names)


def age_order(name: str) -> tuple[str, int]:
    """Return the sort key of a session log's name. As text ``…-2.ndjson`` would come before ``….ndjson``, which is
    older. Other names sort first."""
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)


def _regular(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def is_log(name: str) -> bool:
    """Tell whether this is the name of a log's plain file."""
    return _NAME.fullmatch(name) is not None


@dataclass(slots=True)
class OpenFile:
    path: Path
    fd: int
    stem: str
    number: int


def not_before_the_last(logs_dir: Path, stem: str) -> tuple[str, int]:
    """Return stem and number to begin a new session's name with. After the clock was set back the session is called
    after the last one, with the next number: sorted by name, sessions stand in the order in which they were written."""
    found = session_files(logs_dir)
    last = _NAME.fullmatch(found[-1].name) if found else None
    if last is None or last[1] <= stem:
        return stem, 1
    return last[1], int(last[2] or 1) + 1


def _file_name(stem: str, number: int) -> str:
    return f"session-{stem}.ndjson" if number == 1 else f"session-{stem}-{number}.ndjson"


def create(logs_dir: Path, stem: str, first: int) -> OpenFile:
    make_private(logs_dir)
    for number in itertools.count(first):
        path = logs_dir / _file_name(stem, number)
        if packed_path(path).exists():
            continue
        try:
            return OpenFile(path, os.open(path, _CREATE, 0o600), stem, number)
        except FileExistsError:
            continue
    raise AssertionError("count() ended")


def begin_session(logs_dir: Path, started_at: float) -> str:
    """Make the file of a new session, empty, and return the session's id: nobody else has the same."""
    stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
    opened = create(logs_dir, *not_before_the_last(logs_dir, stem))
    os.close(opened.fd)
    return opened.path.stem.removeprefix("session-")


def show_in(directory: Path, path: Path) -> None:
    """Link this log among the logs of another directory, under its own name or the next number of it."""
    make_private(directory)
    if os.path.realpath(directory) == os.path.realpath(path.parent):
        return
    found = _NAME.fullmatch(path.name)
    stem, first = (found[1], int(found[2] or 1)) if found else (path.stem.removeprefix("session-"), 1)
    for number in itertools.count(first):
        link = directory / _file_name(stem, number)
        try:
            link.symlink_to(os.path.relpath(os.path.realpath(path), os.path.realpath(directory)))
        except FileExistsError:
            continue
        return
