from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.endpoints.process.child.real_children import RealChildren, note_others
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def real_children(tmp_path: Path) -> Iterator[RealChildren]:
    """Children that end with the test, however that ends."""
    note_others()
    yield RealChildren(tmp_path)
    end_strays(tmp_path)
