"""Watches the spool with inotify.

Owns one inotify instance: which watch stands for which directory, and what an event in it is worth saying. Refuses to
know what a message is; it opens no file and believes no name beyond "this could be an agent's".

A file written in place is reported when its writer closes it, one that is renamed in at once, never at its creation:
that would be two hints for one write, the first of them too early. What gets a name without ever being closed (hard
links, O_TMPFILE, symlinks, FIFOs, directories) is reported as unsettled (``closed=False``): at once where its type or
link count shows it, and otherwise when no close has followed within ``CLOSE_GRACE_S``.

Directories are judged by their state, not by the story of the events: whatever is said about a box, its path is watched
again, and the kernel answers with the number of the old watch if and only if the same directory still lies there. So
moved away and back, deleted and made again, replaced, swapped, an event that comes late, and the losses of an overflow
are one case. Inode numbers could not tell (ext4 gives a freed one to the next directory). A box whose processed/ went
away or was replaced counts as replaced: BoxGone, BoxAppeared, and its files.

How it fails: a directory that may not be read is left out, the others go on, and it is tried again when its mode
changes and with each heartbeat. While queue/ or receipts/ is missing, it is looked for every ``RETURN_POLL_S``. Without
inotify, or at one of its limits, WatchFailed is posted and ``run`` returns, perhaps without having called ``ready``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel
from inotify_simple import INotify, flags, parse_events

from ackd.core.errors import BadName
from ackd.core.message import Folder, Place, agent_name
from ackd.ports import BoxAppeared, BoxGone, FileGone, FileReady, Hint, HintsLost, ReceiptReady, WatchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

#: How often an idle watcher wakes to show that it lives and to see that queue/ is still the directory it watches (the
#: rename of a directory further up is told to nobody).
HEARTBEAT_S: Final = 5.0
RETURN_POLL_S: Final = 0.5
CLOSE_GRACE_S: Final = 0.5

#: Some 500 events, 4 ms: what is handled before the loop serves others again.
_READ_BYTES: Final = 16_384
_LIST_SLICE: Final = 500

# Plain ints: an IntEnum's operators cost more than the rest of an event's handling.
_ISDIR: Final = int(flags.ISDIR)
_CREATED: Final = int(flags.CREATE)
_OVERFLOWED: Final = int(flags.Q_OVERFLOW)
_COMPLETE: Final = int(flags.CLOSE_WRITE | flags.MOVED_TO)
_WENT: Final = int(flags.DELETE | flags.MOVED_FROM)
_SELF: Final = int(flags.DELETE_SELF | flags.MOVE_SELF)
_ENDED: Final = _SELF | int(flags.IGNORED | flags.UNMOUNT)

_DIRECTORIES: Final = _CREATED | _WENT | int(flags.MOVED_TO | flags.ONLYDIR) | _SELF
_BOXES: Final = _DIRECTORIES | int(flags.ATTRIB)  # chmod may open a box that could not be read
# EXCL_UNLINK: whoever still writes to a deleted file is nobody's news.
_FILES: Final = _COMPLETE | _WENT | _CREATED | int(flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK) | _SELF
_RECEIPTS: Final = _COMPLETE | _CREATED | int(flags.ONLYDIR | flags.EXCL_UNLINK) | _SELF

Listing: TypeAlias = "Generator[Hint, None, None]"

_NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_AT_THE_LIMIT: Final = frozenset({errno.ENOSPC, errno.ENOMEM})


class InotifyWatcher:
    """``ports.Watcher`` on inotify. ``beats`` grows with every wake-up, at least once in ``HEARTBEAT_S``."""

    def __init__(self, queue_dir: Path, receipts_dir: Path) -> None:
        self._queue_dir = queue_dir
        self._receipts_dir = receipts_dir
        self.beats = 0

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        try:
            with _new_instance() as inotify:
                tree = _Tree(inotify, self._queue_dir, self._receipts_dir, post)
                with contextlib.closing(tree):
                    tree.begin()
                    await self._follow(tree, inotify.fileno(), ready)
        except _CannotWatch as failure:
            post(WatchFailed(failure.reason))

    async def _follow(self, tree: _Tree, fd: int, ready: Callable[[], None]) -> None:
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, woken.set)
        try:
            ready()
            while True:
                woken.clear()
                self.beats += 1
                if tree.turn():
                    await anyio.lowlevel.checkpoint()
                else:
                    with anyio.move_on_after(tree.patience_s()):
                        await woken.wait()
        finally:
            loop.remove_reader(fd)


class _CannotWatch(Exception):  # noqa: N818 - a condition, like those of core.errors
    """Carries WatchFailed's reason from wherever the limit was met."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Role(Enum):
    ROOT = auto()  # holds queue/ and receipts/
    QUEUE = auto()  # queue/ itself
    RECEIPTS = auto()
    MAIL = auto()  # queue/<box>/ or its processed/


_MASKS: Final = {
    _Role.ROOT: _DIRECTORIES,
    _Role.QUEUE: _BOXES,
    _Role.RECEIPTS: _RECEIPTS,
    _Role.MAIL: _FILES,
}


@dataclass(frozen=True, slots=True)
class _Seat:
    """What a watch stands for. ``box`` and ``folder`` have a meaning for MAIL only."""

    role: _Role
    path: str
    box: str = ""
    folder: Folder = Folder.QUEUE

    def hint(self, name: str, *, closed: bool) -> Hint:
        if self.role is _Role.RECEIPTS:
            return ReceiptReady(name)
        return FileReady(Place(self.box, self.folder, name), closed=closed)


@dataclass(frozen=True, slots=True)
class _Box:
    """The watches of a box that was reported. Another number is another directory."""

    wd: int
    processed_wd: int | None


class _Tree:
    """The watched directories as they were last seen. Never waits."""

    def __init__(self, inotify: INotify, queue_dir: Path, receipts_dir: Path, post: Callable[[Hint], None]) -> None:
        self._inotify = inotify
        self._tops = (
            _Seat(_Role.ROOT, str(queue_dir.parent)),
            _Seat(_Role.RECEIPTS, str(receipts_dir)),
            _Seat(_Role.QUEUE, str(queue_dir)),
        )
        self._top_names = frozenset({queue_dir.name, receipts_dir.name})
        self._queue = str(queue_dir)
        self._post = post
        self._seats: dict[int, _Seat] = {}
        self._top_wds: dict[_Role, int | None] = {}
        self._boxes: dict[str, _Box] = {}
        self._shut: set[str] = set()  # boxes that may not be read
        self._robbed: list[str] = []  # boxes whose directory turned up in another place
        self._listings: deque[Listing] = deque()
        self._unclosed: dict[Hint, float] = {}  # created, not closed yet → until when that is fine; oldest first
        self._checked_at = -math.inf

    def begin(self) -> None:
        """Watch what is there. It was there before, so it is not reported."""
        post, self._post = self._post, _say_nothing
        self._check_tops()
        self._listings.clear()
        self._post = post

    def turn(self) -> bool:
        """Do a bounded piece of what there is to do; False when that was nothing."""
        read = self._read_events()
        now = time.monotonic()
        self._give_up_on_closing(now)
        if now >= self._checked_at + self._check_every_s():
            self._check_tops()
            for box in tuple(self._shut):
                self._check_box(box)
        listed = self._list_some()  # last, for the others leave it work
        return read or listed

    def patience_s(self) -> float:
        """How long the next turn may wait if no event comes."""
        until = self._checked_at + self._check_every_s()
        if self._unclosed:
            until = min(until, next(iter(self._unclosed.values())))
        return max(0.0, until - time.monotonic())

    def close(self) -> None:
        while self._listings:
            self._listings.popleft().close()

    # --- events -------------------------------------------------------------------------------------------------------
    def _read_events(self) -> bool:
        try:
            data = os.read(self._inotify.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        for wd, mask, _cookie, name in parse_events(data):
            seat = self._seats.get(wd)
            if mask & _OVERFLOWED:
                self._start_over()
            elif seat is not None:  # None: the rest of a watch that was given up
                self._take(seat, mask, name)
        return True

    def _take(self, seat: _Seat, mask: int, name: str) -> None:
        if seat.role is _Role.MAIL or seat.role is _Role.RECEIPTS:
            self._take_file(seat, mask, name)
        elif mask & _ENDED or (seat.role is _Role.ROOT and name in self._top_names):
            self._check_tops()
        elif seat.role is _Role.QUEUE and mask & _ISDIR and _could_be_box(name):
            self._check_box(name)

    def _take_file(self, seat: _Seat, mask: int, name: str) -> None:
        if mask & _ENDED:
            self._check_seat(seat)
        elif name.startswith("."):
            return
        elif mask & _ISDIR and _is_processed(seat, name):
            self._check_box(seat.box)
        elif mask & _COMPLETE:
            self._settled(seat, name)
            self._post(seat.hint(name, closed=True))
        elif mask & _WENT:
            self._settled(seat, name)
            self._post(FileGone(Place(seat.box, seat.folder, name)))
        elif mask & _CREATED:
            self._take_created(seat, name)

    def _take_created(self, seat: _Seat, name: str) -> None:
        try:
            found = os.lstat(f"{seat.path}/{name}")
        except OSError:
            return  # gone again, and the event that says so is on its way
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            self._unclosed[seat.hint(name, closed=False)] = time.monotonic() + CLOSE_GRACE_S
        else:
            self._post(seat.hint(name, closed=False))

    def _settled(self, seat: _Seat, name: str) -> None:
        if self._unclosed:
            self._unclosed.pop(seat.hint(name, closed=False), None)

    def _give_up_on_closing(self, now: float) -> None:
        """Whoever links a finished file in and unlinks the old name (maildir's way) leaves one link and no close."""
        while self._unclosed:
            hint, until = next(iter(self._unclosed.items()))
            if until > now:
                return
            del self._unclosed[hint]
            self._post(hint)

    def _start_over(self) -> None:
        self._unclosed.clear()
        self._post(HintsLost())
        self._check_tops()
        self._check_boxes()

    # --- directories --------------------------------------------------------------------------------------------------
    def _check_every_s(self) -> float:
        whole = self._top_wds.get(_Role.QUEUE) is not None and self._top_wds.get(_Role.RECEIPTS) is not None
        return HEARTBEAT_S if whole else RETURN_POLL_S

    def _check_tops(self) -> None:
        self._checked_at = time.monotonic()
        for seat in self._tops:
            before = self._top_wds.get(seat.role)
            now = self._top_wds[seat.role] = self._watch(seat, before)
            if now == before:
                continue
            self._unwatch(before)
            if seat.role is _Role.QUEUE:
                self._check_boxes()
            elif seat.role is _Role.RECEIPTS and now is not None:
                self._listings.append(_listing(seat))

    def _check_boxes(self) -> None:
        there: list[str] = []
        if self._top_wds.get(_Role.QUEUE) is not None:
            with contextlib.suppress(OSError):  # gone since; its own event follows
                there = [entry.name for entry in Path(self._queue).iterdir() if _could_be_box(entry.name)]
        for box in {**self._boxes, **dict.fromkeys(there)}:
            self._check_box(box)

    def _check_seat(self, seat: _Seat) -> None:
        if seat.role is _Role.MAIL:
            self._check_box(seat.box)
        else:
            self._check_tops()

    def _check_box(self, box: str) -> None:
        self._compare_box(box)
        compared = {box}
        while self._robbed:
            other = self._robbed.pop()
            if other not in compared:  # one directory mounted in two places would be robbed to and fro for ever
                compared.add(other)
                self._compare_box(other)

    def _compare_box(self, box: str) -> None:
        self._shut.discard(box)
        mail = _Seat(_Role.MAIL, f"{self._queue}/{box}", box)
        processed = _Seat(_Role.MAIL, f"{mail.path}/{Folder.PROCESSED.value}", box, Folder.PROCESSED)
        known = self._boxes.get(box)
        now = self._watch_box(mail, processed, known)
        if now == known:
            return
        if known and now and now.wd == known.wd and known.processed_wd is None:  # processed/ is new, the box is not
            self._boxes[box] = now
            self._listings.append(_listing(processed))
            return
        if known is not None:
            self._lose_box(box, known, now)
        if now is not None:
            self._boxes[box] = now
            self._post(BoxAppeared(box))
            # After the watch was set: what came before it is found here, what comes after it is told.
            self._listings.extend((_listing(mail), _listing(processed)))

    def _watch_box(self, mail: _Seat, processed: _Seat, known: _Box | None) -> _Box | None:
        wd = self._watch(mail, known.wd if known else None)
        if wd is None:
            return None
        return _Box(wd, self._watch(processed, known.processed_wd if known else None))

    def _lose_box(self, box: str, known: _Box, now: _Box | None) -> None:
        kept = (now.wd, now.processed_wd) if now else ()
        for wd in (known.wd, known.processed_wd):
            if wd not in kept:
                self._unwatch(wd)
        del self._boxes[box]
        self._post(BoxGone(box))

    # --- watches ------------------------------------------------------------------------------------------------------
    def _watch(self, seat: _Seat, known: int | None) -> int | None:
        """The number of the watch on what lies at the seat's path now; None if that is no directory."""
        try:
            wd: int = self._inotify.add_watch(seat.path, _MASKS[seat.role])
            if self._seats.get(wd, seat) != seat:
                # Moved here before the event that took it from the other place was read. A fresh number, so that the
                # events still on their way for the other place are not taken for this one's.
                self._rob(wd)
                wd = self._inotify.add_watch(seat.path, _MASKS[seat.role])
        except OSError as error:
            return self._cannot_watch(seat, known, error)
        self._seats[wd] = seat
        return wd

    def _cannot_watch(self, seat: _Seat, known: int | None, error: OSError) -> int | None:
        if error.errno in _NOTHING_THERE:
            return None
        if error.errno in _AT_THE_LIMIT:
            raise _CannotWatch(_watch_limit()) from error
        if seat.role is _Role.MAIL:
            self._shut.add(seat.box)
        return known if known in self._seats else None  # it cannot be seen that anything changed

    def _rob(self, wd: int) -> None:
        seat = self._seats[wd]
        self._unwatch(wd)
        if seat.role is _Role.MAIL:
            self._robbed.append(seat.box)
        else:
            self._checked_at = -math.inf

    def _unwatch(self, wd: int | None) -> None:
        if wd is None:
            return
        self._seats.pop(wd, None)
        with contextlib.suppress(OSError):  # EINVAL: its directory was deleted, and the watch with it
            self._inotify.rm_watch(wd)

    # --- listings -----------------------------------------------------------------------------------------------------
    def _list_some(self) -> bool:
        if not self._listings:
            return False
        found = list(islice(self._listings[0], _LIST_SLICE))
        for hint in found:
            self._post(hint)
        if len(found) < _LIST_SLICE:
            self._listings.popleft()
        return True


def _listing(seat: _Seat) -> Listing:
    """What lies in a directory whose watch has just been set. Opened when it is this one's turn."""
    try:
        with os.scandir(seat.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or (
                    _is_processed(seat, entry.name) and entry.is_dir(follow_symlinks=False)
                ):
                    continue
                yield seat.hint(entry.name, closed=False)
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            yield HintsLost()  # something may lie there, and only a scan can say what


def _is_processed(seat: _Seat, name: str) -> bool:
    return name == Folder.PROCESSED.value and seat.role is _Role.MAIL and seat.folder is Folder.QUEUE


def _could_be_box(name: str) -> bool:
    try:
        agent_name(name)
    except BadName:
        return False
    return True


def _say_nothing(_hint: Hint) -> None:
    pass


# --- limits -----------------------------------------------------------------------------------------------------------
def _new_instance() -> INotify:
    try:
        return INotify(nonblocking=True)
    except OSError as error:
        raise _CannotWatch(_no_instance(error)) from error


def _no_instance(error: OSError) -> str:
    match error.errno:
        case errno.EMFILE:
            return (
                f"no inotify instance is left for this user ({_sysctl('max_user_instances')}; raise it with sysctl) "
                "or no file descriptor for this process (ulimit -n)"
            )
        case errno.ENFILE:
            return "the system has no file descriptor left (raise sysctl fs.file-max)"
        case errno.ENOSYS:
            return "this kernel has no inotify"
        case _:
            return f"inotify cannot be used: {error.strerror}"


def _watch_limit() -> str:
    return f"no inotify watch is left for this user ({_sysctl('max_user_watches')}; raise it with sysctl)"


def _sysctl(name: str) -> str:
    """The setting and its value. Containers may have a lower one of their own (user.max_inotify_*)."""
    try:
        return f"fs.inotify.{name} = {Path('/proc/sys/fs/inotify', name).read_text().strip()}"
    except OSError:
        return f"fs.inotify.{name}"
