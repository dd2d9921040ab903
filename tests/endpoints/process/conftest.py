from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.endpoints.process.child.real_children import note_others
from tests.endpoints.process.process_agent import ProcessAgent
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def process_agent(tmp_path: Path) -> Iterator[ProcessAgent]:
    """An agent whose workers end with the test, however that ends."""
    note_others()
    yield ProcessAgent(tmp_path)
    end_strays(tmp_path)
