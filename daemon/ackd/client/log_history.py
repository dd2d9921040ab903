"""The search through a team's session logs that all use cases share (storage/log_index).

A front end that has somebody to tell calls ``announce``: the first search through a long history reads all of it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.storage.log_index import LogSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.site import Site

_announced: list[Callable[[int], None]] = []


def search(site: Site) -> LogSearch:
    return LogSearch(site.logs, site.state, _announced[-1] if _announced else None)


def announce(building: Callable[[int], None]) -> None:
    """From now on call this with the number of bytes that are left to read, while the index of the logs is built."""
    _announced.append(building)
