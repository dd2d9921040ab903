"""The spool's directories as they were last seen, and the hints that an event in them leads to.

A file written in place is reported when its writer closes it, one that is renamed in at once, never at its creation:
that would be two hints for one write, the first of them too early. A name that appears without a close (hard links,
O_TMPFILE, symlinks, FIFOs, directories) is reported as unsettled (``closed=False``): at once where its type or link
count shows it, and otherwise when no close has followed within ``CLOSE_GRACE_S``.

Directories are judged by their state, not by the order of events: whenever an event concerns a box, its path is watched
again, and another number of the watch means another directory (watches). A box whose processed/ went away or was
replaced counts as replaced: BoxGone, BoxAppeared, and its files.

Messages are not looked at, and nothing here waits. A directory that may not be read is left out while the others go on,
and is tried again when its mode changes and with each heartbeat. While queue/ or receipts/ is missing, it is looked for
every ``RETURN_POLL_S``. The only error raised is ``CannotWatch``.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.core.message import RESERVED_NAMES, Folder, Place, is_agent_name
from ackd.core.ports import BoxAppeared, BoxGone, FileGone, Hint, HintsLost
from ackd.storage.inotify_watch.watches import (
    COMPLETE,
    CREATED,
    ENDED,
    ISDIR,
    LARGEST_EVENT_BYTES,
    MOVED_AWAY,
    MOVED_HERE,
    OVERFLOWED,
    WENT,
    Listing,
    Role,
    WatchedDirectory,
    Watches,
    events_in,
    is_processed,
    listing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from inotify_simple import INotify

#: How often an idle watcher wakes to show that it lives, and to check that queue/ is still the directory it watches
#: (inotify does not report the rename of a directory further up).
HEARTBEAT_S: Final = 5.0
RETURN_POLL_S: Final = 0.5
CLOSE_GRACE_S: Final = 0.5

#: The events that are handled before the loop serves others again: some 20 messages, each of up to 7 events. About as
#: many as the pump decides on in a turn, so that a burst's messages are told soon after they were read.
_READ_BYTES: Final = 8_192
#: The most that is read from the kernel and not handled yet. The kernel's own queue holds 16,384 events, as many as a
#: burst makes in a second.
_MAX_UNHEARD: Final = 1_024
_LIST_SLICE: Final = 500
#: Boxes looked at with each heartbeat.
_BOXES_A_BEAT: Final = 16


@dataclass(frozen=True, slots=True)
class _WatchedBox:
    """The watches of a box that was reported. Another number is another directory."""

    wd: int
    processed_wd: int | None


class Tree:
    """The watched directories as they were last seen. Never waits."""

    def __init__(
        self,
        inotify: INotify,
        queue_dir: Path,
        receipts_dir: Path,
        post: Callable[[Hint], None],
        reserved: frozenset[str] = RESERVED_NAMES,
    ) -> None:
        self._inotify = inotify
        self._watches = Watches(inotify, self._robbed_of)
        self._tops = (
            WatchedDirectory(Role.ROOT, str(queue_dir.parent)),
            WatchedDirectory(Role.RECEIPTS, str(receipts_dir)),
            WatchedDirectory(Role.QUEUE, str(queue_dir)),
        )
        self._top_names = frozenset({queue_dir.name, receipts_dir.name})
        self._queue = str(queue_dir)
        self._reserved = reserved
        self._post = post
        self._top_wds: dict[Role, int | None] = {}
        self._boxes: dict[str, _WatchedBox] = {}
        self._round: list[str] = []  # boxes whose turn to be looked at has not come yet
        self._robbed: list[str] = []  # boxes whose directory turned up in another place
        self._listings: deque[Listing] = deque()
        self._unclosed: dict[Hint, float] = {}  # created, not closed yet → when it is reported anyway; oldest first
        self._unheard: deque[bytes] = deque()  # read, and not handled yet
        self._check_at = -math.inf  # when the directories themselves are to be looked at
        self._moved_away: set[Place] = set()  # sources of our own moves whose event has not come yet
        self._moved_here: set[Place] = set()

    def begin(self) -> None:
        """Watch what is there already, without reporting it: the scan at the start finds it."""
        post, self._post = self._post, _say_nothing
        self._check_tops()
        self._listings.clear()
        self._post = post

    def turn(self) -> bool:
        """Do a bounded piece of what there is to do; False when that was nothing."""
        read = self._read_events()
        now = time.monotonic()
        self._give_up_on_closing(now)
        if now >= self._check_at:
            self._check_tops()
            for box in {*self._watches.shut, *self._next_few()}:
                self._check_box(box)
        listed = self._list_some()  # last, because the steps before it add directories to be listed
        return read or listed

    def patience_s(self) -> float:
        """Return how long the next turn may wait if no event comes."""
        until = self._check_at
        if self._unclosed:
            until = min(until, next(iter(self._unclosed.values())))
        return max(0.0, until - time.monotonic())

    def own_move(self, source: Place, target: Place) -> None:
        """Note a move of our own. The kernel reports it as one event at the source and one at the target, and one event
        of each is passed over. Any other event of the same name, before or after, is not: a look follows the last of
        them. Once all events have been read, nothing is expected any more."""
        self._moved_away.add(source)
        self._moved_here.add(target)

    def close(self) -> None:
        while self._listings:
            self._listings.popleft().close()

    # --- events -------------------------------------------------------------------------------------------------------
    def _read_events(self) -> bool:
        """Handle a piece of the events that were read. Return whether there may be more."""
        emptied = self._empty_the_kernels_queue()
        if self._unheard:
            for wd, mask, name in events_in(self._unheard.popleft()):
                watched = self._watches.watched(wd)
                if mask & OVERFLOWED:
                    self._start_over()
                elif watched is not None:  # None: late events of a watch that was given up
                    self._take(watched, mask, name)
        if self._unheard or not emptied:
            return True
        self._moved_away.clear()
        self._moved_here.clear()
        return False

    def _empty_the_kernels_queue(self) -> bool:
        """Read what the kernel has queued; return whether its queue is empty now. The kernel's queue overflows in a
        burst that takes longer to handle than to write; ours does not."""
        fd = self._inotify.fileno()
        while len(self._unheard) < _MAX_UNHEARD:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return True
            self._unheard.append(data)
            if len(data) <= _READ_BYTES - LARGEST_EVENT_BYTES:
                return True  # another event would have fitted into the buffer, so the queue is empty
        return False

    def _take(self, watched: WatchedDirectory, mask: int, name: str) -> None:
        if watched.role is Role.MAIL or watched.role is Role.RECEIPTS:
            self._take_file(watched, mask, name)
        elif mask & ENDED or (watched.role is Role.ROOT and name in self._top_names):
            self._check_tops()
        elif watched.role is Role.QUEUE and mask & ISDIR and is_agent_name(name, self._reserved):
            self._check_box(name)

    def _take_file(self, watched: WatchedDirectory, mask: int, name: str) -> None:
        if mask & ENDED:
            self._check_directory(watched)
        elif mask & ISDIR and is_processed(watched, name):
            self._check_box(watched.box)
        elif mask & COMPLETE:
            if self._unclosed:
                self._settled(watched, name)
            if not (mask & MOVED_HERE and _passed_over(self._moved_here, watched, name)):
                self._post(watched.hint(name, closed=True))
        elif mask & WENT:
            if self._unclosed:
                self._settled(watched, name)
            if not (mask & MOVED_AWAY and _passed_over(self._moved_away, watched, name)):
                self._post(FileGone(Place(watched.box, watched.folder, name)))
        elif mask & CREATED:
            self._take_created(watched, name)

    def _take_created(self, watched: WatchedDirectory, name: str) -> None:
        try:
            found = os.lstat(f"{watched.path}/{name}")
        except OSError:
            return  # gone again; the event for that is still to come
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            self._unclosed[watched.hint(name, closed=False)] = time.monotonic() + CLOSE_GRACE_S
        else:
            self._post(watched.hint(name, closed=False))

    def _settled(self, watched: WatchedDirectory, name: str) -> None:
        self._unclosed.pop(watched.hint(name, closed=False), None)

    def _give_up_on_closing(self, now: float) -> None:
        """Report files that were created and not closed in time. Linking a finished file in and unlinking the old name
        (maildir's way) leaves one link and no close."""
        while self._unclosed:
            hint, until = next(iter(self._unclosed.items()))
            if until > now:
                return
            del self._unclosed[hint]
            self._post(hint)

    def _start_over(self) -> None:
        self._unclosed.clear()
        self._moved_away.clear()
        self._moved_here.clear()
        self._post(HintsLost())
        self._check_tops()
        self._check_boxes()

    # --- directories --------------------------------------------------------------------------------------------------
    def _check_tops(self) -> None:
        self._check_at = math.inf  # lowered if a directory turns up in another place while we look
        began_at = time.monotonic()
        for watched in self._tops:
            before = self._top_wds.get(watched.role)
            now = self._top_wds[watched.role] = self._watches.watch(watched, before)
            if now == before:
                continue
            self._watches.unwatch(before)
            if watched.role is Role.QUEUE:
                self._check_boxes()
            elif watched.role is Role.RECEIPTS and now is not None:
                self._listings.append(listing(watched))
        whole = self._top_wds[Role.QUEUE] is not None and self._top_wds[Role.RECEIPTS] is not None
        self._check_at = min(self._check_at, began_at + (HEARTBEAT_S if whole else RETURN_POLL_S))

    def _check_boxes(self) -> None:
        there: list[str] = []
        if self._top_wds.get(Role.QUEUE) is not None:
            with contextlib.suppress(OSError):  # gone meanwhile; its own event follows
                names = [entry.name for entry in Path(self._queue).iterdir()]
                there = [name for name in names if is_agent_name(name, self._reserved)]
        for box in {**self._boxes, **dict.fromkeys(there)}:
            self._check_box(box)

    def _next_few(self) -> list[str]:
        """Return the next boxes to look at, so that each has its turn: a mount over a box, or an unmount, causes no
        event."""
        if not self._round:
            self._round = list(self._boxes)
        few, self._round = self._round[:_BOXES_A_BEAT], self._round[_BOXES_A_BEAT:]
        return few

    def _check_directory(self, watched: WatchedDirectory) -> None:
        if watched.role is Role.MAIL:
            self._check_box(watched.box)
        else:
            self._check_tops()

    def _check_box(self, box: str) -> None:
        self._compare_box(box)
        compared = {box}
        while self._robbed:
            other = self._robbed.pop()
            if other not in compared:  # a directory mounted in two places would otherwise move to and fro for ever
                compared.add(other)
                self._compare_box(other)

    def _compare_box(self, box: str) -> None:
        self._watches.shut.discard(box)
        mail = WatchedDirectory(Role.MAIL, f"{self._queue}/{box}", box)
        processed = WatchedDirectory(Role.MAIL, f"{mail.path}/{Folder.PROCESSED.value}", box, Folder.PROCESSED)
        known = self._boxes.get(box)
        now = self._watch_box(mail, processed, known)
        if now == known:
            return
        if known and now and now.wd == known.wd and known.processed_wd is None:  # processed/ is new, the box is not
            self._boxes[box] = now
            self._listings.append(listing(processed))
            return
        if known is not None:
            self._lose_box(box, known, now)
        if now is not None:
            self._boxes[box] = now
            self._post(BoxAppeared(box))
            # Listed after the watch was set: files that came before are found here, later ones cause events.
            self._listings.extend((listing(mail), listing(processed)))

    def _watch_box(
        self, mail: WatchedDirectory, processed: WatchedDirectory, known: _WatchedBox | None
    ) -> _WatchedBox | None:
        wd = self._watches.watch(mail, known.wd if known else None)
        if wd is None:
            return None
        return _WatchedBox(wd, self._watches.watch(processed, known.processed_wd if known else None))

    def _lose_box(self, box: str, known: _WatchedBox, now: _WatchedBox | None) -> None:
        kept = (now.wd, now.processed_wd) if now else ()
        for wd in (known.wd, known.processed_wd):
            if wd not in kept:
                self._watches.unwatch(wd)
        del self._boxes[box]
        self._post(BoxGone(box))

    def _robbed_of(self, watched: WatchedDirectory) -> None:
        if watched.role is Role.MAIL:
            self._robbed.append(watched.box)
        else:
            self._check_at = -math.inf

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


def _passed_over(own: set[Place], watched: WatchedDirectory, name: str) -> bool:
    """Say whether this is the event of a move of our own, and forget that move."""
    if not own:
        return False
    place = Place(watched.box, watched.folder, name)
    if place not in own:
        return False
    own.remove(place)
    return True


def _say_nothing(_hint: Hint) -> None:
    pass
