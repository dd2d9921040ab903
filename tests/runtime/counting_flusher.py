"""A flusher that counts its callers, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class CountingFlusher:
    """Counts the callers that wait for a flush at the same time. Fails if the test says so."""

    error: OSError | None = None
    meanwhile: Callable[[], object] | None = None
    flushed: list[str] = field(default_factory=list)
    together: int = 0
    _now: int = 0

    async def flush(self, paths: list[str]) -> None:
        self._now += 1
        self.together = max(self.together, self._now)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self._now -= 1
        if self.error is not None:
            raise self.error
        if self.meanwhile is not None:
            self.meanwhile()
        self.flushed += paths

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        if self.error is not None:
            failed(self.error)
        else:
            self.flushed.append(path)
