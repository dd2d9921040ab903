from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.storage.log_index import building

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("logs", "state"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a line or two, and an index that is kept however little there is."""
    monkeypatch.setattr(building, "WORTH_BYTES", 100)
    monkeypatch.setattr(building, "BLOCK_BYTES", 300)
