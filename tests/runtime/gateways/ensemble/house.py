"""A gateway on real directories, with a clock of its own and a desk that only notes what is mailed."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ackd.config_coordination import Ensemble
from ackd.core.errors import UnknownAgent
from ackd.core.events import Now
from ackd.core.names import identity
from ackd.runtime.gateways import Around
from ackd.runtime.gateways.ensemble import EnsembleGateway

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

TEAM = ("conductor", "dispatch", "worker-1", "worker-2", "leader", "user", "system", "queue_monitor")


class Skewed:
    """The machine's clocks, set ahead by hand."""

    def __init__(self) -> None:
        self.mono_s = self.wall_s = 0.0

    def now(self) -> Now:
        return Now(time.monotonic() + self.mono_s, time.time() + self.wall_s)

    def advance(self, seconds: float) -> None:
        self.mono_s += seconds
        self.wall_s += seconds


class House:
    def __init__(
        self, place: Path, *, max_message_bytes: int = 1_048_576, escalate_to: str = "leader", **config: Any
    ) -> None:
        self.place, self.queue, self.root = place, place / "queue", place / ".ackd"
        for directory in (self.root / "state/gateways", self.root / "receipts"):
            directory.mkdir(parents=True, exist_ok=True)
        self.clock, self.max_message_bytes, self.escalate_to = Skewed(), max_message_bytes, escalate_to
        self.config = Ensemble(**config)
        self.mail: list[Draft] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.refuses = False
        self.start()

    def start(self) -> None:
        """A gateway that knows what is on disk, and nothing else."""
        inside = (self.clock, lambda type_, data: self.lines.append((type_, data)), self._mail, lambda _: None, called)
        where = (self.place, self.root, self.root / "state/gateways")
        around = Around(*inside, *where, settle_s=0.2, durable=False)
        self.gateway = EnsembleGateway(self.config, self.escalate_to, around, self.max_message_bytes)

    async def _mail(self, draft: Draft) -> None:
        if self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if called(draft.recipient) is None:
            raise UnknownAgent(draft.recipient)
        self.mail.append(draft)

    async def look(self, *, at_once: bool = False) -> float | None:
        """At everything, when what was just written has settled, or at once."""
        self.clock.mono_s += 1
        self.clock.wall_s = 0.0 if at_once else max(1.0, self.clock.wall_s)
        return await self.gateway.look(None)

    def put(self, name: str, text: str | bytes = "status: success\n") -> Path:
        path = self.queue / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def said(self, *types: str) -> list[dict[str, object]]:
        return [data for type_, data in self.lines if type_ in types]

    def summary(self) -> list[tuple[str, str, str]]:
        return [(draft.sender, draft.recipient, draft.type) for draft in self.mail]

    def receipts(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted((self.root / "receipts").iterdir())]

    def later(self, path: Path) -> Path:
        """A file of a moment after everything so far, by the disk's clock."""
        at = time.time_ns() + 10_000_000
        os.utime(path, ns=(at, at))
        return path


def called(name: str) -> str | None:
    return next((agent for agent in TEAM if identity(agent) == identity(name)), None)
