from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.message.bench import PLAIN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These commands need no site: run them where there is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "task_assignment_1790000000000000.mime"
    path.write_bytes(PLAIN)
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    return path
