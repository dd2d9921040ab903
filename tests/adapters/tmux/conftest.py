from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adapters.tmux.private_server import private_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.adapters.tmux import Tmux


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    with private_server() as server:
        yield server
