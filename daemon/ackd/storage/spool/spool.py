"""The spool's directories and every change in them.

The layout below the root, moves, rewrites and the archive are made here. The directory is the state: where a file lies
is what is true of its message, and each change is one rename. Messages are not read: bytes in, bytes out. Synchronous
and small, to be called on the event loop; where a flush is needed it is split into prepare and commit, so that the
caller can flush many at once in threads in between. Only the holder of the root's lock may change anything.

A file that is gone is FileNotFoundError, one that is no message ``BadMessage``, a name no agent can have ``BadName``;
every other OSError (full, read-only, broken disk) passes to the caller, and then nothing has changed.
"""

# ruff: noqa: PTH108, PTH120
from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage, BadName
from ackd.core.message import RESERVED_NAMES, Folder, Place, agent_name
from ackd.core.message_files import is_message_file
from ackd.storage.spool.disk import Disk, by_chance, in_a_row, is_plain, plain
from ackd.storage.spool.reading import (
    FileBytes,
    Peeked,
    has_bytes,
    has_settled,
    is_copy,
    is_link,
    not_allowed,
    peek_all,
    read_header_block,
    read_regular,
    stamp_in,
    stamp_of,
    too_large,
)
from ackd.storage.spool.sweeping import latest_days, old_days, remove_day, settle_asides, sweep_temporary
from ackd.storage.spool.undeliverable import DeadLetterFolder, Quarantine, Reason
from ackd.system.syscalls import Birth, Identity, birth, changed, identity_of, mount_of, put_in_place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.core.message import WhichFile

_LAYOUT: Final = (
    *("queue/dead_letter", "queue/corrupt", "receipts", "archive", "logs"),
    *("state/runs", "state/gateways", "run"),
)
_HEADER_LIMIT: Final = 65_536
#: The room beyond ``max_message_bytes`` for headers that ackd adds: as much as the format keeps free for them.
OWN_HEADERS_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class PreparedRewrite:
    """New content of a file, under a temporary name beside it. Flush ``temp``, then commit; or abandon."""

    place: Place
    temp: str
    replaces: Identity


@dataclass(frozen=True, slots=True)
class PreparedDrop:
    """A new file, not yet visible. Flush ``temp``, commit, then flush the directory; or abandon."""

    place: Place
    temp: str


class Spool:
    def __init__(
        self,
        root: Path,
        *,
        max_message_bytes: int | Callable[[], int],
        durable: bool,
        reserved: frozenset[str] = RESERVED_NAMES,
    ) -> None:
        """``max_message_bytes``: a number, or a function that is asked at each use, where the config may change.

        The root and ``durable`` cannot change: files that were written before would not be where, or as, they are
        expected.
        """
        self._root = str(root)
        self._queue = f"{root}/queue"
        self._dead = f"{root}/queue/dead_letter"
        self._receipts = f"{root}/receipts"
        self._archive = f"{root}/archive"
        self._most_bytes = max_message_bytes if callable(max_message_bytes) else lambda: max_message_bytes
        self._reserved = reserved
        self._disk = Disk(durable=durable)
        self.dead_letters = DeadLetterFolder(self._dead, _HEADER_LIMIT)
        self._directory = functools.lru_cache(maxsize=4096)(self._directory_of)  # every path begins with one of a few
        self._corrupt = Quarantine(f"{root}/queue/corrupt", self._disk)

    # --- what is where ------------------------------------------------------------------------------------------------
    def is_there(self) -> bool:
        """Say whether the root exists at all."""
        return os.path.isdir(self._root)  # noqa: PTH112 - as the rest of this module

    def ensure_layout(self) -> None:
        for name in _LAYOUT:
            self._disk.make_directory(f"{self._root}/{name}")

    def ensure_box(self, box: str) -> None:
        self._disk.make_directory(f"{self._queue}/{agent_name(box, self._reserved)}")
        self._disk.make_directory(f"{self._queue}/{box}/processed")

    def boxes(self) -> dict[str, int]:
        """Return every queue directory an agent can have, with its inode. Links and ackd's own directories are left
        out."""
        with os.scandir(self._queue) as entries:
            return {entry.name: entry.inode() for entry in entries if self._is_box(entry)}

    def strangers(self) -> list[str]:
        """Return the other entries of queue/: names no agent can have, files, links."""
        ours = {name.partition("/")[2] for name in _LAYOUT if name.startswith("queue/")}
        ours |= self._reserved - RESERVED_NAMES  # a gateway's, which shares queue/ with us
        return [entry.name for entry in _visible(self._queue) if not self._is_box(entry) and entry.name not in ours]

    def births(self, box: str) -> tuple[Birth, Birth] | None:
        """Return the births of a box and its processed/; None if either is not there. If they differ from before, it
        was replaced."""
        try:
            outer, inner = birth(f"{self._queue}/{plain(box)}"), birth(f"{self._queue}/{box}/processed")
        except FileNotFoundError:  # a name that no directory has
            return None
        return (outer, inner) if outer is not None and inner is not None else None

    def path(self, place: Place) -> Path:
        return Path(self._path(place))

    def located(self, place: Place) -> str:
        """Return ``path`` as text, which costs a tenth of it."""
        return self._path(place)

    def exists(self, place: Place) -> bool:
        try:
            return os.path.lexists(self._path(place))
        except FileNotFoundError:  # a name that no file has
            return False

    def is_gone(self, place: Place) -> bool:
        """Say whether the file is surely gone. One that cannot be looked at (a mode, a mount that does not answer) may
        be there."""
        try:
            os.lstat(self._path(place))
        except OSError as error:
            return isinstance(error, FileNotFoundError | NotADirectoryError)
        return False

    def scan(self, box: str) -> Iterator[tuple[Place, os.DirEntry[str]]]:
        """Yield the entries of a box and of its processed/, of whatever kind. A box that is not there raises."""
        directory = f"{self._queue}/{plain(box)}"
        for entry in _visible(directory):
            if entry.name != "processed":
                yield Place(box, Folder.QUEUE, entry.name), entry
        with contextlib.suppress(FileNotFoundError):  # a box that others made may have none yet
            for entry in _visible(f"{directory}/processed"):
                yield Place(box, Folder.PROCESSED, entry.name), entry

    def count(self, box: str) -> tuple[int, int]:
        """Return how many files lie in a box and in its processed/. One that cannot be listed has none."""
        try:
            names = os.listdir(f"{self._queue}/{plain(box)}")  # noqa: PTH208 - as the rest of this module
            return sum(map(is_message_file, names)), len(self.in_hand(box))
        except OSError:
            return 0, 0

    def waiting(self, box: str) -> Iterator[Peeked]:
        """Yield the messages in a box by name, each with its beginning if that can be read. A missing box raises."""
        return peek_all(f"{self._queue}/{plain(box)}", is_message_file)

    def in_hand(self, box: str) -> list[Place]:
        """Return the messages in the box's processed/, which may be missing in a box that others made."""
        try:
            names = [entry.name for entry in _visible(f"{self._queue}/{plain(box)}/processed")]
            return [Place(box, Folder.PROCESSED, name) for name in names if is_message_file(name)]
        except FileNotFoundError:
            return []

    def namesakes(self, place: Place) -> Iterator[Place]:
        """Yield the file at this place, and those under the names that a move there gives to later ones.

        The directory is listed only if the names in a row are all taken. One that cannot be listed is as good as empty.
        """
        day, slash, name = place.name.rpartition("/")
        for candidate in in_a_row(name):
            taken = Place(place.box, place.folder, f"{day}{slash}{candidate}")
            if not self.exists(taken):
                return
            yield taken
        given = by_chance(name)
        for candidate in self._listed(os.path.dirname(self._path(place))):
            if given.fullmatch(candidate):
                yield Place(place.box, place.folder, f"{day}{slash}{candidate}")

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, place: Place) -> FileBytes:
        """Read a message, with room for our own headers, wherever it lies: one that we accepted is never too large for
        us. Whoever knows which headers are ours checks that a new message keeps to the limit (``must_fit``). A file in
        a queue that we may not read is ``BadMessage``, too."""
        path = self._path(place)
        try:
            return read_regular(path, self._most_bytes(), OWN_HEADERS_BYTES)
        except PermissionError:
            if place.folder is not Folder.QUEUE:  # we could read it before: whoever changed its mode must undo that
                raise
            raise not_allowed(path) from None

    def is_large(self, file: FileBytes) -> bool:
        """Say whether the file is above the limit and was read all the same: by our own headers, or its sender's
        doing."""
        return file.size > self._most_bytes()

    def must_fit(self, size_bytes: int) -> None:
        """Raise ``BadMessage`` for more bytes than a sender may bring."""
        most = self._most_bytes()
        if size_bytes > most:
            raise too_large(size_bytes, most)

    def stamp(self, place: Place) -> int:
        """Return the file's stamp, to be compared with that of the file that was read."""
        return stamp_of(self._path(place))

    def head(self, place: Place) -> bytes:
        """Read the file's header block, however large the file is."""
        return read_header_block(self._path(place), _HEADER_LIMIT).data

    def mentions(self, place: Place, message_id: str) -> bool:
        """Say whether the file's header block names this id. A file that cannot be read mentions nothing."""
        try:
            head = self.head(place)
        except (OSError, BadMessage):
            return False
        return f"<{message_id}>".encode() in head

    def heads(self, box: str, name_begins: str) -> Iterator[bytes]:
        """Yield the header block of each file in the box whose name begins so. A file that cannot be read, or a box
        that is not there, has none."""
        places: list[Place] = []
        with contextlib.suppress(OSError):
            places += [place for place, _ in self.scan(box) if place.name.startswith(name_begins)]
        for place in places:
            with contextlib.suppress(OSError, BadMessage):
                yield self.head(place)

    def settled(self, place: Place, now_wall: float, settle_s: float) -> bool:
        """Say whether a file that a scan met may be read: quiet for ``settle_s``, and open for writing nowhere."""
        return has_settled(self._path(place), now_wall, settle_s)

    def quarantined(self) -> Iterator[tuple[str, Reason | None]]:
        """Yield name and reason of each file in corrupt/; None where the reason cannot be read."""
        return iter(self._corrupt)

    # --- receipts -----------------------------------------------------------------------------------------------------
    def scan_receipts(self) -> Iterator[os.DirEntry[str]]:
        return _visible(self._receipts)

    def receipt_path(self, name: str) -> Path:
        return Path(f"{self._receipts}/{plain(name)}")

    def receipt_settled(self, name: str, now_wall: float, settle_s: float) -> bool:
        return has_settled(f"{self._receipts}/{plain(name)}", now_wall, settle_s)

    def remove_receipt(self, name: str, which: WhichFile | None = None) -> None:
        """Remove a receipt. If it is gone already that is as good, and another receipt in its place stays.

        The bytes decide: copying a file may set its time after it was closed and read, and on some file systems every
        look finds another inode; such a receipt would be acted on again and again. The same receipt that was put once
        more under the same name, before the first was acted on, counts as one with it.
        """
        with contextlib.suppress(FileNotFoundError):
            path = f"{self._receipts}/{plain(name)}"
            if which is None or identity_of(path) == which[:3] or has_bytes(path, *which[2:]):
                os.unlink(path)

    def quarantine_receipt(self, name: str, code: str, detail: str, at: str) -> str:
        reason = Reason("", "receipts", name, code, detail, at)
        return self._corrupt.keep(f"{self._receipts}/{plain(name)}", reason, across=True)

    # --- moving and rewriting -----------------------------------------------------------------------------------------
    def move(
        self, place: Place, folder_to: Folder, *, date: str | None = None, box: str | None = None, across: bool = False
    ) -> Place:
        """Move a file by one rename, under the next free name. For the archive ``date`` is YYYYMMDD and becomes part of
        the name.

        Nothing is flushed: a durable file whose move is lost in a power cut lies where it was, and is offered again.
        Where a queue is a mount of its own this is EXDEV; ``across`` then copies, flushes and removes, in a thread.
        """
        to_box = box if box is not None else place.box
        directory = self._directory(to_box, folder_to, date or "")
        moved = self._disk.move(self._path(place), directory, place.name.rpartition("/")[2], across=across)
        return Place(to_box, folder_to, f"{date}/{moved}" if folder_to is Folder.ARCHIVE else moved)

    def is_apart(self, box: str, *others: str) -> bool:
        """Say whether a file may have been copied on its way through this box, because not all of the way is one
        mount. ``others``: boxes into whose processed/ it may go as well."""
        here = f"{self._queue}/{plain(box)}"
        further = [f"{self._queue}/{plain(other)}/processed" for other in others]
        mounts = {mount_of(path) for path in (here, f"{here}/processed", self._archive, self._dead, *further)}
        return len(mounts - {0}) > 1

    def was_copied(self, place: Place, to: Place) -> bool:
        """Recognise a move that is not finished: copied to another mount, the same to the byte, and not removed here;
        or linked, where a rename is a link and an unlink."""
        there, here = self._path(to), self._path(place)
        return is_copy(there, here) is not None or is_link(there, here) is not None

    def is_linked(self, place: Place) -> bool:
        """Say whether the file has a second name somewhere. FileNotFoundError."""
        return os.lstat(self._path(place)).st_nlink > 1

    def finish_move(self, place: Place, to: Place) -> bool:
        """Finish a move that was cut short, and say whether there was one."""
        return self._disk.finish(self._path(place), self._path(to))

    def finish_quarantine(self, kept: str, reason: Reason) -> None:
        """Finish a move to corrupt/ that was cut short, from the place that the reason names."""
        if reason.folder == "receipts":
            self._corrupt.finish(kept, f"{self._receipts}/{plain(reason.name)}")
        elif reason.folder in (Folder.QUEUE.value, Folder.PROCESSED.value):
            self._corrupt.finish(kept, self._path(Place(reason.queue, Folder(reason.folder), reason.name)))

    @property
    def made_directories(self) -> bool:
        return bool(self._disk.unflushed)

    def new_directories(self) -> set[str]:
        """Return, and forget, the directories in which a directory was made: the caller flushes them."""
        made, self._disk.unflushed = self._disk.unflushed, set()
        return made

    def prepare_rewrite(self, place: Place, data: bytes, of: FileBytes | None = None) -> PreparedRewrite:
        """Write new content beside a file, to be flushed and committed. Mode, owner and mtime stay: order depends on
        mtime.

        ``of``: the file that ``data`` was made from; if it has changed since, ESTALE.
        """
        path = self._path(place)
        old = os.lstat(path)
        if of is not None and of.stamp != stamp_in(old):
            raise changed(path)
        temp = self._disk.write_temporary(os.path.dirname(path), data, like=old)
        return PreparedRewrite(place, temp, (old.st_ino, old.st_mtime_ns, old.st_size))

    def commit_rewrite(self, prepared: PreparedRewrite) -> None:
        """Exchange the file for its new content. FileNotFoundError if its agent has deleted it meanwhile, ESTALE if
        someone has changed it.

        Then nothing has happened, and the temporary file is gone.
        """
        try:
            put_in_place_of(prepared.temp, self._path(prepared.place), prepared.replaces)
        except OSError:
            self.abandon(prepared)
            raise

    def abandon(self, prepared: PreparedRewrite | PreparedDrop) -> None:
        self._disk.discard(prepared.temp)

    # --- new messages -------------------------------------------------------------------------------------------------
    def prepare_drop(self, box: str, name: str, data: bytes) -> PreparedDrop:
        """Write a message of our own for ``queue/<box>/``, which is made if it is missing."""
        place = Place(box, Folder.QUEUE, plain(name))
        self.ensure_box(box)
        return PreparedDrop(place, self._disk.write_temporary(f"{self._queue}/{box}", data))

    def commit_drop(self, prepared: PreparedDrop) -> Place:
        """Make a prepared message visible. It is durable once its directory is flushed."""
        box = prepared.place.box
        try:
            name = self._disk.move(prepared.temp, f"{self._queue}/{box}", prepared.place.name)
        except OSError:
            self.abandon(prepared)
            raise
        return Place(box, Folder.QUEUE, name)

    def touch(self, place: Place) -> None:
        """Set a new arrival time: a requeued message begins anew, and its second death is not taken for its first."""
        os.utime(self._path(place), follow_symlinks=False)

    # --- putting away and digging up ----------------------------------------------------------------------------------
    def quarantine(self, place: Place, code: str, detail: str, at: str, *, across: bool = False) -> str:
        """Move a file to corrupt/ byte for byte, whatever it is, without opening it. Return its name there.

        EXDEV as for ``move``; a file that is not regular stays where it is then.
        """
        reason = Reason(place.box, place.folder.value, place.name, code, detail, at)
        return self._corrupt.keep(self._path(place), reason, across=across)

    def requeue_corrupt(self, name: str, box: str | None = None, wanted: str | None = None) -> Place:
        """Move a quarantined file back to the queue it came from, as it is. ``BadName`` if its reason names none.

        ``box`` and ``wanted``: the queue, and its name there, where the caller has read the reason already. A name that
        no file in a queue may have is replaced by the one that the file has here.
        """
        os.lstat(self._path(Place("", Folder.CORRUPT, name)))
        if box is None:
            reason = self._corrupt.reason(name)
            box, wanted = (reason.queue, reason.name) if reason else ("", None)
        self.ensure_box(agent_name(box, self._reserved))
        to = wanted if wanted is not None and is_plain(wanted) else name
        return Place(box, Folder.QUEUE, self._corrupt.release(name, f"{self._queue}/{box}", to))

    def purge(self, folder: Folder, name: str) -> None:
        """Remove a dead letter or a quarantined file for good, or whatever else lies there under that name."""
        if folder is Folder.CORRUPT:
            self._corrupt.purge(name)
        elif folder is Folder.DEAD:
            self._disk.remove(f"{self._dead}/{plain(name)}")
        else:
            raise ValueError(f"{folder.value} is not purged")

    # --- sweeping -----------------------------------------------------------------------------------------------------
    def archive_old(self, keep_days: int, today: dt.date, ours: tuple[dt.date, dt.date] | None = None) -> list[str]:
        """Return the days of the archive that are older. ``ours``: from which to which day we ran, by a clock that was
        set since."""
        return old_days(self._archive, today - dt.timedelta(days=keep_days), ours)

    def archive_remove(self, day: str) -> None:
        """Remove a day of the archive. May take long: best called in a thread."""
        remove_day(self._archive, plain(day))

    def clear_left(self) -> None:
        """Remove temporary files of our own that the disk would not remove before."""
        self._disk.clear_left()

    def sweep_temps(self, older_than_s: float, now_wall: float) -> int:
        """Remove the temporary files of crashed writers: never accepted, or the old content of a rewrite that was
        through. Files that they had taken aside for a moment, of whatever age, get a name again, because one may be a
        message."""
        self.clear_left()
        directories = [self._receipts, self._dead, f"{self._queue}/corrupt"]
        for box in self.boxes():
            directories += [f"{self._queue}/{box}", f"{self._queue}/{box}/processed"]
            if self.is_apart(box):  # files are copied to the newest days; older days are removed whole
                directories += [f"{self._archive}/{day}/{box}" for day in latest_days(self._archive, 2)]
        asides = sum(settle_asides(each, ".json" if each == self._receipts else ".mime") for each in directories)
        return asides + sum(sweep_temporary(each, now_wall - older_than_s, now_wall) for each in directories)

    # --- the steps ----------------------------------------------------------------------------------------------------
    def _path(self, place: Place) -> str:
        date, _, name = place.name.partition("/") if place.folder is Folder.ARCHIVE else ("", "", place.name)
        return f"{self._directory(place.box, place.folder, date)}/{plain(name)}"

    def _directory_of(self, box: str, folder: Folder, date: str) -> str:
        match folder:
            case Folder.QUEUE:
                return f"{self._queue}/{plain(box)}"
            case Folder.PROCESSED:
                return f"{self._queue}/{plain(box)}/processed"
            case Folder.DEAD | Folder.CORRUPT:
                return f"{self._queue}/{folder.value}"
            case Folder.ARCHIVE:
                return f"{self._archive}/{plain(date)}/{plain(box)}"

    def _listed(self, directory: str) -> list[str]:
        try:
            return os.listdir(directory)  # noqa: PTH208 - as the rest of this module
        except OSError:
            return []

    def _is_box(self, entry: os.DirEntry[str]) -> bool:
        try:
            agent_name(entry.name, self._reserved)
        except BadName:
            return False
        return entry.is_dir(follow_symlinks=False)


def _visible(directory: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name[0] != ".":
                yield entry
