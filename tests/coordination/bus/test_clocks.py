"""Workers become stale by the time that passed, also if the wall clock is set or the laptop sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ackd.core.escalations import stamp
from ackd.core.events import Now
from tests.coordination.bus.bus_team import BusTeam, WallClock

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

H = 3600.0
LIMIT_S = 600.0


@dataclass
class SteppedClock(WallClock):
    mono: float = 500.0

    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def passes(self, seconds: float) -> None:
        self.mono, self.wall = self.mono + seconds, self.wall + seconds


@pytest.fixture
def team(tmp_path: Path) -> BusTeam:
    return BusTeam(tmp_path, clock=SteppedClock())


async def at_work(team: BusTeam) -> SteppedClock:
    """Let two workers be heard, one by a line and one by its heartbeat; then five of their ten minutes pass."""
    clocks = team.clock
    assert isinstance(clocks, SteppedClock)
    team.say_at("PROGRESS", "w1", task_id="1.1")
    team.status(w2={"status": "RUNNING", "task_id": "1.2", "last_heartbeat": stamp(clocks.wall)})
    await team.gateway.look(None)
    clocks.passes(300)
    await team.gateway.look(None)
    return clocks


def stale(team: BusTeam) -> list[str]:
    return sorted(line["worker"] for line in team.said("worker_stale"))


@pytest.mark.parametrize("step_s", [2 * H, -2 * H])
async def test_a_wall_clock_that_is_set_makes_no_worker_stale_and_keeps_none_from_it(
    team: BusTeam, step_s: float
) -> None:
    clocks = await at_work(team)
    clocks.wall += step_s
    assert await team.gateway.look(None) == pytest.approx(300, abs=2)
    assert stale(team) == []
    clocks.passes(200)
    team.status(  # by the wall clock, w2's next heartbeat is earlier than its last
        w2={"status": "RUNNING", "task_id": "1.2", "last_heartbeat": stamp(clocks.wall)},
        w3={"status": "RUNNING", "task_id": "1.3", "last_heartbeat": stamp(clocks.wall)},
    )
    await team.gateway.look(None)
    clocks.passes(110)
    await team.gateway.look(None)
    assert stale(team) == ["w1"]
    clocks.passes(500)
    await team.gateway.look(None)
    assert stale(team) == ["w1", "w2", "w3"]


async def test_a_laptop_that_sleeps_for_a_night_wakes_without_stale_workers(team: BusTeam) -> None:
    """During suspend the monotonic clock stands still, and so do the workers."""
    clocks = await at_work(team)
    clocks.wall += 8 * H
    await team.gateway.look(None)
    assert stale(team) == []
    assert team.told("orchestrator") == []
    clocks.passes(301)
    await team.gateway.look(None)
    assert stale(team) == ["w1", "w2"]


async def test_a_disk_that_refuses_after_a_step_makes_nobody_stale(team: BusTeam) -> None:
    clocks = await at_work(team)
    clocks.wall += 2 * H

    def refuse(_: Draft) -> None:
        team.refuse = None
        raise OSError(28, "No space left on device")

    team.refuse = refuse
    team.say_at("TASK_COMPLETE", "w3", task_id="1.3")
    with pytest.raises(OSError, match="No space"):
        await team.gateway.look(None)
    await team.gateway.look(None)
    assert len(team.told("orchestrator")) == 1
    assert stale(team) == []


async def test_after_a_restart_wall_time_is_believed(team: BusTeam) -> None:
    clocks = await at_work(team)
    clocks.wall += 2 * H  # the daemon may have been down for as long: nobody can tell the two apart
    team.gateway = team.started()
    await team.gateway.look(None)
    assert stale(team) == ["w1", "w2"]
