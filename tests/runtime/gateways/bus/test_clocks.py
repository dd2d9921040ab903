"""Who is silent on a bus, while the wall clock is set and laptops sleep: with clocks of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ackd.core.escalations import stamp
from ackd.core.events import Now
from tests.runtime.gateways.bus.house import Clock, House

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

H = 3600.0
LIMIT_S = 600.0


@dataclass
class Clocks(Clock):
    mono: float = 500.0

    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def passes(self, seconds: float) -> None:
        self.mono, self.wall = self.mono + seconds, self.wall + seconds


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, clock=Clocks())


async def at_work(house: House) -> Clocks:
    """Two workers, one heard by a line and one by its heartbeat, for five minutes of ten."""
    clocks = house.clock
    assert isinstance(clocks, Clocks)
    house.say_at("PROGRESS", "w1", task_id="1.1")
    house.status(w2={"status": "RUNNING", "task_id": "1.2", "last_heartbeat": stamp(clocks.wall)})
    await house.gateway.look(None)
    clocks.passes(300)
    await house.gateway.look(None)
    return clocks


def stale(house: House) -> list[str]:
    return sorted(line["worker"] for line in house.said("worker_stale"))


@pytest.mark.parametrize("step_s", [2 * H, -2 * H])
async def test_a_wall_clock_that_is_set_makes_no_worker_stale_and_keeps_none_from_it(
    house: House, step_s: float
) -> None:
    clocks = await at_work(house)
    clocks.wall += step_s
    assert await house.gateway.look(None) == pytest.approx(300, abs=2)
    assert stale(house) == []
    clocks.passes(200)
    house.status(  # w2's next heartbeat is earlier than its last by the clock on the wall
        w2={"status": "RUNNING", "task_id": "1.2", "last_heartbeat": stamp(clocks.wall)},
        w3={"status": "RUNNING", "task_id": "1.3", "last_heartbeat": stamp(clocks.wall)},
    )
    await house.gateway.look(None)
    clocks.passes(110)
    await house.gateway.look(None)
    assert stale(house) == ["w1"]
    clocks.passes(500)
    await house.gateway.look(None)
    assert stale(house) == ["w1", "w2", "w3"]


async def test_a_laptop_that_sleeps_for_a_night_wakes_without_stale_workers(house: House) -> None:
    """Suspend and resume: the monotonic clock stood still, and so did they."""
    clocks = await at_work(house)
    clocks.wall += 8 * H
    await house.gateway.look(None)
    assert stale(house) == []
    assert house.told("orchestrator") == []
    clocks.passes(301)
    await house.gateway.look(None)
    assert stale(house) == ["w1", "w2"]


async def test_a_disk_that_refuses_after_a_step_makes_nobody_stale(house: House) -> None:
    clocks = await at_work(house)
    clocks.wall += 2 * H

    def refuse(_: Draft) -> None:
        house.refuse = None
        raise OSError(28, "No space left on device")

    house.refuse = refuse
    house.say_at("TASK_COMPLETE", "w3", task_id="1.3")
    with pytest.raises(OSError, match="No space"):
        await house.gateway.look(None)
    await house.gateway.look(None)
    assert len(house.told("orchestrator")) == 1
    assert stale(house) == []


async def test_after_a_restart_wall_time_is_believed(house: House) -> None:
    clocks = await at_work(house)
    clocks.wall += 2 * H  # or we were away for as long: nobody can tell
    house.gateway = house.started()
    await house.gateway.look(None)
    assert stale(house) == ["w1", "w2"]
