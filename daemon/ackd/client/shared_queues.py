"""Groups and pools as they stand: who is in them, what waits in their own queues, and what members have of a pool.

The queue of a group is empty but for a moment: what comes there is handed on. What waits in a pool's queue waits for a
member that is free; what a member took lies in that member's ``processed/`` and still names the pool in To. All of it
is counted in the directories, with and without a daemon.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.core.errors import BadMessage
from ackd.core.message_files import is_message_file
from ackd.core.names import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ackd.config.site import Site


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group. ``queued``: files in its own queue that are not handed on yet."""

    name: str
    members: tuple[str, ...]
    queued: int

    def as_data(self) -> dict[str, Any]:
        return {"members": list(self.members), "queued": self.queued}


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool. ``queued``: messages that wait for a member; ``at_work``: what members have of it, by member."""

    name: str
    members: tuple[str, ...]
    queued: int
    at_work: Mapping[str, int]

    @property
    def in_hand(self) -> int:
        return sum(self.at_work.values())

    def as_data(self) -> dict[str, Any]:
        return {
            "members": list(self.members),
            "queued": self.queued,
            "in_hand": self.in_hand,
            "at_work": dict(self.at_work),
        }


def groups(site: Site, boxes: Mapping[str, Sequence[str]]) -> dict[str, GroupStatus]:
    """``boxes``: the queue directories of each agent, group and pool, by identity. Fails with OSError."""
    return {
        name: GroupStatus(name, members, len(_all_mail(site, boxes, name))) for name, members in site.groups.items()
    }


def pools(site: Site, boxes: Mapping[str, Sequence[str]]) -> dict[str, PoolStatus]:
    """As ``groups``."""
    if not site.pools:
        return {}
    members = dict.fromkeys(name for named in site.pools.values() for name in named)
    held = {name: list(_pools_of_mail_in_hand(site, boxes, name)) for name in members}
    return {
        name: PoolStatus(
            name,
            named,
            len(_all_mail(site, boxes, name)),
            {one: number for one in named if (number := held[one].count(name))},
        )
        for name, named in site.pools.items()
    }


def pool_in(site: Site, to: str) -> str | None:
    """The pool that a message's To names; None if it names none."""
    if not site.pools:
        return None
    names = (site.pool_called(name.strip()) for name in to.split(","))
    return next((name for name in names if name is not None), None)


def _pools_of_mail_in_hand(site: Site, boxes: Mapping[str, Sequence[str]], member: str) -> Iterator[str]:
    """The pool of each message that the member has in hand and took from one."""
    from ackd.formats import ignite
    from ackd.storage.message_lookup import WHOLE_HEAD_BYTES, read_head

    for box in boxes.get(identity(member), ()):
        for path in _mail(f"{site.queue}/{box}/processed"):
            with contextlib.suppress(FileNotFoundError, BadMessage):  # gone by now, or no message
                head = read_head(path, WHOLE_HEAD_BYTES) or b""
                fields = {name.lower(): value for name, value in ignite.headers(head)}
                if (pool := pool_in(site, fields.get("to", ""))) is not None:
                    yield pool


def _all_mail(site: Site, boxes: Mapping[str, Sequence[str]], name: str) -> list[Path]:
    found = boxes.get(identity(name), ())
    return [path for box in found for place in ("", "/processed") for path in _mail(f"{site.queue}/{box}{place}")]


def _mail(directory: str) -> list[Path]:
    try:
        return [Path(directory, name) for name in os.listdir(directory) if is_message_file(name)]  # noqa: PTH208
    except FileNotFoundError:
        return []
