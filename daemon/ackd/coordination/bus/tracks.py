"""Finds message buses, and chooses the one that a caller means.

A message bus is a directory with a queue.jsonl, locks.json, worker-status.json, events/ and board/.

A track is a directory that holds ``.message-bus/``, or is one. Beside those that the config's globs name there is the
team's own, ``<root>/bus``, for teams that brought none. Quick to import. Reading directories never fails: one that
cannot be read holds no track. Choosing fails with ``NoTrack`` and ``WhichTrack``, and with OSError where the team's own
bus cannot be made.
"""

import glob
import os
from collections.abc import Iterable
from typing import Final

from ackd.config.site import Site
from ackd.coordination.bus.rules.layout import Track
from ackd.core.errors import BadConfig, NoTrack, Problem, WhichTrack

BUS_DIR: Final = ".message-bus"


def own_track(root: str | os.PathLike[str]) -> Track:
    """The team's own bus, which is made when somebody needs a bus and has none. It need not exist."""
    return Track(f"{os.fspath(root)}/bus", "house")


def find_tracks(base: str | os.PathLike[str], patterns: Iterable[str], root: str | os.PathLike[str]) -> list[Track]:
    """The tracks that exist now, each once, in the order of their paths; the team's own first."""
    found: dict[str, Track] = {}
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(base, pattern))):  # noqa: PTH118, PTH207 - pathlib is slow to import
            track = track_at(path.rstrip("/"))
            if track is not None:
                found.setdefault(os.path.realpath(track.bus), track)
    own = own_track(root)
    return [*([own] if os.path.isdir(own.bus) else []), *found.values()]  # noqa: PTH112


def tracks_of(site: Site) -> list[Track]:
    """The tracks of a team that exist now. ``BadConfig`` if ``tracks`` of its table [bus] is not a list."""
    patterns = site.tables.get("bus", {}).get("tracks", [])
    if not isinstance(patterns, list):
        raise BadConfig(str(site.config_path), (Problem("tracks", "must be a list"),))
    return find_tracks(site.base, map(str, patterns), site.root)


def seconds_of(site: Site, key: str, default: float) -> float:
    """A time of the table [bus], or the default for a bad value, of which `ackd check` and `ackd run` complain."""
    value = site.tables.get("bus", {}).get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else default


def track_at(path: str) -> Track | None:
    """Return the bus in this directory, or the one that the directory itself is; None if there is neither."""
    bus = path if os.path.basename(path) == BUS_DIR else f"{path}/{BUS_DIR}"  # noqa: PTH119
    if not os.path.isdir(bus):  # noqa: PTH112
        return None
    return Track(bus, os.path.basename(os.path.dirname(bus)) or "/")  # noqa: PTH119, PTH120


# --- choosing ---------------------------------------------------------------------------------------------------------
def choose_track(site: Site, wanted: str | Track | None, *, make: bool, listing: bool = False) -> Track:
    """Return the bus that the caller means: the one that is named (by name or path), else ACKD_TRACK's, else the only
    one there is, else the team's own. A ``Track`` was chosen already.

    ``make``: the caller writes, so the team's own bus is made if it is meant and does not exist. ``listing``: if there
    is no bus at all, the team's own is returned although it does not exist, because an empty list is an answer.
    """
    if isinstance(wanted, Track):
        return wanted
    found = tracks_of(site)
    wanted = wanted or os.environ.get("ACKD_TRACK")
    if wanted:
        return _named(site, wanted, found, make=make)
    own = own_track(site.root)
    others = [track for track in found if track != own]
    if len(others) > 1:
        raise WhichTrack(None, _names(others))
    if listing and not found:
        return own
    return others[0] if others else _own(site, make=make)


def _named(site: Site, wanted: str, found: list[Track], *, make: bool) -> Track:
    fitting = [track for track in found if track.name == wanted]
    if len(fitting) > 1:
        raise WhichTrack(wanted, tuple(track.bus for track in fitting))
    if fitting:
        return fitting[0]
    at = track_at(os.path.abspath(wanted))  # noqa: PTH100 - pathlib is slow to import
    meant = os.path.realpath(wanted if at is None else at.bus)
    known = next((track for track in found if os.path.realpath(track.bus) == meant), at)
    if known is not None:
        return known
    own = own_track(site.root)
    if wanted == own.name:
        return _own(site, make=make)
    raise NoTrack(wanted, _names(found), own.bus)


def _own(site: Site, *, make: bool) -> Track:
    own = own_track(site.root)
    if os.path.isdir(own.bus):  # noqa: PTH112
        return own
    if not make:
        raise NoTrack(None, (), own.bus)
    from ackd.coordination.bus.files import make_track  # noqa: PLC0415 - for the first writer only

    make_track(own)
    return own


def _names(tracks: list[Track]) -> tuple[str, ...]:
    names = [track.name for track in tracks]
    return tuple(track.name if names.count(track.name) == 1 else track.bus for track in tracks)


def watch_places(base: str | os.PathLike[str], patterns: Iterable[str], root: str | os.PathLike[str]) -> set[str]:
    """The directories in which a new track would show itself: every level of every pattern, as far as it exists."""
    places = {os.fspath(root)}
    for pattern in patterns:
        whole = os.path.join(base, pattern.rstrip("/"))  # noqa: PTH118
        while (parent := os.path.dirname(whole)) != whole:  # noqa: PTH120
            places.update(path for path in glob.glob(whole) if os.path.isdir(path))  # noqa: PTH112, PTH207
            if not glob.has_magic(whole) and len(parent) < len(os.fspath(base)):
                break
            whole = parent
    return places
