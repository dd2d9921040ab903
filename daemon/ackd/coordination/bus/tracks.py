"""Finds message buses: directories with a queue.jsonl, locks.json, worker-status.json, events/ and board/.

A track is a directory that holds ``.message-bus/``, or is one. Beside those that the config's globs name there is the
team's own, ``<root>/bus``, for teams that brought none. Quick to import. Reading directories never fails: one that
cannot be read holds no track.
"""

import glob
import os
from collections.abc import Iterable
from typing import Final

from ackd.coordination.bus.rules.layout import Track

BUS_DIR: Final = ".message-bus"


def house_track(root: str | os.PathLike[str]) -> Track:
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
    house = house_track(root)
    return [*([house] if os.path.isdir(house.bus) else []), *found.values()]  # noqa: PTH112


def track_at(path: str) -> Track | None:
    """Return the bus in this directory, or the one that the directory itself is; None if there is neither."""
    bus = path if os.path.basename(path) == BUS_DIR else f"{path}/{BUS_DIR}"  # noqa: PTH119
    if not os.path.isdir(bus):  # noqa: PTH112
        return None
    return Track(bus, os.path.basename(os.path.dirname(bus)) or "/")  # noqa: PTH119, PTH120


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
