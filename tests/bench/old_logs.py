"""Years of compressed logs: what a start, an `explain` and a `status` take beside the same with a few messages.

The index was built by a first search, which is told and is no figure here (``growth`` has one).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import history
from tests.bench.figures import Figure, at_most
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.scale import Scale

AT_MOST = 1.5
PATIENCE_S = 120.0


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    long, short = (_Team(place / str(count), count) for count in (scale.long_history, scale.short_history))
    tell(f"the first search took {long.first_s:.1f} s, in {long.stored_bytes / 1e6:.0f} MB of logs")
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in long.acts}
    for _ in range(scale.long_history_starts):
        for name, (ours, theirs) in took.items():
            ours.append(1000 * long.acts[name]())
            theirs.append(1000 * short.acts[name]())
    tell(", ".join(f"{name} {sorted(ours)[len(ours) // 2]:.0f} ms" for name, (ours, _) in took.items()))
    what, few = f"{scale.long_history:,} messages in compressed logs", f"with {scale.short_history:,}"
    return [
        Figure("old-logs", f"{what}: {name}", "ms", tuple(ours), few, tuple(theirs), at_most(AT_MOST))
        for name, (ours, theirs) in took.items()
    ]


class _Team:
    """A team with a history, searched once. Each act returns the seconds that it took."""

    def __init__(self, place: Path, count: int) -> None:
        place.mkdir(parents=True)
        self._place = place
        (place / "ackd.toml").write_text("".join(f"[agents.{name}]\n" for name in history.AGENTS))
        ids = history.write(place / ".ackd", count, compressed=True)
        self.stored_bytes = sum(path.stat().st_size for path in (place / ".ackd/logs").iterdir())
        wanted = ids[len(ids) * 9 // 10]
        self.acts: dict[str, Callable[[], float]] = {
            "start → READY": self._start_s,
            "`ackd explain`": lambda: self._timed_s("explain", wanted),
            "`ackd status`": lambda: self._timed_s("status"),
        }
        self.first_s = self._timed_s("explain", wanted)

    def _timed_s(self, *words: str) -> float:
        started = time.perf_counter()
        subprocess.run([_ackd(), *words], cwd=self._place, env=_environment(), check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    def _start_s(self) -> float:
        address = self._place / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(address))
            manager.settimeout(PATIENCE_S)
            environment = {**_environment(), "NOTIFY_SOCKET": str(address)}
            started = time.perf_counter()
            command = [_ackd(), "run", "--quiet"]
            daemon = subprocess.Popen(command, cwd=self._place, env=environment, stdout=subprocess.DEVNULL)
            try:
                while not manager.recv(4096).startswith(b"READY=1"):
                    pass
                took_s = time.perf_counter() - started
            except TimeoutError:
                raise BenchFailed(f"no READY within {PATIENCE_S:.0f} s") from None
            finally:
                daemon.terminate()
                daemon.wait(PATIENCE_S)
                address.unlink()
        return took_s


def _ackd() -> str:
    return str(Path(sys.executable).with_name("ackd"))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
