"""Which watch stands for which seat.

Owns the numbers that the kernel gave. A directory's path is watched again whenever anything is said about it, and the
kernel answers with the number of the old watch if and only if the same directory still lies there. So moved away and
back, deleted and made again, replaced, swapped, an event that comes late, and the losses of an overflow are one case.
Inode numbers could not tell (ext4 gives a freed one to the next directory).

Refuses to know what is in a directory. Fails with ``CannotWatch`` at the user's limit; a directory that may not be read
keeps the number it had, and a box among them is remembered in ``shut``.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ackd.adapters.inotify_watch.limits import AT_THE_LIMIT, CannotWatch, watch_limit
from ackd.adapters.inotify_watch.seats import MASKS, NOTHING_THERE, Role, Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from inotify_simple import INotify


class Watches:
    """``on_robbed`` is told of a seat whose directory turned up in another place."""

    def __init__(self, inotify: INotify, on_robbed: Callable[[Seat], None]) -> None:
        self.shut: set[str] = set()  # boxes that may not be read
        self._inotify = inotify
        self._on_robbed = on_robbed
        self._seats: dict[int, Seat] = {}

    def seat(self, wd: int) -> Seat | None:
        """None for the rest of a watch that was given up."""
        return self._seats.get(wd)

    def watch(self, seat: Seat, known: int | None) -> int | None:
        """The number of the watch on what lies at the seat's path now; None if that is no directory."""
        try:
            wd: int = self._inotify.add_watch(seat.path, MASKS[seat.role])
            if self._seats.get(wd, seat) != seat:
                # Moved here before the event that took it from the other place was read. A fresh number, so that the
                # events still on their way for the other place are not taken for this one's.
                self._rob(wd)
                wd = self._inotify.add_watch(seat.path, MASKS[seat.role])
        except OSError as error:
            return self._cannot_watch(seat, known, error)
        self._seats[wd] = seat
        return wd

    def unwatch(self, wd: int | None) -> None:
        if wd is None:
            return
        self._seats.pop(wd, None)
        with contextlib.suppress(OSError):  # EINVAL: its directory was deleted, and the watch with it
            self._inotify.rm_watch(wd)

    def _cannot_watch(self, seat: Seat, known: int | None, error: OSError) -> int | None:
        if error.errno in NOTHING_THERE:
            return None
        if error.errno in AT_THE_LIMIT:
            raise CannotWatch(watch_limit()) from error
        if seat.role is Role.MAIL:
            self.shut.add(seat.box)
        return known if known in self._seats else None  # it cannot be seen that anything changed

    def _rob(self, wd: int) -> None:
        seat = self._seats[wd]
        self.unwatch(wd)
        self._on_robbed(seat)
