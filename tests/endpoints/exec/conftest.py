from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.endpoints.exec.exec_agent import ExecAgent
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def exec_agent(tmp_path: Path) -> Iterator[ExecAgent]:
    """An agent whose runs end with the test, however that ends."""
    yield ExecAgent(tmp_path)
    end_strays(tmp_path)
