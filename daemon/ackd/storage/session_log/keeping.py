"""Compress logs that are finished, and remove old ones (README.md says in which order, and what a crash leaves).

Only logs that a daemon wrote are touched: a team's programs may keep theirs beside them, and go on writing. May take
long, and is meant for a thread: ``pace`` is called with the seconds that each step took, may wait, and returns False
to have the work given up, which leaves everything as it was. Fails with OSError, and then leaves no half-written file.
"""

# ruff: noqa: PTH115 - links are text
from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.storage import atomic_file
from ackd.storage.session_log.files import is_log
from ackd.storage.session_log.reading import chunks, in_json, read_lines
from ackd.storage.session_log.stored import SUFFIX, open_log, packed_path, packed_pieces, state, state_of_packed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Pace = Callable[[float], bool]

#: Keys under which a line names a message that it belongs to.
_NAMED: Final = re.compile(rb'"(?:message_id|in_reply_to|escalation_id|part_of)": ?"((?:[^"\\]|\\.)*)"')
_DAEMON: Final = "daemon"


class Compressed(NamedTuple):
    size_bytes: int
    stored_bytes: int


class _GivenUp(Exception):  # noqa: N818 - it names a condition, and never leaves this module
    pass


def is_daemons(path: Path) -> bool:
    """Tell whether a daemon wrote this log. One without any line is nobody's."""
    first = next(iter(read_lines(path)), None)
    return first is not None and first.writer == _DAEMON


# --- compressing ------------------------------------------------------------------------------------------------------
def is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def compress(path: Path, pace: Pace) -> Compressed | None:
    """Put the compressed form of a finished log in the place of its plain file. None: given up, or written to."""
    packed = packed_path(path)
    try:
        was = state(path)
        if was is None or not is_plain(path):
            return None
        if not _is_made_of(packed, path):
            _write_packed(path, packed, pace)
        atomic_file.flush_directory(path.parent)
        if state(path) != was:  # its lines are in the plain file, which is read first; the next try makes another
            return None
        stored_bytes = packed.stat().st_size
        path.unlink()
    except _GivenUp:
        return None
    return Compressed(was.size, stored_bytes)


def _is_made_of(packed: Path, path: Path) -> bool:
    """Tell whether the compressed file is there already, of all that is in the plain one."""
    return packed.is_file() and state_of_packed(packed) == state(path)


def _write_packed(path: Path, packed: Path, pace: Pace) -> None:
    with open_log(path) as log:
        if log is None:
            raise _GivenUp
        was = log.state()
        with atomic_file.assembling(packed, like_mtime_ns=was.mtime_ns) as fd:
            began = time.monotonic()
            for piece in packed_pieces(log, was):
                atomic_file.write_all(fd, piece)
                if not pace(time.monotonic() - began):
                    raise _GivenUp
                began = time.monotonic()
            if log.state() != was:
                raise _GivenUp


# --- removing ---------------------------------------------------------------------------------------------------------
def names_any(path: Path, ids: Collection[str], pace: Pace) -> str | None:
    """Return one of these messages that the log has a line about; None if it has none, and "" if that was given up."""
    wanted = {in_json(one): one for one in ids}
    began = time.monotonic()
    for chunk in chunks(path) if wanted else ():
        for found in _NAMED.finditer(chunk):
            if found[1] in wanted:
                return wanted[found[1]]
        if not pace(time.monotonic() - began):
            return ""
        began = time.monotonic()
    return None


def remove(path: Path) -> None:
    """Remove a log, in whichever form it is there."""
    for form in (packed_path(path), path):
        with contextlib.suppress(FileNotFoundError):
            form.unlink()


# --- links ------------------------------------------------------------------------------------------------------------
def mend_links(directory: Path, logs_dir: Path) -> None:
    """Make the links of a directory (``show_in``) lead to the logs as they are stored now. A link to a log that was
    removed is removed. Links to anything else are left alone."""
    try:
        links = sorted(one for one in directory.iterdir() if one.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return
    ours, here = os.path.realpath(logs_dir), os.path.realpath(directory)
    for link in links:
        target = os.readlink(link)
        place = Path(os.path.normpath(Path(here, target)))
        if str(place.parent) != ours or not is_log(place.name.removesuffix(SUFFIX)) or place.exists():
            continue
        if packed_path(place).exists():
            with contextlib.suppress(FileExistsError):
                packed_path(link).symlink_to(target + SUFFIX)
        link.unlink(missing_ok=True)
