from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """However the test ends: a daemon or a run of its own is not met by the next one."""
    yield
    end_strays(tmp_path)
