"""A queue that several agents share: what it costs beside queues of their own, and whether the number of members matters.

The agents are handlers that take one message at a time and return at once, so that nothing but the daemon's own work is
measured. Each run drains a backlog, from the log's first line to the last completion.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tests.bench import daemon, letters
from tests.bench.figures import Figure, at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

PATIENCE_S = 300.0
POOL = "crew"
#: Members of the pool that stands beside as many agents with queues of their own.
BESIDE = 20
SIZES = (2, 20, 200)


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    direct: list[float] = []
    took_us: dict[int, list[float]] = {size: [] for size in SIZES}
    for turn in range(scale.pool_repetitions):
        for size in SIZES:
            rate = _drained_per_s(place / f"{size}-{turn}", size, scale.pool_messages, pooled=True)
            took_us[size].append(1e6 / rate)
            tell(f"a pool of {size}: {rate:.0f}/s")
        rate = _drained_per_s(place / f"direct-{turn}", BESIDE, scale.pool_messages, pooled=False)
        direct.append(rate)
        tell(f"{BESIDE} queues of their own: {rate:.0f}/s")
    what = f"{scale.pool_messages:,} messages to a pool of"
    ours = tuple(1e6 / each for each in took_us[BESIDE])
    beside = f"queues of their own for {BESIDE} agents"
    return [
        Figure("pools", f"{what} {BESIDE}", "/s", ours, beside, tuple(direct), at_least(0.8)),
        *(
            Figure(
                "pools", f"{what} {size}, by the message", "µs",
                tuple(took_us[size]), f"with {SIZES[0]}", tuple(took_us[SIZES[0]]), at_most(1.5),
            )
            for size in SIZES[1:]
        ),
    ]  # fmt: skip


def _drained_per_s(place: Path, size: int, count: int, *, pooled: bool) -> float:
    names = [f"worker_{number}" for number in range(size)]
    table = f"[pools.{POOL}]\nmembers = {json.dumps(names)}\n" if pooled else ""
    team = daemon.make_team(place, names, keys="max_in_flight = 1\n", more=table)
    boxes = [POOL] if pooled else names
    for box in boxes:
        (team.root / "queue" / box).mkdir(parents=True)
    for number in range(count):
        box = boxes[number % len(boxes)]
        (team.root / "queue" / box / letters.name(number)).write_bytes(letters.letter(number, box))
    with daemon.serving(team, ready=False):
        completions = daemon.Completions(team)
        began_at = completions.wait_for_start(PATIENCE_S)
        took_s = completions.wait(count, PATIENCE_S) - began_at
    shutil.rmtree(place)
    return count / took_s
