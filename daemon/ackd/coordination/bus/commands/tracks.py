"""The option ``--track`` of `ackd bus`, `ackd lock` and `ackd board`, and what it means for the command line.

coordination/bus/tracks chooses the bus. Quick to import. Exit 66 where there is none, 2 where there are several, 73
where the team's own cannot be made.
"""

from typing import Final

from ackd.cli.command_line import argument
from ackd.cli.errors import creating
from ackd.config.site import Site
from ackd.coordination.bus import tracks
from ackd.coordination.bus.rules.layout import Track

TRACK: Final = argument(
    "--track",
    metavar="TRACK",
    help="The message bus, by name or path (default: ACKD_TRACK, or the only one there is).",
)


def choose_track(site: Site, wanted: str | None, *, make: bool, listing: bool = False) -> Track:
    with creating(tracks.own_track(site.root).bus):
        return tracks.choose_track(site, wanted, make=make, listing=listing)
