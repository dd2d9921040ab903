"""The use cases of message buses, for programs and every front end: make a bus, post to it, read it, wait, see how it
stands.

Everything works on the files, with and without a daemon. Each call takes the bus (``track``) by its name or path; None
stands for ACKD_TRACK's, else the only one there is, else the team's own. Quick to import, because hooks post all the
time.

Fails with ``NoTrack``, ``WhichTrack``, ``BadBusLine`` and OSError.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.bus import Bus, check, fits
from ackd.config.site import Site
from ackd.coordination.bus.rules.defaults import HEARTBEAT_TIMEOUT_S
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.tracks import choose_track, own_track, seconds_of, tracks_of
from ackd.coordination.bus.wire import TYPES
from ackd.core.errors import BadBusLine

if TYPE_CHECKING:
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.coordination.bus.standing import BusStanding

_POLL_S: Final = 0.1


class MadeBus(NamedTuple):
    """``made``: the names of what was missing and has been made; "" is the directory itself."""

    track: Track
    made: tuple[str, ...]


class Posted(NamedTuple):
    """A message that stands on a bus."""

    message_id: str
    track: Track


class BusDoor:
    """The message buses of one team."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def tracks(self) -> list[Track]:
        """List the buses that exist, the team's own first."""
        return tracks_of(self._site)

    def track(self, wanted: str | Track | None = None, *, make: bool = False) -> Track:
        """Return the bus that is meant; with ``make`` the team's own is made if it is meant and does not exist."""
        return choose_track(self._site, wanted, make=make)

    def place(self, path: str | None = None) -> Track:
        """Return the bus that ``make`` would make. It need not exist."""
        return Bus(path if path is not None else own_track(self._site.root)).track

    def make(self, path: str | None = None) -> MadeBus:
        """Make a bus, or what is missing of one: ``path``/.message-bus, or the team's own. Existing files stay."""
        bus = Bus(self.place(path))
        return MadeBus(bus.track, tuple(bus.make()))

    def post(
        self,
        type_: str,
        source: str,
        payload: Mapping[str, object] | None = None,
        *,
        track: str | Track | None = None,
    ) -> Posted:
        """Post a message, and raise its events. One that must not stand on a bus causes none to be made."""
        said = dict(payload or {})
        check_message(type_, source, said)
        bus = Bus(self.track(track, make=True))
        return Posted(bus.post(type_, source, said), bus.track)

    def read(
        self,
        *,
        since: float | None = None,
        offset: int | None = None,
        type_: str | None = None,
        follow: bool = False,
        track: str | Track | None = None,
    ) -> "Iterator[BusLine | BadBusLine]":
        """Yield the lines so far and, with ``follow``, those that come, for ever, also if the file is cut or replaced.

        ``since`` is in wall-clock seconds, ``offset`` the byte to begin at. Lines that cannot be read are yielded as
        ``BadBusLine``, unless a time or a type is given.
        """
        if type_ is not None:
            check_type(type_)
        return self._lines(Bus(self.track(track)), since, offset, type_, follow=follow)

    def _lines(
        self, bus: Bus, since: float | None, offset: int | None, type_: str | None, *, follow: bool
    ) -> "Iterator[BusLine | BadBusLine]":
        from ackd.coordination.bus.files.tailing import Position, position_at  # noqa: PLC0415

        position = Position() if not offset else position_at(bus.track.queue, offset)
        while True:
            lines, position, more = bus.read_on(position)
            yield from (line for line in lines if fits(line, since, type_))
            if not more and not follow:
                return
            if not more:
                time.sleep(_POLL_S)

    def wait(
        self, pattern: str, timeout_s: float = 300.0, *, new: bool = False, track: str | Track | None = None
    ) -> bool:
        """Wait for an event of that name (a glob); True if it has happened, or happens in time. ``new``: from now on
        only."""
        return Bus(self.track(track)).wait(pattern, timeout_s, new=new)

    def status(self, *, stale_after_s: float | None = None, track: str | Track | None = None) -> "BusStanding":
        """Tell how a bus stands. ``stale_after_s`` None: heartbeat_timeout_s of [bus]."""
        from ackd.coordination.bus.standing import standing  # noqa: PLC0415

        usual_s = seconds_of(self._site, "heartbeat_timeout_s", HEARTBEAT_TIMEOUT_S)
        limit_s = usual_s if stale_after_s is None else stale_after_s
        return standing(Bus(self.track(track)), time.time(), limit_s)


def check_message(type_: str, source: str, payload: dict[str, object]) -> None:
    """Raise ``BadBusLine`` for a message that must not stand on a bus."""
    check_type(type_)
    check(type_, source, payload)


def check_type(type_: str) -> None:
    """Raise ``BadBusLine`` for a type that does not exist, with the one that is spelled most like it."""
    if type_ not in TYPES:
        import difflib  # noqa: PLC0415 - for a refusal only

        near = difflib.get_close_matches(type_, TYPES, n=1)
        hint = f": did you mean {near[0]}?" if near else f"; known are {', '.join(TYPES)}"
        raise BadBusLine("unknown_type", f"unknown type {type_!r}{hint}")
