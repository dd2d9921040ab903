from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.storage.inotify_watch import InotifyWatcher

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "root"
    (made / "receipts").mkdir(parents=True)
    for box in ("leader", "coder"):
        (made / "queue" / box / "processed").mkdir(parents=True)
    return made


@pytest.fixture
def leader(root: Path) -> Path:
    return root / "queue" / "leader"


@pytest.fixture
def watcher(root: Path) -> InotifyWatcher:
    return InotifyWatcher(root / "queue", root / "receipts")
