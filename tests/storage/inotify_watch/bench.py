"""A kernel queue that overflows, and the hints that are expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackd.core.message import Folder, Place
from ackd.core.ports import FileReady

MAX_QUEUED_EVENTS = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


def hint(name: str, *, closed: bool, box: str = "leader") -> FileReady:
    return FileReady(Place(box, Folder.QUEUE, name), closed=closed)


def overflow(leader: Path) -> None:
    """Fill the kernel's queue while the loop is kept from reading it. (No need to touch the system's limit.)"""
    (leader / "a").write_text("x")
    for _ in range(MAX_QUEUED_EVENTS // 4 + 1):  # two events for each rename
        (leader / "a").rename(leader / "b")
        (leader / "b").rename(leader / "a")


can_overflow = pytest.mark.skipif(MAX_QUEUED_EVENTS > 200_000, reason="the queue is too long to fill in a test")
