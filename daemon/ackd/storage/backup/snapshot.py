"""A snapshot: second names (hard links) for the files below a root, all of one moment, in ``run/snapshot-<hex>/``.

``ackd backup`` makes the directory, and whoever holds the root fills it: the daemon between two turns of its loop, or
the command itself where no daemon runs. Nobody else moves messages, so none is between two places meanwhile. A link is
made in microseconds, however large the file; where none can be made (another mount, a file system without links, a file
of another user) the file is copied.

The archive only grows, so it gets no links: ``Snapshot`` says which of its files were there at the moment. Files that
are appended to are read up to the size that they had (``sizes``).

Other programs go on meanwhile: they send, delete what they have done, and write receipts. So what says that work is
over is linked first (receipts, results of runs, then ``processed/``), and what it may have produced comes last. Fails
with OSError; a file that is gone by the time it is to be linked is passed over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackd.core.words import ReceiptKind
from ackd.storage import file_lock
from ackd.storage.json_state import JsonState
from ackd.storage.spool.disk import writer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = re.compile(r"snapshot-[0-9a-f]{16}")
_TAKEN: Final = "taken.json"
_SEEN: Final = "archive_seen.json"
_TREE: Final = "tree"
_MAX_BYTES: Final = 1 << 30
#: A directory that changed less than this ago may change again without a new timestamp.
_TICK_NS: Final = 2_000_000_000
#: Rounds through queue/, until one finds nothing new: a copy from another mount may end while we look.
_ROUNDS: Final = 8
#: Errors that say: this file cannot have a second name there. It is copied.
_NO_LINK: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
)
#: Directly below state/: made anew by whoever needs it, and of no use elsewhere. The births of the queue directories
#: are those of the old root: a start would take every restored queue for lost.
_NOT_KEPT: Final = re.compile(r"state/(?:boxes\.json|log_index\.sqlite.*|restored\.json)")
#: Directories that are left out: sockets, locks and pages of a running daemon; and the archive, which is listed.
_LEFT_OUT: Final = frozenset({"run", "archive"})


def is_name(name: str) -> bool:
    """Tell a name that ``Snapshot.new`` gives."""
    return _NAME.fullmatch(name) is not None


@dataclass
class Snapshot:
    """A snapshot of a root, in a directory below its ``run/``."""

    root: Path
    name: str
    #: When it was taken, in wall seconds; 0 before that.
    taken_at: float = 0.0
    #: Sizes of files that may have grown since, by their paths below the root.
    sizes: dict[str, int] = field(default_factory=dict)
    #: Directories of the archive that had changed since ``new``: the names of the files in each at the moment.
    archived: dict[str, list[str]] = field(default_factory=dict)
    #: The whole archive as ``new`` found it: the time of each directory, and its names. Known to the caller only.
    _before: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    #: Locked as long as the command lives that wants the snapshot.
    _fd: int = -1

    @classmethod
    def new(cls, root: Path) -> Snapshot:
        """Make the directory of a snapshot that is still to be taken, and list the archive as it is now."""
        one = cls(root, f"snapshot-{os.urandom(8).hex()}")
        one.path.mkdir(mode=0o700)
        one._fd = os.open(one.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without locks: a sweep then leaves the directory alone
            file_lock.take(one._fd)
        one._before = {where: (mtime, _names(root / where)) for where, mtime in _archive_directories(root)}
        seen = {where: mtime for where, (mtime, _) in one._before.items()}
        JsonState(one.path / _SEEN, durable=False, max_bytes=_MAX_BYTES).save({"seen": seen, "at_ns": time.time_ns()})
        return one

    @property
    def path(self) -> Path:
        return self.root / "run" / self.name

    def take(self, now: float) -> int:
        """Take the snapshot, for whoever holds the root; return the number of files. Called in its directory once."""
        tree = self.path / _TREE
        tree.mkdir(mode=0o700)
        linker = _Linker(self.root, tree)
        linker.all_below("receipts")
        linker.all_below("state")
        for box in _directories(self.root / "queue"):
            linker.all_below(f"queue/{box}/processed")
        for _ in range(_ROUNDS):
            before = linker.files
            linker.all_below("queue")
            if linker.files == before:
                break
        for name in sorted(os.listdir(self.root)):  # noqa: PTH208 - names, as everywhere here
            if name not in _LEFT_OUT:
                linker.all_below(name)
        self.taken_at, self.sizes = now, linker.sizes
        self.archived = _archive_since(self.root, self.path / _SEEN)
        said: dict[str, Any] = {"taken_at": now, "sizes": self.sizes, "archived": self.archived, "files": linker.files}
        JsonState(self.path / _TAKEN, durable=False, max_bytes=_MAX_BYTES).save(said)
        return linker.files

    def is_taken(self) -> bool:
        """Tell whether somebody else has taken it; then it is known here as well."""
        said = JsonState(self.path / _TAKEN, durable=False, max_bytes=_MAX_BYTES).load()
        if said is None:
            return False
        self.taken_at, self.sizes, self.archived = float(said["taken_at"]), said["sizes"], said["archived"]
        return True

    def files(self) -> Iterator[tuple[str, Path, int | None]]:
        """Yield every file and directory: its path below the root, where it can be read now, and the size that it had,
        where it may have grown. A directory comes before what is in it."""
        tree = self.path / _TREE
        for where, names, files in os.walk(tree):
            names.sort()
            below = os.path.relpath(where, tree)
            if below != ".":
                yield below, Path(where), None
            for name in sorted(files):
                path = name if below == "." else f"{below}/{name}"
                yield path, Path(where, name), self.sizes.get(path)
        yield from self._archive()

    def _archive(self) -> Iterator[tuple[str, Path, int | None]]:
        found = {where: names for where, (_, names) in self._before.items()} | self.archived
        yield "archive", self.root / "archive", None
        for where in sorted(found.keys() - {"archive"}):
            yield where, self.root / where, None
            for name in sorted(found[where]):
                yield f"{where}/{name}", self.root / where / name, None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def left_behind(run_dir: Path) -> list[Path]:
    """List the directories of snapshots that nobody wants any more, because the command that made them was killed."""
    try:
        return sorted(path for path in run_dir.iterdir() if is_name(path.name) and _is_free(path))
    except OSError:
        return []


def sweep(run_dir: Path) -> None:
    """Remove what killed commands left. Their links keep the room of files that were removed since."""
    for path in left_behind(run_dir):
        shutil.rmtree(path, ignore_errors=True)


def _is_free(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return file_lock.take(fd, shared=True)
    except OSError:
        return False
    finally:
        os.close(fd)


class _Linker:
    """Gives files second names below ``tree``, each once."""

    def __init__(self, root: Path, tree: Path) -> None:
        self._root = str(root)
        self._tree = str(tree)
        self._made: set[str] = set()
        self._seen: set[str] = set()
        self.sizes: dict[str, int] = {}

    @property
    def files(self) -> int:
        return len(self._seen)

    def all_below(self, path: str) -> None:
        """Link the file, or everything in the directory. What is neither is left out, and so is what is gone, and what
        nobody has published yet."""
        if _NOT_KEPT.fullmatch(path) or _is_passing(path) or writer_of(path.rpartition("/")[2]) is not None:
            return
        try:
            status = os.lstat(f"{self._root}/{path}")
        except FileNotFoundError:
            return
        if stat.S_ISREG(status.st_mode):
            self._link(path, status)
        elif stat.S_ISDIR(status.st_mode):
            self._make(path)
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(f"{self._root}/{path}"):  # noqa: PTH208
                    self.all_below(f"{path}/{name}")

    def _make(self, path: str) -> None:
        if path in self._made:
            return
        self._made.add(path)
        parent = path.rpartition("/")[0]
        if parent:
            self._make(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{self._tree}/{path}", 0o700)  # noqa: PTH102

    def _link(self, path: str, status: os.stat_result) -> None:
        if path in self._seen:
            return
        if "/" in path:
            self._make(path.rpartition("/")[0])
        source, target = f"{self._root}/{path}", f"{self._tree}/{path}"
        try:
            os.link(source, target, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(source, target, follow_symlinks=False)
        self._seen.add(path)
        if path.startswith(("logs/", "state/")):
            self.sizes[path] = status.st_size


def _is_passing(path: str) -> bool:
    """Tell the request for the snapshot itself: a restored root must not hear it."""
    return path.startswith(f"receipts/{ReceiptKind.SNAPSHOT.value}_")


def _archive_directories(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the directories in which archived files lie (``archive/<day>/<box>``), with the times of their last
    changes, taken before they are listed."""
    for day in _directories(root / "archive"):
        yield f"archive/{day}", 0
        for box in _directories(root / "archive" / day):
            where = f"archive/{day}/{box}"
            with contextlib.suppress(FileNotFoundError):
                yield where, (root / where).stat().st_mtime_ns


def _archive_since(root: Path, seen_file: Path) -> dict[str, list[str]]:
    """List the directories of the archive that are new, or have changed since they were seen."""
    found = JsonState(seen_file, durable=False, max_bytes=_MAX_BYTES).load() or {}
    seen, at_ns = found.get("seen", {}), found.get("at_ns", 0)
    return {
        where: _names(root / where)
        for where, mtime in _archive_directories(root)
        if seen.get(where) != mtime or mtime > at_ns - _TICK_NS
    }


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _names(path: Path) -> list[str]:
    """The names of the files in a directory."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
