"""Who is measured beside ackd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.peers import huey_files, kombu_files, lite_queue, persist_queue, redis_streams

if TYPE_CHECKING:
    from tests.bench.contender import Contender

PIPELINE = 64


def redis(appendfsync: str) -> Contender:
    """The one that there are targets for."""
    return redis_streams.contender(appendfsync, PIPELINE)


def durable(*, one_by_one: bool) -> list[Contender]:
    """Each in its safest setting. ``one_by_one``: Redis's sender waits for every answer, as everybody else's does."""
    return [
        *([redis_streams.contender("always", 1)] if one_by_one else []),
        lite_queue.contender(),
        persist_queue.contender(),
        huey_files.contender(),
        kombu_files.contender(),
    ]
