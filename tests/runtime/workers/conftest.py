from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.child.nursery import note_others
from tests.runtime.workers.shop import Shop
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """However the test ends, its workers end with it."""
    note_others()
    yield Shop(tmp_path)
    end_strays(tmp_path)
