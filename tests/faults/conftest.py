from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.crash_processes import Zygote, compiled
from tests.faults.crash_scripts import SCRIBE
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """However the test ends: a daemon or a run of its own is not met by the next one."""
    yield
    end_strays(tmp_path)


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """A warm parent of ackd's processes, with the interposer, and a handler called scribe installed."""
    place = tmp_path_factory.mktemp("zygote")
    info = place / "lib/crash_team-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crash-team\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ackd.handlers]\nscribe = crash_team:scribe\n")
    (place / "lib/crash_team.py").write_text(SCRIBE)
    with Zygote(place / "lib", compiled(place)) as started:
        yield started
