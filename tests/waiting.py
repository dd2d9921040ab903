"""Waiting for what only the kernel or another process knows: until it is so, with an end to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 30.0


async def until(true: Callable[[], object], what: str = "it", deadline_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, f"{what} never came true"
        await anyio.sleep(0.005)
