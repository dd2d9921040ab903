"""The machine's clocks."""

from __future__ import annotations

import time

from ackd.core.events import Now


class SystemClock:
    """``mono`` is CLOCK_MONOTONIC, which is also what asyncio's timers run by."""

    def now(self) -> Now:
        return Now(time.monotonic(), time.time())
