from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.exec_runs.bench import Bench

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
