"""The index: one SQLite file in ``state/``, 0600, that any reader may use, extend, empty or do without.

It is locked with flock while it is read (shared) or written (alone), and never waited for. **The seal** is how a reader
knows that the file is what its last writer left: the time of its last change is set, by hand, to a moment that is also
written inside. Whatever else writes into the file changes that time: rubbish, a cut, a writer that was killed, a disk
that lost half of the writes at a power cut (the data is flushed before the seal is set, and the seal is broken, and
that flushed, before anything is written). SQLite's own journal stays in memory, so that there is one file.

Nothing here fails: an index that cannot be read or written is None, and the caller reads the logs instead.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ackd.storage import file_lock
from ackd.storage.log_index.pieces import LogState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ackd.storage.log_index.query import Lookup

NAME: Final = "log_index.sqlite"
#: Raise it whenever what is kept, or how keys are made, changes. An older index is made anew, a newer one left alone.
VERSION: Final = 1

_MAGIC: Final = b"SQLite format 3\0"
_APPLICATION: Final = 0x61636B64  # "ackd", in the header of the file
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BROKEN_NS: Final = 1_000_000_000
#: A reader is through in milliseconds, so a lock that is held is asked for again for this long.
_PATIENCE_S: Final = 0.1
_PAUSE_S: Final = 0.005
_WITH_KEY: Final = "SELECT block FROM posting WHERE key >= ? AND key < ?"
_IN_BLOCK: Final = "SELECT 1 FROM posting WHERE key = ? AND block = ?"
#: So many blocks are asked for a key one by one; of more, all that have it are listed.
_FEW: Final = 500
_SCHEMA: Final = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE seal (changed_ns INTEGER NOT NULL);
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, inode TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, known INTEGER NOT NULL);
CREATE TABLE block (
    id INTEGER PRIMARY KEY AUTOINCREMENT, log INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    crc INTEGER NOT NULL, first REAL NOT NULL, last REAL NOT NULL);
CREATE INDEX block_of_log ON block (log, start);
CREATE TABLE posting (key BLOB NOT NULL, block INTEGER NOT NULL, lines INTEGER NOT NULL, PRIMARY KEY (key, block))
    WITHOUT ROWID;
"""


class BadIndex(Exception):  # noqa: N818 - it names a condition, and never leaves this folder
    """The file cannot be read as an index after all, or was changed while it was read."""


class KnownLog(NamedTuple):
    """A log as far as the index knows it: up to ``known``, an offset behind a line. ``state`` is what the log was like
    before it was last read; its time is 0 if the log was written to just then, and proves nothing."""

    id: int
    state: LogState
    known: int


class Block(NamedTuple):
    """Some lines of a log that lie side by side. ``crc`` is of their bytes, ``first`` and ``last`` their times."""

    start: int
    end: int
    crc: int
    first: float
    last: float


class NewBlock(NamedTuple):
    """A block that is not in the index yet. ``keys``: every key of its lines, and how many of them bear it."""

    block: Block
    keys: Mapping[bytes, int]


class IndexFile:
    """An index that is open, and locked."""

    def __init__(self, connection: sqlite3.Connection, fd: int) -> None:
        self._connection = connection
        self._fd = fd

    def is_sealed(self) -> bool:
        """Tell whether the file is as its last writer left it, and was all the time."""
        sealed = next(iter(self._rows("SELECT changed_ns FROM seal")), None)
        return sealed == (os.fstat(self._fd).st_mtime_ns,)

    # --- reading ------------------------------------------------------------------------------------------------------
    def logs(self) -> dict[str, KnownLog]:
        """Return what is known, by the names of the logs."""
        rows = self._rows("SELECT id, name, inode, size, mtime_ns, known FROM log")
        return {
            os.fsdecode(name): KnownLog(id_, LogState(int(inode), size, mtime_ns), known)
            for id_, name, inode, size, mtime_ns, known in rows
        }

    def last_block(self, log: int) -> Block | None:
        rows = self._rows(
            "SELECT start, end, crc, first, last FROM block WHERE log = ? ORDER BY start DESC LIMIT 1", (log,)
        )
        return next((Block(*row) for row in rows), None)

    def blocks(
        self, conditions: Sequence[Sequence[Lookup]], since: float | None, until: float | None
    ) -> dict[int, list[Block]]:
        """Return the blocks that have, for each condition, one of its keys, and lines of that time: by log."""
        times = [(words, at) for words, at in (("last >= ?", since), ("first <= ?", until)) if at is not None]
        within, limits = " AND ".join(["1", *(words for words, _ in times)]), [at for _, at in times]
        # An agent has lines in nearly every block: of a short time there are few, and each of those is asked.
        columns = "SELECT id FROM block WHERE "
        wanted = {id_ for (id_,) in self._rows(f"{columns}{within}", limits)} if times else None
        for lookups in conditions:
            if wanted is not None and len(wanted) <= _FEW and not any(one.beginning for one in lookups):
                asked = ((id_, self._rows(_IN_BLOCK, (one.key, id_))) for id_ in wanted for one in lookups)
                wanted = {id_ for id_, rows in asked if rows}
                continue
            found = {block for one in lookups for (block,) in self._rows(_WITH_KEY, _range_of(one))}
            wanted = found if wanted is None else wanted & found
        columns = "SELECT log, start, end, crc, first, last FROM block WHERE "
        if wanted is None:
            rows = self._rows(f"{columns}{within}", limits)
        else:
            rows = [row for id_ in wanted for row in self._rows(f"{columns}id = ? AND {within}", [id_, *limits])]
        found_in: dict[int, list[Block]] = {}
        for log, *block in rows:
            found_in.setdefault(log, []).append(Block(*block))
        return {log: sorted(blocks) for log, blocks in found_in.items()}

    def counts(self, key: bytes, log: int, start: int) -> int:
        """Return how many lines bear the key, in the blocks of one log from an offset on."""
        rows = self._rows(
            "SELECT TOTAL(lines) FROM posting JOIN block ON block.id = block WHERE key = ? AND log = ? AND start >= ?",
            (key, log, start),
        )
        return int(next(iter(rows))[0])

    def block_at(self, log: int, offset: int) -> Block | None:
        """Return the block within which the offset lies; None if it lies between two, or behind the last."""
        rows = self._rows(
            "SELECT start, end, crc, first, last FROM block WHERE log = ? AND start < ? AND end > ?",
            (log, offset, offset),
        )
        return next((Block(*row) for row in rows), None)

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (self._connection.Error, UnicodeDecodeError) as error:  # the second: a complaint that quotes rubbish
            raise BadIndex(str(error)) from error

    # --- writing ------------------------------------------------------------------------------------------------------
    def change(self) -> contextlib.AbstractContextManager[None]:
        """Within it, everything that is written is written together, or not at all."""
        return _transaction(self._connection, self._fd)

    def forget(self, name: str) -> None:
        """Drop a log. Its postings stay, for they lead to blocks that are no more, and their numbers are never used
        again; ``waste`` says when it is time to begin anew."""
        self._rows("DELETE FROM block WHERE log IN (SELECT id FROM log WHERE name = ?)", (os.fsencode(name),))
        self._rows("DELETE FROM log WHERE name = ?", (os.fsencode(name),))

    def waste(self) -> float:
        """Return which part of all blocks that ever were has been dropped."""
        rows = self._rows("SELECT COUNT(*), (SELECT TOTAL(seq) FROM sqlite_sequence WHERE name = 'block') FROM block")
        there, ever = next(iter(rows))
        return 1 - there / ever if ever else 0.0

    def note_log(self, name: str, state: LogState, known: int) -> int:
        """Say how far a log is known, and return its number."""
        self._rows(
            "INSERT INTO log (name, inode, size, mtime_ns, known) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET inode = excluded.inode, size = excluded.size, mtime_ns = excluded.mtime_ns, known = excluded.known",
            (os.fsencode(name), str(state.inode), state.size, state.mtime_ns, known),
        )
        return int(next(iter(self._rows("SELECT id FROM log WHERE name = ?", (os.fsencode(name),))))[0])

    def add(self, log: int, new: NewBlock) -> None:
        cursor = self._connection.execute(
            "INSERT INTO block (log, start, end, crc, first, last) VALUES (?, ?, ?, ?, ?, ?)", (log, *new.block)
        )
        number = cursor.lastrowid
        self._connection.executemany(
            "INSERT INTO posting (key, block, lines) VALUES (?, ?, ?)",
            [(key, number, lines) for key, lines in sorted(new.keys.items())],
        )


def _range_of(one: Lookup) -> tuple[bytes, bytes]:
    """Return the keys between which the one that is looked up lies. No text in UTF-8 has the byte 255."""
    return one.key, one.key + (b"\xff" if one.beginning else b"\0")


# --- opening ----------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def reading(state_dir: Path) -> Iterator[IndexFile | None]:
    """Open the index for looking things up; None if there is none that can be believed, or somebody writes it."""
    path = state_dir / NAME
    with contextlib.ExitStack() as stack:
        found = None
        with contextlib.suppress(*errors()):
            fd = _locked(path, _READ, stack)
            if fd is not None and _version(fd) == VERSION:
                found = _believable(path, fd, stack)
        yield found


@contextlib.contextmanager
def writing(state_dir: Path, *, anew: bool = False) -> Iterator[IndexFile | None]:
    """Open the index for adding to it, made or emptied before if need be; None if that cannot be, or somebody uses it.

    ``anew``: what is in it is not wanted.
    """
    path = state_dir / NAME
    with contextlib.ExitStack() as stack:
        found = None
        with contextlib.suppress(*errors()):
            found = _prepared(path, stack, anew=anew)
        yield found


def errors() -> tuple[type[Exception], ...]:
    """Return what reading or writing an index may raise: the caller goes on without it."""
    try:
        import sqlite3  # noqa: PLC0415 - only readers of a long history pay for it
    except ImportError:  # a Python that was built without it
        return (OSError, BadIndex, ImportError)
    return (OSError, BadIndex, sqlite3.Error, UnicodeDecodeError)


def _prepared(path: Path, stack: contextlib.ExitStack, *, anew: bool) -> IndexFile | None:
    fd = _locked(path, _WRITE, stack)
    if fd is None or _version(fd) > VERSION:  # a newer ackd is at work here, too
        return None
    with contextlib.ExitStack() as looking:
        whole = not anew and _version(fd) == VERSION and _whole(path, fd, looking)
    if not whole:
        _unseal(fd)
        os.ftruncate(fd, 0)
    connection = _connected(path, "mode=rw", stack)
    for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "cache_spill = OFF", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    if not whole:
        with _transaction(connection, fd):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
    return IndexFile(connection, fd)


def _whole(path: Path, fd: int, stack: contextlib.ExitStack) -> bool:
    try:
        return _believable(path, fd, stack) is not None
    except errors():
        return False


def _believable(path: Path, fd: int, stack: contextlib.ExitStack) -> IndexFile | None:
    found = IndexFile(_connected(path, "mode=ro&immutable=1", stack), fd)
    return found if found.is_sealed() and file_lock.is_at(fd, path) else None


def _locked(path: Path, flags: int, stack: contextlib.ExitStack) -> int | None:
    """Open and lock the file; None if somebody else has locked it, or if it is no regular file."""
    fd = os.open(path, flags, 0o600)
    stack.callback(os.close, fd)  # after the connection's end: closing it first would drop SQLite's own locks
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return None
    give_up_at = time.monotonic() + _PATIENCE_S
    while not file_lock.take(fd, shared=flags == _READ):
        if time.monotonic() >= give_up_at:
            return None
        time.sleep(_PAUSE_S)
    return fd if file_lock.is_at(fd, path) else None


def _connected(path: Path, how: str, stack: contextlib.ExitStack) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415

    place = quote(os.path.abspath(path))  # noqa: PTH100 - the name that was locked, whatever it leads through
    connection = sqlite3.connect(f"file:{place}?{how}", uri=True, timeout=0, isolation_level=None)
    stack.callback(connection.close)
    return connection


def _version(fd: int) -> int:
    """Return the version that the header names; 0 for a file that is no index."""
    head = os.pread(fd, 100, 0)
    if len(head) < 100 or not head.startswith(_MAGIC) or struct.unpack_from(">I", head, 68)[0] != _APPLICATION:
        return 0
    return int(struct.unpack_from(">i", head, 60)[0])


# --- the seal ---------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, fd: int) -> Iterator[None]:
    """Write together what is written within, and seal the file. SQLite keeps all of it in memory until the end, so a
    reader that is interrupted before leaves the file, and its seal, as they were."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        sealed_ns = _seal(fd, _some_moment_ns())
        connection.execute("DELETE FROM seal")
        connection.execute("INSERT INTO seal VALUES (?)", (sealed_ns,))
        _unseal(fd)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    os.fsync(fd)
    _seal(fd, sealed_ns)


def _some_moment_ns() -> int:
    """Return a time that no clock will give the file: more than an hour ago, to the microsecond."""
    ago_us = 3_600_000_000 + int.from_bytes(os.urandom(4), "big")
    return (time.time_ns() // 1000 - ago_us) * 1000


def _seal(fd: int, at_ns: int) -> int:
    """Set the time of the last change, and return what the file system has made of it."""
    os.utime(fd, ns=(at_ns, at_ns))
    return os.fstat(fd).st_mtime_ns


def _unseal(fd: int) -> None:
    """From here on the file is not believed, also after a power cut."""
    os.utime(fd, ns=(_BROKEN_NS, _BROKEN_NS))
    os.fsync(fd)
