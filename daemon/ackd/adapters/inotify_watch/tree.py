"""The watched directories as they were last seen, and what an event in them is worth saying.

A file written in place is reported when its writer closes it, one that is renamed in at once, never at its creation:
that would be two hints for one write, the first of them too early. What gets a name without ever being closed (hard
links, O_TMPFILE, symlinks, FIFOs, directories) is reported as unsettled (``closed=False``): at once where its type or
link count shows it, and otherwise when no close has followed within ``CLOSE_GRACE_S``.

Directories are judged by their state, not by the story of the events: whatever is said about a box, its path is watched
again, and another number of the watch is another directory (watches). A box whose processed/ went away or was replaced
counts as replaced: BoxGone, BoxAppeared, and its files.

Refuses to know what a message is, and never waits. How it fails: a directory that may not be read is left out, the
others go on, and it is tried again when its mode changes and with each heartbeat. While queue/ or receipts/ is missing,
it is looked for every ``RETURN_POLL_S``. Only ``CannotWatch`` gets out.
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

from ackd.adapters.inotify_watch.seats import (
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
    Seat,
    events_in,
    is_processed,
    listing,
)
from ackd.adapters.inotify_watch.watches import Watches
from ackd.core.message import RESERVED_NAMES, Folder, Place, is_agent_name
from ackd.ports import BoxAppeared, BoxGone, FileGone, Hint, HintsLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from inotify_simple import INotify

#: How often an idle watcher wakes to show that it lives and to see that queue/ is still the directory it watches (the
#: rename of a directory further up is told to nobody).
HEARTBEAT_S: Final = 5.0
RETURN_POLL_S: Final = 0.5
CLOSE_GRACE_S: Final = 0.5

#: Some 20 messages, for each is up to 7 events: what is handled before the loop serves others again. About as many as
#: the pump decides on in a turn, so that a burst's messages are told soon after they were read.
_READ_BYTES: Final = 8_192
#: What is taken from the kernel and not handled yet, at most: its own queue holds 16,384 events, the burst of a second.
_MAX_UNHEARD: Final = 1_024
_LIST_SLICE: Final = 500
#: Boxes looked at with each heartbeat.
_BOXES_A_BEAT: Final = 16


@dataclass(frozen=True, slots=True)
class _Box:
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
            Seat(Role.ROOT, str(queue_dir.parent)),
            Seat(Role.RECEIPTS, str(receipts_dir)),
            Seat(Role.QUEUE, str(queue_dir)),
        )
        self._top_names = frozenset({queue_dir.name, receipts_dir.name})
        self._queue = str(queue_dir)
        self._reserved = reserved
        self._post = post
        self._top_wds: dict[Role, int | None] = {}
        self._boxes: dict[str, _Box] = {}
        self._round: list[str] = []  # boxes whose turn to be looked at has not come yet
        self._robbed: list[str] = []  # boxes whose directory turned up in another place
        self._listings: deque[Listing] = deque()
        self._unclosed: dict[Hint, float] = {}  # created, not closed yet → until when that is fine; oldest first
        self._unheard: deque[bytes] = deque()  # read, and not handled yet
        self._check_at = -math.inf  # the directories themselves
        self._moved_away: set[Place] = set()  # by ourselves, and not heard of yet
        self._moved_here: set[Place] = set()

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
        if now >= self._check_at:
            self._check_tops()
            for box in {*self._watches.shut, *self._next_few()}:
                self._check_box(box)
        listed = self._list_some()  # last, for the others leave it work
        return read or listed

    def patience_s(self) -> float:
        """How long the next turn may wait if no event comes."""
        until = self._check_at
        if self._unclosed:
            until = min(until, next(iter(self._unclosed.values())))
        return max(0.0, until - time.monotonic())

    def own_move(self, source: Place, target: Place) -> None:
        """The kernel has said so already, and we soon read it: one event here, one there. One event of each is passed
        over, and any other of the same name, before or after it, is not: a look follows the last of them. When there
        was nothing left to be read, nothing is waited for any more."""
        self._moved_away.add(source)
        self._moved_here.add(target)

    def close(self) -> None:
        while self._listings:
            self._listings.popleft().close()

    # --- events -------------------------------------------------------------------------------------------------------
    def _read_events(self) -> bool:
        """Whether there may be more."""
        emptied = self._empty_the_kernels_queue()
        if self._unheard:
            for wd, mask, name in events_in(self._unheard.popleft()):
                seat = self._watches.seat(wd)
                if mask & OVERFLOWED:
                    self._start_over()
                elif seat is not None:  # None: the rest of a watch that was given up
                    self._take(seat, mask, name)
        if self._unheard or not emptied:
            return True
        self._moved_away.clear()
        self._moved_here.clear()
        return False

    def _empty_the_kernels_queue(self) -> bool:
        """Whether it is empty now. It overflows in a burst that takes longer to handle than to write; ours does not."""
        fd = self._inotify.fileno()
        while len(self._unheard) < _MAX_UNHEARD:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return True
            self._unheard.append(data)
            if len(data) <= _READ_BYTES - LARGEST_EVENT_BYTES:
                return True  # there was room for more
        return False

    def _take(self, seat: Seat, mask: int, name: str) -> None:
        if seat.role is Role.MAIL or seat.role is Role.RECEIPTS:
            self._take_file(seat, mask, name)
        elif mask & ENDED or (seat.role is Role.ROOT and name in self._top_names):
            self._check_tops()
        elif seat.role is Role.QUEUE and mask & ISDIR and is_agent_name(name, self._reserved):
            self._check_box(name)

    def _take_file(self, seat: Seat, mask: int, name: str) -> None:
        if mask & ENDED:
            self._check_seat(seat)
        elif mask & ISDIR and is_processed(seat, name):
            self._check_box(seat.box)
        elif mask & COMPLETE:
            if self._unclosed:
                self._settled(seat, name)
            if not (mask & MOVED_HERE and _passed_over(self._moved_here, seat, name)):
                self._post(seat.hint(name, closed=True))
        elif mask & WENT:
            if self._unclosed:
                self._settled(seat, name)
            if not (mask & MOVED_AWAY and _passed_over(self._moved_away, seat, name)):
                self._post(FileGone(Place(seat.box, seat.folder, name)))
        elif mask & CREATED:
            self._take_created(seat, name)

    def _take_created(self, seat: Seat, name: str) -> None:
        try:
            found = os.lstat(f"{seat.path}/{name}")
        except OSError:
            return  # gone again, and the event that says so is on its way
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            self._unclosed[seat.hint(name, closed=False)] = time.monotonic() + CLOSE_GRACE_S
        else:
            self._post(seat.hint(name, closed=False))

    def _settled(self, seat: Seat, name: str) -> None:
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
        self._moved_away.clear()
        self._moved_here.clear()
        self._post(HintsLost())
        self._check_tops()
        self._check_boxes()

    # --- directories --------------------------------------------------------------------------------------------------
    def _check_tops(self) -> None:
        self._check_at = math.inf  # unless a directory turns out to be another's while we look
        began_at = time.monotonic()
        for seat in self._tops:
            before = self._top_wds.get(seat.role)
            now = self._top_wds[seat.role] = self._watches.watch(seat, before)
            if now == before:
                continue
            self._watches.unwatch(before)
            if seat.role is Role.QUEUE:
                self._check_boxes()
            elif seat.role is Role.RECEIPTS and now is not None:
                self._listings.append(listing(seat))
        whole = self._top_wds[Role.QUEUE] is not None and self._top_wds[Role.RECEIPTS] is not None
        self._check_at = min(self._check_at, began_at + (HEARTBEAT_S if whole else RETURN_POLL_S))

    def _check_boxes(self) -> None:
        there: list[str] = []
        if self._top_wds.get(Role.QUEUE) is not None:
            with contextlib.suppress(OSError):  # gone since; its own event follows
                names = [entry.name for entry in Path(self._queue).iterdir()]
                there = [name for name in names if is_agent_name(name, self._reserved)]
        for box in {**self._boxes, **dict.fromkeys(there)}:
            self._check_box(box)

    def _next_few(self) -> list[str]:
        """All of them in turn: of what is mounted over a box, or taken off it again, nobody is told."""
        if not self._round:
            self._round = list(self._boxes)
        few, self._round = self._round[:_BOXES_A_BEAT], self._round[_BOXES_A_BEAT:]
        return few

    def _check_seat(self, seat: Seat) -> None:
        if seat.role is Role.MAIL:
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
        self._watches.shut.discard(box)
        mail = Seat(Role.MAIL, f"{self._queue}/{box}", box)
        processed = Seat(Role.MAIL, f"{mail.path}/{Folder.PROCESSED.value}", box, Folder.PROCESSED)
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
            # After the watch was set: what came before it is found here, what comes after it is told.
            self._listings.extend((listing(mail), listing(processed)))

    def _watch_box(self, mail: Seat, processed: Seat, known: _Box | None) -> _Box | None:
        wd = self._watches.watch(mail, known.wd if known else None)
        if wd is None:
            return None
        return _Box(wd, self._watches.watch(processed, known.processed_wd if known else None))

    def _lose_box(self, box: str, known: _Box, now: _Box | None) -> None:
        kept = (now.wd, now.processed_wd) if now else ()
        for wd in (known.wd, known.processed_wd):
            if wd not in kept:
                self._watches.unwatch(wd)
        del self._boxes[box]
        self._post(BoxGone(box))

    def _robbed_of(self, seat: Seat) -> None:
        if seat.role is Role.MAIL:
            self._robbed.append(seat.box)
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


def _passed_over(own: set[Place], seat: Seat, name: str) -> bool:
    """Whether this is the event of a move of our own."""
    if not own:
        return False
    place = Place(seat.box, seat.folder, name)
    if place not in own:
        return False
    own.remove(place)
    return True


def _say_nothing(_hint: Hint) -> None:
    pass
