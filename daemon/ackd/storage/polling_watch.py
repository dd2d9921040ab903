"""Watch the spool by looking again and again: for file systems and containers where inotify cannot.

A picture of the directories as they were last seen is compared with the next one. It covers what inotify covers: boxes
that come, go or are replaced, files in queue/<box>/ and its processed/ (regular or not, by whatever way they came),
rewrites, receipts. No file is opened. A look never sees a writer close, so every file is reported as unsettled
(``closed=False``), and again for as long as it changes.

A directory is told from its successor by device, inode and time of birth; the inode alone does not do, since ext4 gives
a freed one to the next directory, and a queue that was deleted and made again between two looks would pass for one
whose agent has completed everything. (Where the file system records no birth, that case is not seen.) A box whose
processed/ went away or was replaced counts as replaced: BoxGone, BoxAppeared, and its files.

A look happens in a worker thread: 100,000 files take longer than the loop may be held up. The first one is the baseline
and reports nothing; while there is no thread for it, it is tried again before ``ready`` is called, because the scan
that follows finds what came until then.

A directory that cannot be read counts as unchanged until it can, and the others go on; one that is missing counts as
empty. Only cancellation ends ``run``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.from_thread
import anyio.lowlevel

from ackd.core.message import RESERVED_NAMES, Folder, Place, is_agent_name
from ackd.core.ports import BoxAppeared, BoxGone, FileGone, FileReady, Hint, ReceiptReady
from ackd.system.syscalls import Birth, birth
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POST_SLICE: Final = 500

#: inode, mtime in nanoseconds, size in bytes
Mark: TypeAlias = tuple[int, int, int]
Marks: TypeAlias = dict[str, Mark]


class PollingWatcher:
    """``ports.Watcher`` by scanning. ``beats`` grows with every look."""

    def __init__(
        self,
        queue_dir: Path,
        receipts_dir: Path,
        interval_s: float = 2.0,
        reserved: frozenset[str] = RESERVED_NAMES,
    ) -> None:
        self._queue_dir = queue_dir
        self._receipts_dir = receipts_dir
        #: May be set to another value while it runs.
        self.interval_s = interval_s
        self._reserved = reserved
        self.beats = 0

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        # A limiter of its own: the default one is shared with the flushes, and a look must not queue behind them.
        limiter = anyio.CapacityLimiter(1)
        seen: _Picture | None = None
        while True:
            try:
                now, hints = await in_thread(self._look, seen or _Picture(), limiter=limiter)
            except OSError:
                pass  # no thread could be started; the next look finds the same changes
            else:
                if seen is None:
                    ready()
                else:
                    await _post_all(hints, post)
                seen = now
            self.beats += 1
            await anyio.sleep(self.interval_s)

    def own_move(self, source: Place, target: Place) -> None:
        """Do nothing: two pictures do not show who moved a file."""

    def _look(self, before: _Picture) -> tuple[_Picture, list[Hint]]:
        now = _take_picture(str(self._queue_dir), str(self._receipts_dir), before, self._reserved)
        return now, list(_differences(before, now))


async def _post_all(hints: list[Hint], post: Callable[[Hint], None]) -> None:
    left = iter(hints)
    while some := list(islice(left, _POST_SLICE)):
        for hint in some:
            post(hint)
        await anyio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class _SeenBox:
    birth: Birth
    files: Marks
    processed_birth: Birth | None
    processed_files: Marks

    def is_successor_of(self, other: _SeenBox) -> bool:
        """Say whether this is another directory than the one that was seen. A processed/ that is new makes no
        successor."""
        return self.birth != other.birth or other.processed_birth not in (None, self.processed_birth)


@dataclass(frozen=True, slots=True)
class _Picture:
    boxes: dict[str, _SeenBox] = field(default_factory=dict)
    receipts: Marks = field(default_factory=dict)


# --- looking ----------------------------------------------------------------------------------------------------------
def _take_picture(queue: str, receipts: str, before: _Picture, reserved: frozenset[str]) -> _Picture:
    boxes: dict[str, _SeenBox] = {}
    for name in _box_names(queue, before, reserved):
        anyio.from_thread.check_cancelled()
        box = _see_box(f"{queue}/{name}", before.boxes.get(name))
        if box is not None:
            boxes[name] = box
    return _Picture(boxes, _see_receipts(receipts, before.receipts))


def _box_names(queue: str, before: _Picture, reserved: frozenset[str]) -> list[str]:
    try:
        with os.scandir(queue) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return [name for name in names if is_agent_name(name, reserved)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return list(before.boxes)


def _see_receipts(receipts: str, before: Marks) -> Marks:
    try:
        return _marks(receipts)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError:
        return before


def _see_box(path: str, before: _SeenBox | None) -> _SeenBox | None:
    """Look at a box; None if no directory lies there, the last picture if it cannot be looked into."""
    processed = f"{path}/{Folder.PROCESSED.value}"
    try:
        births = birth(path), birth(processed)
        if births[0] is None:
            return None
        files = _marks(path, but_not=Folder.PROCESSED.value if births[1] else None)
        processed_files = _marks(processed) if births[1] else {}
        if (birth(path), birth(processed)) != births:
            return None  # replaced while it was read: counts as gone, and the next look finds its successor
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return before
    return _SeenBox(births[0], files, births[1], processed_files)


def _marks(directory: str, but_not: str | None = None) -> Marks:
    marks: Marks = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == but_not:
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # the file was moved after the directory was read
            marks[entry.name] = (found.st_ino, found.st_mtime_ns, found.st_size)
    return marks


# --- comparing --------------------------------------------------------------------------------------------------------
def _differences(before: _Picture, now: _Picture) -> Iterator[Hint]:
    for name in before.boxes.keys() - now.boxes.keys():
        yield BoxGone(name)
    for name, box in now.boxes.items():
        known = before.boxes.get(name)
        if known is not None and box.is_successor_of(known):
            yield BoxGone(name)
            known = None
        if known is None:
            yield BoxAppeared(name)
        yield from _changed_files(name, Folder.QUEUE, known.files if known else {}, box.files)
        yield from _changed_files(name, Folder.PROCESSED, known.processed_files if known else {}, box.processed_files)
    for name, mark in now.receipts.items():
        if before.receipts.get(name) != mark:
            yield ReceiptReady(name)


def _changed_files(box: str, folder: Folder, before: Marks, now: Marks) -> Iterator[Hint]:
    if before == now:
        return
    for name, mark in now.items():
        if before.get(name) != mark:
            yield FileReady(Place(box, folder, name), closed=False)
    for name in before.keys() - now.keys():
        yield FileGone(Place(box, folder, name))
