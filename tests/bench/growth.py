"""Commands that look into the history of a team: what they take after months, beside what they take after an hour.

The index of the session logs is built by the first search, which is a figure of its own; all others use it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import history
from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.scale import Scale

AT_MOST = 1.5


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    long, short = (_Team(place / str(count), count, scale) for count in (scale.history, scale.short_history))
    tell(f"the first search took {long.first_s:.1f} s with {scale.history} messages, {short.first_s:.1f} s with few")
    took = _in_turns(long, short, scale.searches)
    tell(", ".join(f"{name} {sorted(ours)[len(ours) // 2]:.0f} ms" for name, (ours, _) in took.items()))
    what = f"{scale.history:,} messages of history"
    return [
        Figure("growth", f"{what}: first search, which makes the index", "s", (long.first_s,)),
        *(
            Figure(
                "growth", f"{what}: `ackd {name}`", "ms", tuple(ours),
                f"with {scale.short_history:,}", tuple(theirs), at_most(AT_MOST),
            )
            for name, (ours, theirs) in took.items()
        ),
    ]  # fmt: skip


def _in_turns(long: _Team, short: _Team, searches: int) -> dict[str, tuple[list[float], list[float]]]:
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in long.commands}
    for _ in range(searches):
        for name, (ours, theirs) in took.items():
            ours.append(1000 * long.timed_s(long.commands[name]))
            theirs.append(1000 * short.timed_s(short.commands[name]))
    return took


class _Team:
    """A team with a history, searched once."""

    def __init__(self, place: Path, count: int, scale: Scale) -> None:
        place.mkdir(parents=True)
        self._place = place
        (place / "ackd.toml").write_text("".join(f"[agents.{name}]\n" for name in history.AGENTS))
        ids = history.write(place / ".ackd", count, archived=int(count * scale.archived_part))
        wanted, agent = ids[len(ids) * 9 // 10], history.AGENTS[3]
        self.commands = {
            "explain": ("explain", wanted),
            "status": ("status",),
            "tail --message": ("tail", "--message", wanted),
            "tail --agent": ("tail", "--agent", agent),
            "tail --since": ("tail", "--since", "10m", "--agent", agent),
            "inbox": ("inbox", "--agent", agent),
        }
        self.timed_s(("--version",))
        self.first_s = self.timed_s(self.commands["explain"])

    def timed_s(self, words: tuple[str, ...]) -> float:
        ackd = str(Path(sys.executable).with_name("ackd"))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        started = time.perf_counter()
        subprocess.run([ackd, *words], cwd=self._place, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started
