from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.endpoints.tmux.client.private_server import private_server
from tests.endpoints.tmux.fake_pane import FakePane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake_pane(tmp_path: Path) -> Iterator[FakePane]:
    with private_server() as server:
        yield FakePane(server, tmp_path)
