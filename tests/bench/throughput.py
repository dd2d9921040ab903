"""Messages per second, from 16 senders through a handler agent to completed; with all flushes, and with none.

ackd's senders are processes that do for each message what ``ackd send`` does once it is started: build it, write it, flush
it, rename it, flush the directory, and only then go on to the next. Completed: archived, and the line is in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ackd.client.sending import Outgoing, queue
from ackd.config.site import Site, find_site
from tests.bench import bare, compiled, contenders, daemon, letters, race
from tests.bench.figures import Figure, Peer, at_least

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.contender import Contender
    from tests.bench.scale import Scale


@dataclass(frozen=True)
class Kind:
    """``name`` of the bench, what ackd.toml says, and what Redis is told, beside which there is no target: no queue with
    a file for each message reaches its batches, in any language (docs/performance.md)."""

    name: str
    durability: str
    appendfsync: str
    peers: tuple[Contender, ...] = ()

    @property
    def flush(self) -> bool:
        return self.durability == "power"


DURABLE = Kind("throughput", "power", "always", tuple(contenders.durable(one_by_one=True)))
CRASH_SAFE = Kind("crash-safe", "process", "everysec")


@dataclass
class _Rates:
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    redis: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)


def measure(kind: Kind, place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure | Peer]:
    rates, redis = _Rates(), contenders.redis(kind.appendfsync)
    for turn in range(scale.repetitions):
        rates.bare.append(_bare(place / f"bare{turn}", scale, flush=kind.flush))
        rates.ours.append(_ackd(place / f"ackd{turn}", scale, kind.durability))
        tell(f"{rates.ours[-1]:.0f}/s, bare {rates.bare[-1]:.0f}/s")
        if not compiled.why_not():
            rates.compiled.append(compiled.throughput(place / f"compiled{turn}", scale, flush=kind.flush))
            tell(f"bare in C {rates.compiled[-1]:.0f}/s")
        redis.measure(partial(redis.throughput, place / f"redis{turn}", scale), rates.redis, tell)
        for peer in kind.peers if turn < scale.peer_repetitions else ():
            values = rates.peers.setdefault(peer.name, [])
            peer.measure(partial(peer.throughput, place / f"peers{turn}" / peer.name, scale), values, tell)
    return _rows(kind, rates, redis, scale)


def _rows(kind: Kind, rates: _Rates, redis: Contender, scale: Scale) -> list[Figure | Peer]:
    word = "durable" if kind.flush else "crash-safe"
    what = f"{word}, {scale.messages:,} messages of 1 KB from {scale.senders} senders"
    flushes = "the same flushes" if kind.flush else "no flushes"
    ours = tuple(rates.ours)
    rows: list[Figure | Peer] = [
        Figure(kind.name, what, "/s", ours, f"bare spool loop, {flushes}", tuple(rates.bare), at_least(0.5))
    ]
    if rates.compiled:
        rows.append(Figure(kind.name, what, "/s", ours, f"bare spool loop in C, {flushes}", tuple(rates.compiled)))
    if rates.redis:
        name = f"{redis.name}, {kind.appendfsync}"
        rows.append(Figure(kind.name, what, "/s", ours, name, tuple(rates.redis)))
    rows.append(redis.row(kind.name, "/s", rates.redis))
    rows += [peer.row(kind.name, "/s", rates.peers[peer.name]) for peer in kind.peers]
    return rows


def _bare(place: Path, scale: Scale, *, flush: bool) -> float:
    (place / "queue").mkdir(parents=True)
    senders = [
        bare.spool_sender(place, race.share(scale.messages, scale.senders, number), flush=flush)
        for number in range(scale.senders)
    ]
    return scale.messages / race.seconds(senders, bare.spool_consumer(place, scale.messages, flush=flush))


def _ackd(place: Path, scale: Scale, durability: str) -> float:
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
