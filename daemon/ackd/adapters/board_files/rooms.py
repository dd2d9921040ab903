"""One directory per meeting, and the lock around every change of any of them.

Owns the names of meetings (``board-YYYYMMDDHHMMSS``, with a number behind it if that is taken: in the order of their
opening, whatever the clock says), ``meeting.json`` in each, replaced whole, and ``.lock``, which is never unlinked.
Refuses to know what a meeting is. Synchronous. Fails with OSError, and with ``BoardHeld`` if another process does not
let go of the lock.
"""

# Paths are text here: names are our own, and a command pays for every Path.
# ruff: noqa: PTH102, PTH103, PTH113
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import Busy, NoMeeting
from ackd.syscalls import rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_MEETING_BYTES: Final = 32 * 1024 * 1024
LOCK: Final = ".lock"
PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.005
_SESSION: Final = re.compile(r"session-board-.*\.json", re.ASCII)
_NAME: Final = re.compile(r"board-(\d{14})(?:-([1-9]\d{0,5}))?", re.ASCII)


class BoardHeld(Busy):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is held by another process for more than {PATIENCE_S:g} s"


def make_board(board: str) -> None:
    """The directory, private; the bus it belongs to as well, where that is missing."""
    os.makedirs(board, mode=0o700, exist_ok=True)


@contextlib.contextmanager
def held(board: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Alone with the board. Changes take milliseconds; a holder that is stopped is not waited for for ever."""
    fd = _lock_file(f"{board}/{LOCK}")
    try:
        give_up_at = time.monotonic() + patience_s
        while not _taken(fd):
            if time.monotonic() > give_up_at:
                raise BoardHeld(f"{board}/{LOCK}")
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(fd)


def _lock_file(path: str) -> int:
    """Made once: a look that changes nothing is no change on disk either."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o600)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


# --- meetings ---------------------------------------------------------------------------------------------------------
def meeting_ids(board: str) -> list[str]:
    """Those that were opened, the oldest first. A directory without a record is one whose opening a crash cut short."""
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


def others_since(board: str, meeting_id: str) -> bool:
    """Whether the seed's own code has begun a session after this meeting: the flat files are that one's then."""
    newest = others_newest(board)
    return newest is not None and _order(newest) > _order(meeting_id)


def others_newest(board: str) -> str | None:
    """The id of the newest session, if the seed's own code has begun it, and it is no meeting of ours yet."""
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


def make_room_for(board: str, meeting_id: str) -> None:
    """The directory of a meeting that has its id already."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{board}/{meeting_id}", 0o700)


def make_room(board: str, wall: float) -> str:
    """A new meeting's directory; its id. Later than all others, also by a clock that was set back."""
    taken = [name for name in os.listdir(board) if _NAME.fullmatch(name)]  # noqa: PTH208
    newest = max(map(_order, taken), default=("", 0))
    now = time.strftime("%Y%m%d%H%M%S", time.gmtime(wall))
    moment, number = (now, 1) if now > newest[0] else (newest[0], newest[1] + 1)
    name = f"board-{moment}" if number == 1 else f"board-{moment}-{number}"
    os.mkdir(f"{board}/{name}", 0o700)
    return name


def give_up_room(board: str, meeting_id: str, flat: Iterable[str]) -> None:
    """The disk refused the meeting's record: nothing is left of it, and what was moved aside for it lies where it did.
    A meeting that has its record is one, whatever was refused after that."""
    room = f"{board}/{meeting_id}"
    if os.path.lexists(f"{room}/meeting.json"):
        return
    with contextlib.suppress(OSError):
        for name in flat:
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                rename_noreplace(f"{room}/{name}", f"{board}/{name}")
        os.rmdir(room)  # noqa: PTH106


def read_meeting(board: str, meeting_id: str) -> bytes:
    """Ids come from command lines and lines of others: what is none is no path either."""
    if not _NAME.fullmatch(meeting_id):
        raise NoMeeting(f"{meeting_id!r} is no meeting's id: they look like board-20260201120000")
    path = f"{board}/{meeting_id}/meeting.json"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NoMeeting(f"no meeting {meeting_id} in {board}") from None
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_MEETING_BYTES)


def write_meeting(board: str, meeting_id: str, data: bytes, *, durable: bool) -> None:
    write_file(f"{board}/{meeting_id}", "meeting.json", data, durable=durable)
    if durable:
        _flush_directory(board)  # the meeting's own directory may be new


def write_file(directory: str, name: str, data: bytes, *, durable: bool) -> None:
    """Ours alone, whole at every instant. One writer at a time, by the lock."""
    temp = f"{directory}/.{name}.tmp"
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temp, f"{directory}/{name}")  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temp)  # noqa: PTH108
        raise
    if durable:
        _flush_directory(directory)


def _flush_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
