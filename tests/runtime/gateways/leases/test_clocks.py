"""Leases and a wall clock that is set, a laptop that sleeps, a machine that starts again; on real files, with clocks of
the test's own for everyone who looks at them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters.lease_files import files as lease_files
from ackd.config_coordination import Bus
from ackd.core import utc_times
from ackd.core.errors import LeaseHeld
from ackd.core.events import Now
from ackd.core.lease_words import Ask
from ackd.leases import Leases
from ackd.runtime.gateways.gateway import Around
from ackd.runtime.gateways.leases import LeaseGateway

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

P = "src/a.py"
H = 3600.0


@dataclass
class Clocks:
    mono: float = 500.0
    wall: float = 1_794_843_994.0

    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def both(self) -> tuple[float, float]:
        return self.mono, self.wall

    def passes(self, seconds: float) -> None:
        self.mono, self.wall = self.mono + seconds, self.wall + seconds

    def is_set_by(self, seconds: float) -> None:
        self.wall += seconds

    def sleeps(self, seconds: float) -> None:
        """Suspended and resumed: the monotonic clock stands still meanwhile."""
        self.wall += seconds


class House:
    def __init__(self, place: Path) -> None:
        self.place, self.clocks = place, Clocks()
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.mails: list[Draft] = []
        (place / ".ackd/state/gateways").mkdir(parents=True)
        (place / ".ackd/logs").mkdir()
        (place / ".ackd/bus/events").mkdir(parents=True)
        self.restart()

    def restart(self) -> None:
        """Another daemon; and another process that asks for leases."""
        around = Around(
            clock=self.clocks,
            record=lambda type_, data: self.lines.append((type_, data)),
            mail=self._mail,
            post=lambda _: None,
            called=lambda name: name if name in ("leader", "builder") else None,
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            settle_s=0.0,
            durable=False,
        )
        self.gateway = LeaseGateway(Bus(), around)
        self.doors = Leases(self.place / ".ackd/bus", self.place, clocks=self.clocks.both)

    async def _mail(self, draft: Draft) -> None:
        self.mails.append(draft)

    def locks(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / ".ackd/bus/locks.json").read_bytes())
        return found

    def said(self) -> list[str]:
        return [type_ for type_, _ in self.lines]

    def held_for_s(self) -> float:
        ((lease,),) = self.doors.look().held.values()
        return lease.expires_at - self.clocks.wall


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def held(house: House, ttl_s: float = 1800) -> None:
    """By w1, for half an hour, of which ten minutes are over; the leader stands in line."""
    house.doors.acquire(P, "w1", ttl_s=ttl_s)
    house.doors.ask(P, Ask("leader", until=house.clocks.wall + ttl_s))
    await house.gateway.look(None)
    house.clocks.passes(600)
    await house.gateway.look(None)


@pytest.mark.parametrize("step_s", [2 * H, -2 * H])
@pytest.mark.parametrize("daemon", ["goes on", "is started anew"])
async def test_a_wall_clock_that_is_set_ends_no_lease_and_prolongs_none(
    house: House, step_s: float, daemon: str
) -> None:
    await held(house)
    house.clocks.is_set_by(step_s)
    if daemon == "is started anew":
        house.restart()
    wish = await house.gateway.look(None)
    assert wish == pytest.approx(1200, abs=1)
    assert house.held_for_s() == pytest.approx(1200, abs=1)
    assert house.said() == ["lease_granted", "lease_waiting"]
    with pytest.raises(LeaseHeld):
        house.doors.acquire(P, "w2")
    house.clocks.passes(1190)
    await house.gateway.look(frozenset())
    assert [lease.agent for lease in house.doors.look().held[P]] == ["w1"]
    house.clocks.passes(11)
    await house.gateway.look(frozenset())
    assert [lease.agent for lease in house.doors.look().held.get(P, ())] == []  # and the leader waited for as long
    assert house.said()[-1] == "lease_expired"


async def test_a_laptop_that_sleeps_for_a_night_takes_no_lease_from_who_slept_with_it(house: House) -> None:
    """Suspend and resume: nobody could renew meanwhile, nobody else could want it."""
    await held(house)
    house.clocks.sleeps(8 * H)
    await house.gateway.look(None)
    assert house.held_for_s() == pytest.approx(1200, abs=1)
    assert house.said() == ["lease_granted", "lease_waiting"]
    assert not house.mails
    house.clocks.passes(1000)
    house.doors.renew("w1", P)
    assert house.held_for_s() == pytest.approx(1800, abs=1)


async def test_who_reads_the_file_by_itself_sees_the_time_of_today_after_a_step(house: House) -> None:
    """The seed's own ``acquire_lock`` compares ``expires_at`` with its clock."""
    await held(house)
    house.clocks.is_set_by(2 * H)
    await house.gateway.look(None)
    until = utc_times.read(house.locks()[P]["expires_at"])
    assert until == pytest.approx(house.clocks.wall + 1200, abs=1)
    seen = (house.place / ".ackd/bus/locks.json").stat().st_mtime_ns
    await house.gateway.look(None)
    assert (house.place / ".ackd/bus/locks.json").stat().st_mtime_ns == seen, "written once"


@pytest.mark.parametrize(("away_s", "left_s"), [(-5 * H, 1800), (60, 1140), (2 * H, None)])
async def test_after_another_boot_wall_time_is_believed_up_to_the_length_of_the_lease(
    house: House, monkeypatch: pytest.MonkeyPatch, away_s: float, left_s: float | None
) -> None:
    await held(house)
    monkeypatch.setattr(lease_files, "_boot", lambda: "another boot")
    house.clocks.mono = 20.0
    house.clocks.wall += away_s
    house.restart()
    await house.gateway.look(None)
    if left_s is None:
        assert house.said()[-1] == "lease_expired"
        return
    assert house.held_for_s() == pytest.approx(left_s, abs=1)
    house.clocks.passes(left_s - 10)
    await house.gateway.look(None)
    assert house.held_for_s() == pytest.approx(10, abs=1), "the limit counts from the start, not from every look"


async def test_a_lease_made_by_hand_goes_by_the_monotonic_clock_from_its_first_look_on(house: House) -> None:
    now = house.clocks.wall
    entry = {"worker_id": "w1", "acquired_at": utc_times.write(now), "expires_at": utc_times.write(now + 1800)}
    (house.place / ".ackd/bus/locks.json").write_text(json.dumps({P: entry}))
    await house.gateway.look(None)
    house.clocks.is_set_by(2 * H)
    await house.gateway.look(None)
    assert house.held_for_s() == pytest.approx(1800, abs=1)
    assert "lease_expired" not in house.said()


async def test_progress_renews_also_after_the_clock_was_set_back(house: House) -> None:
    from ackd.core.bus_words import BusLine, BusType

    await held(house)
    track = house.gateway._desks[str(house.place / ".ackd/bus")].track

    async def progress(number: int) -> None:
        line = BusLine(number, number + 1, f"m{number}", BusType.PROGRESS, "w1", house.clocks.wall, {})
        await house.gateway.line(track, line)

    await progress(1)
    house.clocks.is_set_by(-2 * H)
    house.clocks.passes(60)
    await progress(2)
    assert house.held_for_s() == pytest.approx(1800, abs=1)
