"""Text files that ackd puts where the system looks for them: units, completions, manual pages.

The last line of each is a mark of ours: a comment with a hash of the lines above it, and with the number of directories
that were made for it. So a file that somebody has edited since, or that is somebody else's, is told from ours without
any other record, and removing the file also removes the directories that were made for it. ``look`` says what is there;
``put`` writes and ``remove`` removes, whatever that is: the caller asks first. Fails with OSError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import BadMessage
from ackd.storage import atomic_file
from ackd.system.syscalls import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MISSING: Final = "missing"
OURS: Final = "ours"
#: Ours once, and changed by somebody since.
EDITED: Final = "edited"
#: Somebody else's.
FOREIGN: Final = "foreign"

_MAX_BYTES: Final = 4 * 1024 * 1024
_MOST_BACKUPS: Final = 100
_MARK: Final = re.compile(
    r"(?m)^\S+ written by `ackd service install` \(sha256 ([0-9a-f]{64}), (\d+) new directories\)$"
)


class Found(NamedTuple):
    """``text`` is without the mark; empty unless there is a text file."""

    state: str
    text: str = ""
    directories: int = 0


def look(path: Path) -> Found:
    try:
        content = atomic_file.read_regular(path, _MAX_BYTES).decode(errors="surrogateescape")
    except FileNotFoundError:
        return Found(MISSING)
    except BadMessage:  # a link, a directory, a huge file
        return Found(FOREIGN)
    mark = _MARK.search(content)
    if mark is None:
        return Found(FOREIGN, content)
    text, rest = content[: mark.start()], content[mark.end() :]
    is_ours = rest == "\n" and mark[1] == _hash(text)
    return Found(OURS if is_ours else EDITED, text if is_ours else content, int(mark[2]))


def put(path: Path, text: str, comment: str) -> None:
    """Write the file, 0644, with its mark; ``comment`` begins a comment in its language."""
    _put(path, text, comment, _make_directories(path.parent))


def _put(path: Path, text: str, comment: str, new_directories: int) -> None:
    before = look(path)
    made = new_directories + before.directories
    text = text if text.endswith("\n") else f"{text}\n"
    mark = f"{comment} written by `ackd service install` (sha256 {_hash(text)}, {made} new directories)\n"
    seen = None if before.state == MISSING else identity_of(str(path))
    atomic_file.write_if_unchanged(str(path), f"{text}{mark}".encode(errors="surrogateescape"), seen, mode=0o644)


def keep_copy(path: Path) -> Path:
    """Copy the file beside itself, and return the copy's path."""
    content = atomic_file.read_regular(path, _MAX_BYTES)
    for copy in _copies(path):
        with contextlib.suppress(FileExistsError):
            atomic_file.write_new(copy, content)
            return copy
    raise FileExistsError(f"{path} has {_MOST_BACKUPS} copies already")


def remove(paths: Iterable[Path]) -> None:
    """Remove the files, and then those directories that were made for them and are empty now."""
    made = set[Path]()
    for path in paths:
        made.update([*path.parents][: look(path).directories])
        path.unlink(missing_ok=True)
    for directory in sorted(made, reverse=True):  # a directory comes after those in it
        with contextlib.suppress(OSError):  # somebody else uses it
            directory.rmdir()


def hand_over(path: Path, heir: Path, comment: str) -> None:
    """Let another file of ours in the same directory answer for the directories that were made for this one."""
    directories = look(path).directories
    if directories:
        _put(heir, look(heir).text, comment, directories)


def _copies(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.bak")
    for number in range(1, _MOST_BACKUPS):
        yield path.with_name(f"{path.name}.bak.{number}")


def _make_directories(directory: Path) -> int:
    """Make the directory and those above it; return how many that were. Others may read them, as they may their
    siblings."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        one.chmod(0o755 if os.geteuid() == 0 else one.stat().st_mode)
    return len(missing)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
