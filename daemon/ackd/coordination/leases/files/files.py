"""The leases of one bus on disk, changed by any process, one at a time.

``locks.json.lock`` is flocked around every change, is never unlinked, and holds the last token that was given.
``locks.json`` is the truth about who holds what: it is replaced as a whole, so that it is whole at every instant, and
only while it is the file that was read. Entries that others write into it by hand count from the next look on; if they
are written while a change is decided, the change is decided again. ``leases.json`` has the waiters, and exists only
while there are some. Nothing is flushed to the disk: a power cut ends every holder, too.

Order of a change: the token, then locks.json, then leases.json, then waking the waiters. A crash in between leaves a
token that nobody has, a waiter who holds already, or a waiter who was not woken and looks by itself a moment later; the
next change understands all three. Fails with OSError. A file that cannot be read is waited for, since its writer may be
at it, then kept under another name (``set_aside``) and taken for empty.
"""

import contextlib
import errno
import functools
import os
import stat
import time
from _thread import allocate_lock  # `threading` takes as long to import as a lease to take
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ackd.coordination.leases.files import shape, tickets
from ackd.coordination.leases.files.paths import normalised
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import Change, Lease, LeaseTable, LeaseWoken, LeftLine, Released, Waiter, Why
from ackd.core import clock_frames
from ackd.core.clock_frames import Frame
from ackd.core.errors import BadPath
from ackd.storage import atomic_file
from ackd.storage.file_lock import LockFile
from ackd.system import syscalls

#: The time for which an unreadable file may be one that somebody is writing in place.
PATIENCE_S: Final = 0.5
_STEP_S: Final = 0.01
_YOUNG_S: Final = 60.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_TOKEN_DIGITS: Final = 20
#: The most attempts: somebody who edits the file as often as we change it would keep us here for ever.
_TRIES: Final = 10
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Decide: TypeAlias = Callable[[LeaseTable, float, frozenset[str]], Change]
#: The monotonic clock, and the wall clock.
Clocks: TypeAlias = Callable[[], tuple[float, float]]


def machine_clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


class LeaseFiles:
    """``bus``: the directory, which exists. ``base``: the workspace that paths are about. ``told`` is called with every
    change before the next can be made, so that what is said of them keeps their order. Times are wall times in the
    frame of now (core/clock_frames): a clock that is set ends no lease, with or without a daemon."""

    def __init__(
        self,
        bus: str,
        base: str,
        told: Callable[[Change], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
        clocks: Clocks = machine_clocks,
    ) -> None:
        self.bus = bus
        self.tickets = f"{bus}/waiting"
        self.set_aside: list[str] = []
        self._base = base
        self._told = told
        self._patience_s = patience_s
        self._locks, self._waiting = f"{bus}/locks.json", f"{bus}/leases.json"
        self._lock = LockFile(f"{bus}/locks.json.lock")
        self._threads = allocate_lock()  # a flock is the process's, not the thread's
        self._clocks = clocks
        self._known: tuple[bytes | None, shape.Page, Frame | None] = (None, shape.EMPTY_PAGE, None)
        self._page = shape.EMPTY_PAGE
        self._aside: bytes | None = None
        self._mode = 0o600
        self._seen: syscalls.Identity | None = None  # locks.json as it was read last; None: there was none

    @property
    def is_bad(self) -> bool:
        """True if the file could not be read last time: the next change writes it anew."""
        return self._aside is not None

    @property
    def is_outdated(self) -> bool:
        """True if the clock was set after the entries read last were written. The next change writes their times anew,
        for programs that read the file themselves."""
        return self._page.is_outdated

    def wall(self) -> float:
        return self._clocks()[1]

    def frame(self) -> Frame | None:
        mono, wall = self._clocks()
        boot = _boot()
        return Frame(boot, wall - mono) if boot else None

    def key(self, path: str) -> str:
        """Return the key of a path; ``BadPath`` if no lease can be about it."""
        return normalised(self._base, path)

    def look(self) -> LeaseTable:
        """All holders and waiters, without taking the lock. Leases made by hand have no token yet."""
        page, waiting = self._read_page(), self._read_waiting()
        return LeaseTable(page.held, waiting, _last_token(page.held))

    def change(self, decide: Decide) -> Change:
        """Apply ``decide`` to the table; the result is on disk when this returns. Waits for a process that is changing
        it."""
        with self._threads, self._lock.held() as fd:
            change = self._changed(fd, decide)
            self._clear_away(change)
            self._told(change)
        self._ring(change)
        return change

    def _changed(self, fd: int, decide: Decide) -> Change:
        for left in reversed(range(_TRIES)):
            page, waiting = self._read_page(), self._read_waiting()
            table = LeaseTable(page.held, waiting, max(_read_token(fd), _last_token(page.held)))
            now = self.wall()
            adopted = leases.adopt(table, now)
            decided = decide(adopted.table, now, self.dead(table))
            try:
                self._save(fd, table, decided.table, page)
            except _Overtaken:
                if left:
                    continue
                raise
            return Change(decided.table, (*adopted.happened, *decided.happened))
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Close the lock file; the next change opens it again."""
        self._lock.close()

    # --- reading ----------------------------------------------------------------------------------------------------
    def _read_page(self) -> shape.Page:
        self._page = self._read_anew()
        return self._page

    def _read_anew(self) -> shape.Page:
        give_up_at, frame = 0.0, self.frame()
        while True:
            data = self._read(self._locks)
            if data is None:
                return shape.EMPTY_PAGE
            if data == self._known[0] and (frame is None or clock_frames.moved_s(self._known[2], frame) == 0.0):
                return self._known[1]
            try:
                page = shape.read_locks(data, self._key_of, self.wall(), frame)
            except shape.NotLeases:
                give_up_at = give_up_at or time.monotonic() + self._patience_s
                if time.monotonic() < give_up_at:
                    time.sleep(_STEP_S)
                    continue
                if data != self._aside:
                    self._put_aside(self._locks)
                self._aside = data
                return shape.EMPTY_PAGE
            self._known, self._aside = (data, page, frame), None
            return page

    def _key_of(self, spelling: str) -> str:
        try:
            return normalised(self._base, spelling)
        except BadPath:  # made by hand; nobody can ask for this path, so it is in nobody's way
            return spelling

    def _read_waiting(self) -> dict[str, tuple[Waiter, ...]]:
        data = self._read(self._waiting)
        if data is None:
            return {}
        try:
            return shape.read_waiting(data, self.frame())
        except shape.NotLeases:  # only ackd writes this file, and always whole: somebody has damaged it
            self._put_aside(self._waiting)
            return {}

    def _read(self, path: str) -> bytes | None:
        try:
            fd = os.open(path, _READ)
        except FileNotFoundError:
            if path is self._locks:
                self._seen = None
            return None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(22, "not a regular file", path)
            if path is self._locks:
                self._mode = stat.S_IMODE(found.st_mode)
                self._seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            data = os.read(fd, min(found.st_size + 1, _MOST_BYTES))
            while len(data) < found.st_size and (more := os.read(fd, _MOST_BYTES)):
                data += more
            return data
        finally:
            os.close(fd)

    def _put_aside(self, path: str) -> None:
        """Keep the file under a second name as well; the first name stays until a readable file takes it."""
        name = f"{path}.unreadable-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"
        with contextlib.suppress(FileNotFoundError):
            os.link(path, name, follow_symlinks=False)
            self.set_aside.append(name)

    # --- writing ----------------------------------------------------------------------------------------------------
    def _save(self, fd: int, old: LeaseTable, new: LeaseTable, page: shape.Page) -> None:
        if new is old and self._aside is None and not page.is_outdated:
            return
        if new.token != old.token:
            _write_token(fd, new.token)
        committed = new.held != old.held or self._aside is not None or page.is_outdated
        if committed:
            frame = self.frame()
            written = shape.next_page(page, new.held, frame)
            data = shape.write_locks(written)
            self._exchange(data)
            self._known, self._aside = (data, written, frame), None
        if new.waiting != old.waiting:
            try:
                self._save_waiting(new)
            except OSError:
                # The next change recognises a waiter that holds already. A new one must hear that it got no place.
                if not committed or any(
                    set(line) - set(old.waiting.get(path, ())) for path, line in new.waiting.items()
                ):
                    raise

    def _save_waiting(self, table: LeaseTable) -> None:
        if table.waiting:
            atomic_file.write(self._waiting, shape.write_waiting(table.waiting, self.frame()), durable=False)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._waiting)  # noqa: PTH108

    def _exchange(self, data: bytes) -> None:
        """Exchange locks.json for its new content, if nobody has edited it since it was read.

        Not by rename: an edit by hand since we read it would be lost. Besides, ext4 flushes a file that is renamed over
        another, and that takes longer than everything else here.
        """
        try:
            atomic_file.write_if_unchanged(self._locks, data, self._seen, mode=self._mode)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise _Overtaken(self._locks) from error
            raise

    # --- tickets ----------------------------------------------------------------------------------------------------
    def dead(self, table: LeaseTable) -> frozenset[str]:
        """Tickets whose processes are gone."""
        return frozenset(name for name in _tickets(table) if tickets.is_dead(self.tickets, name))

    def sweep(self) -> None:
        """Remove the tickets of dead processes. A young one stays: its process may be about to open it."""
        with contextlib.suppress(OSError):
            tickets.sweep(self.tickets, time.time() - _YOUNG_S)

    def _clear_away(self, change: Change) -> None:
        for one in change.happened:
            if isinstance(one, Released | LeftLine) and one.why is Why.DIED:
                ticket = one.lease.ticket if isinstance(one, Released) else one.waiter.ticket
                with contextlib.suppress(OSError):
                    tickets.remove(self.tickets, ticket)

    def _ring(self, change: Change) -> None:
        for one in change.happened:
            if isinstance(one, LeaseWoken):
                with contextlib.suppress(OSError):  # the waiter looks by itself a moment later
                    tickets.ring(self.tickets, one.waiter.ticket)


class _Overtaken(OSError):  # noqa: N818 - the condition
    """Somebody edited the file while a change of it was being decided."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "changed by hand again and again meanwhile", path)


@functools.cache
def _boot() -> str:
    """The boot and the time namespace that the monotonic clock belongs to: each has its own. "": unknown."""
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
        try:
            boot = os.read(fd, 100).decode("ascii", "replace").strip()
        finally:
            os.close(fd)
        return f"{boot}/{os.stat('/proc/self/ns/time').st_ino}"  # noqa: PTH116 - pathlib is slow to import
    except OSError:
        return ""


def _tickets(table: LeaseTable) -> Iterator[str]:
    for held in table.held.values():
        yield from (lease.ticket for lease in held if lease.ticket)
    for line in table.waiting.values():
        yield from (waiter.ticket for waiter in line if waiter.ticket)


def _last_token(held: dict[str, tuple[Lease, ...]]) -> int:
    return max((lease.token for each in held.values() for lease in each), default=0)


def _read_token(fd: int) -> int:
    text = os.pread(fd, _TOKEN_DIGITS, 0)
    return int(text) if len(text) == _TOKEN_DIGITS and text.isdigit() else 0


def _write_token(fd: int, token: int) -> None:
    data = b"%0*d\n" % (_TOKEN_DIGITS, token)
    if os.pwrite(fd, data, 0) < _TOKEN_DIGITS:  # the disk was full when the file was made
        raise OSError(28, "No space left on device")
