from __future__ import annotations

import time

from ackd.system.clock import SystemClock


def test_one_reading_of_both_clocks() -> None:
    before = (time.monotonic(), time.time())
    now = SystemClock().now()
    assert before[0] <= now.mono <= time.monotonic()
    assert before[1] <= now.wall <= time.time()
