"""What in a root can be put in order without a person's judgement: found first, then done, one by one.

Directories that are missing are made, what is ours is closed to others, and what killed programs left under temporary
names is removed. No message, receipt or line is ever touched, and nothing of another user. ``find`` changes nothing;
``Repair.carry_out`` fails with OSError.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.storage.backup import snapshot
from ackd.storage.spool.sweeping import stale_temporaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The directories of a root that a daemon has served.
LAYOUT: Final = (
    "queue", "queue/dead_letter", "queue/corrupt", "receipts", "archive", "logs", "state", "run",
)  # fmt: skip
#: Directories whose files are written by ackd alone, so that all of them are to be 0600.
_OURS: Final = ("state", "logs", "run")
#: A temporary file that is younger may be one of a program that is just at it.
_STALE_AFTER_S: Final = 60.0

MAKE: Final = "make"
CLOSE: Final = "close"
REMOVE: Final = "remove"


class Repair(NamedTuple):
    """``what``: MAKE, CLOSE or REMOVE; ``mode``: the one that it has, for CLOSE; ``by_hand``: what to type instead."""

    what: str
    path: Path
    mode: int = 0

    @property
    def words(self) -> str:
        match self.what:
            case "make":
                return f"made {self.path}"
            case "close":
                return f"closed {self.path} to others ({self.mode:04o} before, {self._closed:04o} now)"
            case _:
                return f"removed {self.path}, which a program left that was killed"

    @property
    def by_hand(self) -> str:
        match self.what:
            case "make":
                return f"mkdir -m 700 {self.path}"
            case "close":
                return f"chmod go-rwx {self.path}"
            case _:
                return f"rm -r {self.path}"

    @property
    def _closed(self) -> int:
        return self.mode & 0o700

    def carry_out(self) -> None:
        match self.what:
            case "make":
                self.path.mkdir(mode=0o700)
            case "close":
                self.path.chmod(self._closed)
            case _ if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            case _:
                self.path.unlink()


def find(root: Path) -> list[Repair]:
    """List what can be repaired, in the order in which it is to be done. A root that is not there has nothing."""
    if not root.is_dir():
        return []
    return [*_missing(root), *_open(root), *_left(root)]


def _missing(root: Path) -> Iterator[Repair]:
    """Missing directories, if a daemon has ever run here: before that its first start makes them."""
    if os.path.lexists(root / "state/version"):
        yield from (Repair(MAKE, root / name) for name in LAYOUT if not os.path.lexists(root / name))


def _open(root: Path) -> Iterator[Repair]:
    """Directories of the root, and files that only ackd writes, that are open to others."""
    yield from _close(root, stat.S_ISDIR)
    for name in LAYOUT:
        yield from _close(root / name, stat.S_ISDIR)
    for box in _children(root / "queue"):
        if box.name not in ("dead_letter", "corrupt"):
            yield from _close(box, stat.S_ISDIR)
            yield from _close(box / "processed", stat.S_ISDIR)
    for name in _OURS:
        for where, directories, files in os.walk(root / name):
            for one in sorted(directories):
                yield from _close(Path(where, one), stat.S_ISDIR)
            for one in sorted(files):
                yield from _close(Path(where, one), stat.S_ISREG)


def _close(path: Path, is_meant: Callable[[int], bool]) -> Iterator[Repair]:
    with contextlib.suppress(OSError):
        found = path.lstat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and is_meant(found.st_mode):
            yield Repair(CLOSE, path, stat.S_IMODE(found.st_mode))


def _left(root: Path) -> Iterator[Repair]:
    now = time.time()
    boxes = [path for box in _children(root / "queue") for path in (box, box / "processed")]
    for directory in (root / "receipts", root / "queue", *boxes):
        with contextlib.suppress(OSError):  # `ackd check` says elsewhere what cannot be listed
            for name in stale_temporaries(str(directory), now - _STALE_AFTER_S, now):
                yield Repair(REMOVE, Path(name))
    for path in snapshot.left_behind(root / "run"):
        yield Repair(REMOVE, path)


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def foreign(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield what does not belong to the owner of the root, though only ackd writes there; with who owns it."""
    owner = root.stat().st_uid
    inside = [root / name for name in LAYOUT]
    for name in _OURS:
        with contextlib.suppress(OSError):
            inside += sorted((root / name).iterdir())
    for path in inside:
        with contextlib.suppress(OSError):
            if (uid := path.lstat().st_uid) != owner:
                yield path, uid
