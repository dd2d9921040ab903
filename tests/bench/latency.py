"""From the rename that makes a file visible to the call of its handler agent, at 50 messages a second."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tests.bench import bare, daemon, letters, race
from tests.bench.figures import Figure, at_most, percentile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

PER_SECOND = 50
#: Messages sent first and not counted: the first of anything pays for imports and cold caches.
WARM_UP = 20
LIMIT = "asyncio + inotify + open + read"


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    ours: list[list[float]] = []
    limits: list[list[float]] = []
    for turn in range(scale.repetitions):
        limits.append(_bare(place / f"bare{turn}", scale.latency_messages))
        ours.append(_ackd(place / f"ackd{turn}", scale.latency_messages))
        tell(f"p50 {percentile(ours[-1], 50):.3f} ms, bare {percentile(limits[-1], 50):.3f} ms")
    return [
        Figure(
            "latency",
            f"renamed in → handler called, {PER_SECOND}/s, p{percent}",
            "ms",
            tuple(percentile(one, percent) for one in ours),
            LIMIT,
            tuple(percentile(one, percent) for one in limits),
            at_most(factor),
        )
        for percent, factor in ((50, 2.5), (99, 5))
    ]


def _ackd(place: Path, count: int) -> list[float]:
    team = daemon.make_team(place, [letters.AGENT], handler="note")
    queue = team.root / "queue" / letters.AGENT
    with daemon.serving(team):
        sent = _send(queue, place / "sent", count)
        daemon.Completions(team).wait(count + WARM_UP, 60)
        called = daemon.read_notes(team)
    return _waits(sent, {number: called[letters.message_id(number)] for number in sent})


def _bare(place: Path, count: int) -> list[float]:
    queue, notes = place / "queue", place / "notes"
    queue.mkdir(parents=True)

    def called(name: str, data: bytes) -> None:
        at = time.monotonic_ns()
        with notes.open("ab") as file:
            file.write(b"%s %d\n" % (name.encode(), at))

    with race.background(bare.listener(queue, called)):
        sent = _send(queue, place / "sent", count)
        give_up_at = time.monotonic() + 60
        while len(lines := notes.read_text().splitlines()) < len(sent):
            if time.monotonic() > give_up_at:
                raise race.BenchFailed(f"the bare loop saw {len(lines)} of {len(sent)} files")
            time.sleep(0.05)
    by_name = {name: int(at) for name, at in (line.split() for line in lines)}
    return _waits(sent, {number: by_name[letters.name(number)] for number in sent})


def _waits(sent: dict[int, int], called: dict[int, int]) -> list[float]:
    """Milliseconds, without the warm-up."""
    return [(called[number] - at) / 1e6 for number, at in sent.items() if number >= WARM_UP]


def _send(queue: Path, notes: Path, count: int) -> dict[int, int]:
    """In a process of its own, one every 20 ms; when each was renamed, by the monotonic clock."""
    total = count + WARM_UP

    def work(ready: Callable[[], object]) -> None:
        stage = queue.parent / f".stage-{queue.name}"
        stage.mkdir()
        data = [letters.letter(number) for number in range(total)]
        renamed = []
        ready()
        start = time.monotonic()
        for number in range(total):
            temp = stage / letters.name(number)
            temp.write_bytes(data[number])
            time.sleep(max(0.0, start + number / PER_SECOND - time.monotonic()))
            renamed.append(time.monotonic_ns())
            os.rename(temp, queue / temp.name)  # noqa: PTH104 - the quickest way from the clock to the call
        notes.write_text("".join(f"{number} {at}\n" for number, at in enumerate(renamed)))

    race.seconds([], work)
    return {int(number): int(at) for number, at in (line.split() for line in notes.read_text().splitlines())}
