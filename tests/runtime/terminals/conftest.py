from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.tmux.private_server import private_server
from tests.runtime.terminals.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with private_server() as server:
        yield Stage(server, tmp_path)
