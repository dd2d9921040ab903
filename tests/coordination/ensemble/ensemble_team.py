"""A team with the Ensemble's directories on disk, and its gateway. Lists of mail and log lines stand for the daemon."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ackd.coordination.ensemble.gateway import EnsembleGateway
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.gateway import GatewayServices
from ackd.core.errors import UnknownAgent
from ackd.core.events import Now
from ackd.core.names import identity
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

TEAM = ("conductor", "dispatch", "worker-1", "worker-2", "leader", "user", "system", "queue_monitor")


class SkewedClock:
    """The machine's clocks, each ahead by as much as the test says."""

    def __init__(self) -> None:
        self.mono_s = self.wall_s = 0.0

    def now(self) -> Now:
        return Now(time.monotonic() + self.mono_s, time.time() + self.wall_s)

    def advance(self, seconds: float) -> None:
        self.mono_s += seconds
        self.wall_s += seconds


class EnsembleTeam:
    """A team in ``place``. With ``refuses`` every mail fails as if the disk were full."""

    def __init__(
        self, place: Path, *, max_message_bytes: int = 1_048_576, escalate_to: str = "leader", **config: Any
    ) -> None:
        self.place, self.queue, self.root = place, place / "queue", place / ".ackd"
        for directory in (self.root / "state/gateways", self.root / "receipts"):
            directory.mkdir(parents=True, exist_ok=True)
        self.clock, self.max_message_bytes, self.escalate_to = SkewedClock(), max_message_bytes, escalate_to
        self.config = EnsembleSettings(**config)
        self.mail: list[Draft] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.refuses = False
        self.start()

    def start(self) -> None:
        """Make a gateway as a new daemon does: it knows only the files."""
        inside = (self.clock, self.lines.append, self._mail, lambda _: None, called)
        where = (self.place, self.root, self.root / "state/gateways")
        services = GatewayServices(*inside, *where, live=live_config(settle_s=0.2), durable=False)
        self.gateway = EnsembleGateway(self.config, self.escalate_to, services, self.max_message_bytes)

    async def _mail(self, draft: Draft) -> None:
        if self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if called(draft.recipient) is None:
            raise UnknownAgent(draft.recipient)
        self.mail.append(draft)

    async def look(self, *, at_once: bool = False) -> float | None:
        """Look at everything: after the files just written have settled, or ``at_once``."""
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
        """Give the file a time after everything so far, by the disk's clock."""
        at = time.time_ns() + 10_000_000
        os.utime(path, ns=(at, at))
        return path


def called(name: str) -> str | None:
    return next((agent for agent in TEAM if identity(agent) == identity(name)), None)
