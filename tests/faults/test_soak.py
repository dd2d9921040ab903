"""Children and panes under one daemon, with faults at random: nothing lost, nothing left over, nothing grown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.faults.counts import full, pick
from tests.faults.soak import Size, soak

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.timeout(0 if full() else 400)
def test_a_team_under_faults_loses_no_message_and_leaves_nothing_behind(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Zombies [IGNITE a0e5ebc]; 50 children and 20 panes for 5 minutes when everything is asked for."""
    size = Size(pick(8, 50), pick(4, 20), pick(18, 300))
    if not full():  # as many faults and messages as in half a minute
        size = replace(size, fault_every_s=0.7, rate=2, quiet_s=3)
    with soak(tmp_path, size) as run:
        figures = run.run()
    record_property("told", figures.text())
    assert figures.wrong == []
    assert figures.ends["completed"] >= figures.posted * 0.8
