"""Faults for a team of children and panes, drawn from a seed: each done from outside, as the world does it.

Owns which fault comes when and to whom, and the healing of what no daemon can heal: a prompt that a person must answer,
a stopped pane. Touches only processes that bear the team's mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.strays import is_marked

if TYPE_CHECKING:
    import random

    from tests.acceptance.panes import Panes
    from tests.acceptance.teams import Team

CHILD_FAULTS = ("hang", "silence", "crash", "orphan", "flood", "kill", "stop")
PANE_FAULTS = ("vanish", "quit", "hang", "prompt", "stop", "flood")
#: How long a person takes to answer, and a stopped pane to be let on.
HEAL_S = 5.0


class Strike(NamedTuple):
    """``at`` as the session log writes its times."""

    at: str
    whom: str
    kind: str


@dataclass
class Faults:
    team: Team
    panes: Panes
    children: list[str]
    terminals: list[str]
    rng: random.Random
    every_s: float
    done: Counter[str] = field(default_factory=Counter)
    #: What struck whom, in order.
    struck: list[Strike] = field(default_factory=list)
    _next_at: float = 0.0
    #: When, what, to whom.
    _heals: list[tuple[float, str, str]] = field(default_factory=list)

    def tick(self) -> None:
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + self.rng.uniform(0.5, 1.5) * self.every_s
            self._strike(now)
        self._heal(now)

    def stop(self) -> None:
        """No more of them; what waits for a person is answered."""
        self._heal(float("inf"))
        for name in self.terminals:
            self.panes.control("ready", name)
        for name in self.children:
            (self.panes.home(name) / "fault").unlink(missing_ok=True)

    def _strike(self, now: float) -> None:
        share = len(self.terminals) / (len(self.terminals) + len(self.children))
        if self.rng.random() < share:
            kind, whom = self.rng.choice(PANE_FAULTS), self.rng.choice(self.terminals)
            self._note("pane", kind, whom, struck=self._strike_pane(kind, whom, now))
        else:
            kind, whom = self.rng.choice(CHILD_FAULTS), self.rng.choice(self.children)
            self._note("child", kind, whom, struck=self._strike_child(kind, whom))

    def _note(self, what: str, kind: str, whom: str, *, struck: bool) -> None:
        if struck:
            self.done[f"{what} {kind}"] += 1
            now = datetime.now(UTC)
            self.struck.append(Strike(f"{now:%Y-%m-%dT%H:%M:%S.%fZ}", whom, kind))

    def _strike_child(self, kind: str, whom: str) -> bool:
        if kind in ("kill", "stop"):
            return self._signal(self._pid_of(whom), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        temp = self.panes.home(whom) / ".fault"
        temp.write_text(kind)
        temp.rename(temp.with_name("fault"))
        return True

    def _strike_pane(self, kind: str, whom: str, now: float) -> bool:
        if kind == "vanish":
            return self._close(whom)
        if kind == "stop":
            pid = self._fake(whom)
            self._heals.append((now + HEAL_S, "go on", str(pid)))
            return self._signal(pid, signal.SIGSTOP)
        if kind == "flood":
            self.panes.control("\n".join(f"say la {number}" for number in range(300)), whom)
            return True
        if kind == "prompt":
            self._heals.append((now + HEAL_S, "answer", whom))
        self.panes.control({"hang": "busy"}.get(kind, kind), whom)
        return True

    def _heal(self, now: float) -> None:
        due = [heal for heal in self._heals if heal[0] <= now]
        self._heals = [heal for heal in self._heals if heal[0] > now]
        for _, what, whom in due:
            if what == "answer":
                self.panes.control("ready", whom)
            else:
                self._signal(int(whom), signal.SIGCONT)

    # --- who
    def _pid_of(self, agent: str) -> int | None:
        started = self.team.facts("child_started", agent=agent)
        return started[-1]["pid"] if started else None

    def _fake(self, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.panes.home(name) / "up").read_text())
        return None

    def _close(self, name: str) -> bool:
        pid = str(self._fake(name))
        listed = self.panes.run("list-panes", "-a", "-F", "#{pane_pid} #{pane_id}", check=False)
        pane_id = dict(line.split() for line in listed.splitlines()).get(pid)
        if pane_id is not None:
            self.panes.kill(pane_id)
        return pane_id is not None

    def _signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Held by its pidfd before it is looked at: the number may be someone else's by now."""
        if pid is None:
            return False
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            try:
                if is_marked(pid, Path(self.team.place)):
                    signal.pidfd_send_signal(fd, number)
                    return True
            finally:
                os.close(fd)
        return False
