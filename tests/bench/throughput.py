"""Messages per second, from 16 senders through a handler agent to completed; with all flushes, and with none.

ackd's senders are processes that do for each message what ``ackd send`` does once it is started: build it, write it, flush
it, rename it, flush the directory, and only then go on to the next. Completed: archived, and the line is in the log.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ackd.frontends.cli.send import Outgoing, queue
from ackd.site import Site, find_site
from tests.bench import bare, daemon, letters, race
from tests.bench.figures import Figure, at_least

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

#: The bench's name, what ackd.toml says, and what the table calls it.
DURABLE = ("throughput", "power", "durable")
CRASH_SAFE = ("crash-safe", "process", "crash-safe")


def measure(kind: tuple[str, str, str], place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    bench, durability, word = kind
    ours: list[float] = []
    limits: list[float] = []
    for turn in range(scale.repetitions):
        limits.append(bare_spool(place / f"bare{turn}", scale, flush=durability == "power"))
        ours.append(ackd(place / f"ackd{turn}", scale, durability))
        tell(f"{ours[-1]:.0f}/s, bare {limits[-1]:.0f}/s")
    name = f"bare spool loop, {'the same' if durability == 'power' else 'no'} flushes"
    what = f"{word}, {scale.messages} messages of 1 KB from {scale.senders} senders"
    return [Figure(bench, what, "/s", tuple(ours), name, tuple(limits), at_least(0.5))]


def bare_spool(place: Path, scale: Scale, *, flush: bool) -> float:
    (place / "queue").mkdir(parents=True)
    senders = [
        bare.spool_sender(place, race.share(scale.messages, scale.senders, number), flush=flush)
        for number in range(scale.senders)
    ]
    return scale.messages / race.seconds(senders, bare.spool_consumer(place, scale.messages, flush=flush))


def ackd(place: Path, scale: Scale, durability: str) -> float:
    team = daemon.make_team(place, [letters.AGENT], durability=durability)
    with daemon.serving(team):
        site = find_site(config=place / "ackd.toml", env={})
        shares = (race.share(scale.messages, scale.senders, number) for number in range(scale.senders))
        senders = [partial(_sender, site, len(share)) for share in shares]

        def completed(ready: Callable[[], object]) -> None:
            completions = daemon.Completions(team)
            ready()
            completions.wait(scale.messages, race.PATIENCE_S)

        return scale.messages / race.seconds(senders, completed)


def _sender(site: Site, count: int, ready: Callable[[], object]) -> None:
    outgoing = Outgoing("user", (letters.AGENT,), (), "message", "normal", letters.BODY)
    ready()
    for _ in range(count):
        queue(site, outgoing)
