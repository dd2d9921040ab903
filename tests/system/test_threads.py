"""Threads on a machine that has no room for another one."""

from __future__ import annotations

import errno
import threading
from typing import NoReturn

import anyio
import pytest

from ackd.core.faults import is_nobodys
from ackd.runtime.recorder import Faults
from ackd.system.threads import in_thread


async def test_work_is_done_beside_the_loop() -> None:
    assert await in_thread(threading.get_ident) != threading.get_ident()


async def test_no_room_for_a_thread_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match="no thread") as refused:
        await in_thread(lambda: None, limiter=anyio.CapacityLimiter(1))
    assert refused.value.errno == errno.EAGAIN
    assert is_nobodys(refused.value)
    assert "advice" in (Faults().met({"error": str(refused.value)}, 0.0) or {})


async def test_any_other_error_passes() -> None:
    def fail() -> NoReturn:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await in_thread(fail)
