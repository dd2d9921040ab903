from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.child.nursery import Nursery, note_others
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """However the test ends, its children end with it."""
    note_others()
    yield Nursery(tmp_path)
    end_strays(tmp_path)
