"""A board's files: the lock around every change, one directory per meeting, the seed's flat files, the tail of the bus.

Meetings are named ``board-YYYYMMDDHHMMSS``, with a number behind it if that is taken, so that the names are in the
order of opening whatever the clock says. Each has its own directory with a ``meeting.json``, which is replaced whole.
``.lock`` is never unlinked.

The seed's flat files are edited by hand, and nothing of what others write may be lost: a file is exchanged for a new
one only while it is the one that was read, lines are appended, and files that make way for a new meeting are moved,
never removed.

Nothing here knows what a meeting is. All functions block. They fail with OSError (ESTALE: somebody wrote meanwhile,
look again), and with ``BoardHeld`` if another process does not let go of the lock.
"""

# Paths are text here: names are our own, and a command pays for every Path.
# ruff: noqa: PTH102, PTH103, PTH113
from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import Busy, NoMeeting
from ackd.storage import atomic_file, file_lock
from ackd.system.syscalls import Identity, rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_MEETING_BYTES: Final = 32 * 1024 * 1024
MAX_FLAT_BYTES: Final = 8 * 1024 * 1024
LOCK: Final = ".lock"
PATIENCE_S: Final = 10.0
_CHUNK_BYTES: Final = 1 << 20
_SESSION: Final = re.compile(r"session-board-.*\.json", re.ASCII)
_NAME: Final = re.compile(r"board-(\d{14})(?:-([1-9]\d{0,5}))?", re.ASCII)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BoardHeld(Busy):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is held by another process for more than {PATIENCE_S:g} s"


def make_board(board: str) -> None:
    """Make the directory, private, and the bus that it belongs to, if that is missing."""
    os.makedirs(board, mode=0o700, exist_ok=True)


@contextlib.contextmanager
def locked(board: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the board's lock. Changes take milliseconds, so a holder that was stopped is not waited for for ever."""
    path = f"{board}/{LOCK}"
    lock = file_lock.acquire(path, patience_s)
    if lock is None:
        raise BoardHeld(path)
    with lock:
        yield


# --- meetings ---------------------------------------------------------------------------------------------------------
def meeting_ids(board: str) -> list[str]:
    """Return the meetings that were opened, the oldest first.

    A directory without a record is left out: a crash cut its opening short.
    """
    try:
        with os.scandir(board) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((name for name in names if os.path.isfile(f"{board}/{name}/meeting.json")), key=_order)


def newest_first(board: str) -> list[str]:
    return meeting_ids(board)[::-1]


def _order(name: str) -> tuple[str, int]:
    found = _NAME.fullmatch(name)
    assert found is not None
    return found[1], int(found[2] or 1)


def foreign_session_since(board: str, meeting_id: str) -> bool:
    """Return whether the seed's own code has begun a session after this meeting. The flat files then belong to it."""
    newest = newest_foreign_session(board)
    return newest is not None and _order(newest) > _order(meeting_id)


def newest_foreign_session(board: str) -> str | None:
    """Return the newest session's id, if the seed's own code has begun it and it is no meeting of ours yet."""
    try:
        names = os.listdir(board)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return None
    stems = (name[len("session-") : -len(".json")] for name in names if _SESSION.fullmatch(name))
    ours = meeting_ids(board)
    others = sorted((stem for stem in stems if _NAME.fullmatch(stem) and stem not in ours), key=_order)
    if not others or (ours and _order(ours[-1]) > _order(others[-1])):
        return None
    return others[-1]


def make_meeting_directory(board: str, meeting_id: str) -> None:
    """Make the directory of a meeting that has its id already."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{board}/{meeting_id}", 0o700)


def new_meeting(board: str, wall: float) -> str:
    """Make a new meeting's directory, and return its id, which sorts after all others even if the clock went back."""
    taken = [name for name in os.listdir(board) if _NAME.fullmatch(name)]  # noqa: PTH208
    newest = max(map(_order, taken), default=("", 0))
    now = time.strftime("%Y%m%d%H%M%S", time.gmtime(wall))
    moment, number = (now, 1) if now > newest[0] else (newest[0], newest[1] + 1)
    name = f"board-{moment}" if number == 1 else f"board-{moment}-{number}"
    os.mkdir(f"{board}/{name}", 0o700)
    return name


def abandon_meeting(board: str, meeting_id: str, flat: Iterable[str]) -> None:
    """Undo the opening of a meeting whose record the disk refused, and move the flat files back to where they were.

    A meeting that has its record stays, whatever was refused after that.
    """
    directory = f"{board}/{meeting_id}"
    if os.path.lexists(f"{directory}/meeting.json"):
        return
    with contextlib.suppress(OSError):
        for name in flat:
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                rename_noreplace(f"{directory}/{name}", f"{board}/{name}")
        os.rmdir(directory)  # noqa: PTH106


def read_meeting(board: str, meeting_id: str) -> bytes:
    """Return a meeting's record. Ids come from command lines and bus lines: a text that is no id is never a path."""
    if not _NAME.fullmatch(meeting_id):
        raise NoMeeting(f"{meeting_id!r} is no meeting's id: they look like board-20260201120000")
    path = f"{board}/{meeting_id}/meeting.json"
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        raise NoMeeting(f"no meeting {meeting_id} in {board}") from None
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_MEETING_BYTES)


def write_meeting(board: str, meeting_id: str, data: bytes, *, durable: bool) -> None:
    write_file(f"{board}/{meeting_id}", "meeting.json", data, durable=durable)
    if durable:
        atomic_file.flush_directory(board)  # the meeting's own directory may be new


def write_file(directory: str, name: str, data: bytes, *, durable: bool) -> None:
    """Replace a file that only we write, for the holder of the lock. Readers never see half of it."""
    atomic_file.write(f"{directory}/{name}", data, durable=durable)


# --- the seed's flat files --------------------------------------------------------------------------------------------
class FlatFile(NamedTuple):
    """``data`` is None for a file that is missing; ``identity`` tells it from its successors."""

    data: bytes | None
    identity: Identity | None


def read_flat(path: str) -> FlatFile:
    """Read a flat file. A link, a FIFO or a file that is too large is an OSError: no director would leave one there."""
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return FlatFile(None, None)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FLAT_BYTES:
            raise OSError(errno.EINVAL, "not a regular file of a sensible size", path)
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(MAX_FLAT_BYTES)
        return FlatFile(data, (found.st_ino, found.st_mtime_ns, found.st_size))
    finally:
        os.close(fd)


def put_flat(path: str, data: bytes, instead_of: FlatFile) -> None:
    """Replace a flat file. If it is no longer what was read, do nothing and raise ESTALE."""
    atomic_file.write_if_unchanged(path, data, instead_of.identity)


def append_lines(path: str, lines: bytes) -> None:
    """Append whole lines. They begin on a new line even if somebody died in the middle of the last one."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        atomic_file.write_all(fd, lines)
    finally:
        os.close(fd)


def move_aside(path: str, directory: str) -> None:
    """Move a file into another directory, under its name or the next free one.

    It is moved and not copied, so that a process that has it open goes on writing into the same file.
    """
    name = os.path.basename(path)  # noqa: PTH119
    for number in range(1, 1000):
        target = f"{directory}/{name}" if number == 1 else f"{directory}/{name}.{number}"
        try:
            rename_noreplace(path, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            return
        return


# --- the tail of the bus ----------------------------------------------------------------------------------------------
def queue_size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0


def ids_said_since(path: str, offset: int, ids: Iterable[str]) -> set[str]:
    """Return those of the ids that whole lines of the bus from ``offset`` on have, so that no line is written twice.

    If the file is shorter than that by now, it is read from the start. A line that a full disk cut short does not
    count.
    """
    wanted = {f'"{one}"'.encode(): one for one in ids}
    found: set[str] = set()
    if not wanted:
        return found
    for line in _lines(path, offset if offset <= queue_size(path) else 0):
        found |= {one for text, one in wanted.items() if text in line and _id_of(line) == one}
    return found


def _id_of(line: bytes) -> object:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said.get("id") if isinstance(said, dict) else None


def _lines(path: str, offset: int) -> Iterable[bytes]:
    try:
        with open(path, "rb", buffering=_CHUNK_BYTES) as file:  # noqa: PTH123
            file.seek(offset)
            yield from file
    except FileNotFoundError:
        return
