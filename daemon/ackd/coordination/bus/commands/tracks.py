"""Chooses the message bus that a command means, in the same way for `ackd bus`, `ackd lock` and `ackd board`.

The choice is the bus that is named (``--track``, a name or a path), else ACKD_TRACK's, else the only one there is, else
the team's own, which a command that writes makes. Quick to import. Ends with 66 where there is none, with usage where
there are several, and 73 where the team's own cannot be made.
"""

import os
from typing import Final

from ackd.cli.command_line import argument
from ackd.cli.errors import NOT_FOUND, Failure, WrongUsage, creating
from ackd.config.site import Site
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.tracks import find_tracks, house_track, track_at

TRACK: Final = argument(
    "--track",
    metavar="TRACK",
    help="The message bus, by name or path (default: ACKD_TRACK, or the only one there is).",
)


def choose_track(site: Site, wanted: str | None, *, make: bool, listing: bool = False) -> Track:
    """Return the bus that the command means.

    ``make``: the command writes, so the team's own bus is made if it is meant and does not exist. ``listing``: if there
    is no bus at all, the team's own is returned although it does not exist, because an empty list is an answer."""
    found = find_tracks(site.base, site.tracks, site.root)
    wanted = wanted or os.environ.get("ACKD_TRACK")
    if wanted:
        return _named(site, wanted, found, make=make)
    house = house_track(site.root)
    others = [track for track in found if track != house]
    if len(others) > 1:
        raise WrongUsage(f"which track? Say --track, or set ACKD_TRACK: {_names(others)}")
    if listing and not found:
        return house
    return others[0] if others else _house(site, make=make)


def _named(site: Site, wanted: str, found: list[Track], *, make: bool) -> Track:
    fitting = [track for track in found if track.name == wanted]
    if len(fitting) > 1:
        raise WrongUsage(f"several tracks are called {wanted!r}: {', '.join(track.bus for track in fitting)}")
    if fitting:
        return fitting[0]
    at = track_at(os.path.abspath(wanted))  # noqa: PTH100 - pathlib is slow to import
    meant = os.path.realpath(wanted if at is None else at.bus)
    known = next((track for track in found if os.path.realpath(track.bus) == meant), at)
    if known is not None:
        return known
    if wanted == house_track(site.root).name:
        return _house(site, make=make)
    there = f"; there are: {_names(found)}" if found else ""
    raise Failure(NOT_FOUND, f"no track {wanted!r}{there}")


def _house(site: Site, *, make: bool) -> Track:
    house = house_track(site.root)
    if os.path.isdir(house.bus):  # noqa: PTH112
        return house
    if not make:
        raise Failure(NOT_FOUND, f"no message bus here: `ackd bus init` makes one ({house.bus})")
    from ackd.coordination.bus.files import make_track

    with creating(house.bus):
        make_track(house)
    return house


def _names(tracks: list[Track]) -> str:
    names = [track.name for track in tracks]
    return ", ".join(track.name if names.count(track.name) == 1 else track.bus for track in tracks)
