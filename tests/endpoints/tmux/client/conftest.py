from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.endpoints.tmux.client.private_server import private_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.endpoints.tmux.client import Tmux


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    with private_server() as server:
        yield server
