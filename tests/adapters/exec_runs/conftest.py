from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.exec_runs.bench import Bench
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """However the test ends, its runs end with it."""
    yield Bench(tmp_path)
    end_strays(tmp_path)
