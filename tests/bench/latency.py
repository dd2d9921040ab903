"""How long until a handler agent is called, at 50 messages a second.

From the rename that makes a file visible, against a bare loop: that is ackd's own part. And from the beginning of the
sending, flushes included, beside other queues that do the same.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from ackd.client.sending import Outgoing, queue
from ackd.config.site import find_site
from tests.bench import bare, daemon, letters, pace, race
from tests.bench.contenders import durable
from tests.bench.figures import Figure, Peer, at_most, percentile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.contender import Contender
    from tests.bench.scale import Scale

PATIENCE_S = 60.0


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure | Peer]:
    return [*_against_the_limit(place, scale, tell), *_beside_peers(place, scale, tell)]


# --- from the rename --------------------------------------------------------------------------------------------------
def _against_the_limit(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    ours: list[list[float]] = []
    limits: list[list[float]] = []
    for turn in range(scale.repetitions):
        limits.append(_bare(place / f"bare{turn}", scale.latency_messages))
        ours.append(_renamed_in(place / f"ackd{turn}", scale.latency_messages))
        tell(f"p50 {percentile(ours[-1], 50):.3f} ms, bare {percentile(limits[-1], 50):.3f} ms")
    return [
        Figure(
            "latency",
            f"renamed in → handler called, {pace.PER_S}/s, p{percent}",
            "ms",
            tuple(percentile(one, percent) for one in ours),
            "asyncio + inotify + open + read",
            tuple(percentile(one, percent) for one in limits),
            at_most(factor),
        )
        for percent, factor in ((50, 2.5), (99, 5))
    ]


def _renamed_in(place: Path, count: int) -> list[float]:
    team = daemon.make_team(place, [letters.AGENT], handler="note")
    with daemon.serving(team):
        sent = rename_in(team.root / "queue" / letters.AGENT, place, count)
        daemon.Completions(team).wait(count + pace.WARM_UP, PATIENCE_S)
    return pace.waits_ms(sent, by_number(daemon.notes_of(team)))


def _bare(place: Path, count: int) -> list[float]:
    box, notes = place / "queue", place / "notes"
    box.mkdir(parents=True)
    with race.background(bare.listener(box, lambda name, _: pace.note(notes, name))):
        sent = rename_in(box, place, count)
        give_up_at = time.monotonic() + PATIENCE_S
        while len(pace.read(notes)) < len(sent):
            if time.monotonic() > give_up_at:
                raise race.BenchFailed(f"the bare loop was told of {len(pace.read(notes))} of {len(sent)} files")
            time.sleep(0.05)
    return pace.waits_ms(sent, by_number(notes))


def rename_in(box: Path, place: Path, count: int) -> dict[str, int]:
    """By a process of its own. The files are written beforehand: the time of each is that of its rename."""
    stage, notes = place / "stage", place / "sent"

    def opened() -> Callable[[int], None]:
        stage.mkdir()
        names = [letters.name(number) for number in range(count + pace.WARM_UP)]
        for number, name in enumerate(names):
            (stage / name).write_bytes(letters.letter(number))
        return lambda number: os.rename(f"{stage}/{names[number]}", f"{box}/{names[number]}")  # noqa: PTH104

    race.seconds([], partial(pace.paced, notes, count, opened))
    return pace.read(notes)


def by_number(notes: Path) -> dict[str, int]:
    return {letters.number_in(key): at for key, at in pace.read(notes).items()}


# --- from the beginning of the sending --------------------------------------------------------------------------------
def _beside_peers(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure | Peer]:
    count = scale.peer_latency_messages
    peers = durable(one_by_one=True)
    ours: list[float] = []
    found: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for turn in range(scale.peer_repetitions):
        ours.append(percentile(_sent(place / f"sent{turn}", count), 50))
        tell(f"ackd {ours[-1]:.2f} ms, sending included")
        for peer in peers:
            peer.measure(partial(_peer, peer, place / f"{peer.module}{turn}", count), found[peer.name], tell)
    figure = Figure("latency", f"sent and flushed → handler called, {pace.PER_S}/s, p50", "ms", tuple(ours))
    return [figure, *(peer.row("latency", "ms", found[peer.name]) for peer in peers)]


def _peer(peer: Contender, place: Path, count: int) -> float:
    return percentile(peer.latency(place, count), 50)


def _sent(place: Path, count: int) -> list[float]:
    team = daemon.make_team(place, [letters.AGENT], handler="note")
    ids = place / "ids"
    with daemon.serving(team):
        site = find_site(config=place / "ackd.toml", env={})
        outgoing = Outgoing("user", (letters.AGENT,), (), "message", "normal", letters.BODY)

        def send(number: int) -> None:
            message_id = queue(site, outgoing).message_id
            with ids.open("a") as file:
                file.write(f"{message_id} {number}\n")

        race.seconds([], partial(pace.paced, place / "sent", count, lambda: send))
        daemon.Completions(team).wait(count + pace.WARM_UP, PATIENCE_S)
    called = pace.read(daemon.notes_of(team))
    by_number = {str(number): called[message_id] for message_id, number in pace.read(ids).items()}
    return pace.waits_ms(pace.read(place / "sent"), by_number)
