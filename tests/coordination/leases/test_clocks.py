"""Leases on real files, while the wall clock is set, the laptop sleeps or the machine starts again.

The gateway and the process that asks for leases both read clocks that the test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.gateway import GatewayServices
from ackd.coordination.leases.files import files as lease_files
from ackd.coordination.leases.gateway import LeaseGateway
from ackd.coordination.leases.rules.words import Ask
from ackd.core.errors import LeaseHeld
from ackd.core.events import Now
from ackd.formats import utc_times
from ackd.leases import Leases
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

P = "src/a.py"
H = 3600.0


@dataclass
class SteppedClocks:
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
        """Suspend and resume: the monotonic clock stands still meanwhile."""
        self.wall += seconds


class TimedLeaseTeam:
    def __init__(self, place: Path) -> None:
        self.place, self.clocks = place, SteppedClocks()
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.mails: list[Draft] = []
        (place / ".ackd/state/gateways").mkdir(parents=True)
        (place / ".ackd/logs").mkdir()
        (place / ".ackd/bus/events").mkdir(parents=True)
        self.restart()

    def restart(self) -> None:
        """Start another daemon, and another process that asks for leases."""
        services = GatewayServices(
            clock=self.clocks,
            record=self.lines.append,
            mail=self._mail,
            post=lambda _: None,
            called=lambda name: name if name in ("leader", "builder") else None,
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            live=live_config(settle_s=0),
            durable=False,
        )
        self.gateway = LeaseGateway(BusSettings(), services)
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
def team(tmp_path: Path) -> TimedLeaseTeam:
    return TimedLeaseTeam(tmp_path)


async def held(team: TimedLeaseTeam, ttl_s: float = 1800) -> None:
    """Lease the file to w1 for ``ttl_s``, let the leader wait for it, and let ten minutes pass."""
    team.doors.acquire(P, "w1", ttl_s=ttl_s)
    team.doors.ask(P, Ask("leader", until=team.clocks.wall + ttl_s))
    await team.gateway.look(None)
    team.clocks.passes(600)
    await team.gateway.look(None)


@pytest.mark.parametrize("step_s", [2 * H, -2 * H])
@pytest.mark.parametrize("daemon", ["goes on", "is started anew"])
async def test_a_wall_clock_that_is_set_ends_no_lease_and_prolongs_none(
    team: TimedLeaseTeam, step_s: float, daemon: str
) -> None:
    await held(team)
    team.clocks.is_set_by(step_s)
    if daemon == "is started anew":
        team.restart()
    next_look_s = await team.gateway.look(None)
    assert next_look_s == pytest.approx(1200, abs=1)
    assert team.held_for_s() == pytest.approx(1200, abs=1)
    assert team.said() == ["lease_granted", "lease_waiting"]
    with pytest.raises(LeaseHeld):
        team.doors.acquire(P, "w2")
    team.clocks.passes(1190)
    await team.gateway.look(frozenset())
    assert [lease.agent for lease in team.doors.look().held[P]] == ["w1"]
    team.clocks.passes(11)
    await team.gateway.look(frozenset())
    assert [
        lease.agent for lease in team.doors.look().held.get(P, ())
    ] == []  # the leader's place in line ended at the same time
    assert team.said()[-1] == "lease_expired"


async def test_a_laptop_that_sleeps_for_a_night_takes_no_lease_from_who_slept_with_it(team: TimedLeaseTeam) -> None:
    """During suspend nobody can renew a lease, and nobody else can want it."""
    await held(team)
    team.clocks.sleeps(8 * H)
    await team.gateway.look(None)
    assert team.held_for_s() == pytest.approx(1200, abs=1)
    assert team.said() == ["lease_granted", "lease_waiting"]
    assert not team.mails
    team.clocks.passes(1000)
    team.doors.renew("w1", P)
    assert team.held_for_s() == pytest.approx(1800, abs=1)


async def test_who_reads_the_file_by_itself_sees_the_time_of_today_after_a_step(team: TimedLeaseTeam) -> None:
    """The seed's own ``acquire_lock`` compares ``expires_at`` with its clock."""
    await held(team)
    team.clocks.is_set_by(2 * H)
    await team.gateway.look(None)
    until = utc_times.read(team.locks()[P]["expires_at"])
    assert until == pytest.approx(team.clocks.wall + 1200, abs=1)
    seen = (team.place / ".ackd/bus/locks.json").stat().st_mtime_ns
    await team.gateway.look(None)
    assert (team.place / ".ackd/bus/locks.json").stat().st_mtime_ns == seen, "written once"


@pytest.mark.parametrize(("away_s", "left_s"), [(-5 * H, 1800), (60, 1140), (2 * H, None)])
async def test_after_another_boot_wall_time_is_believed_up_to_the_length_of_the_lease(
    team: TimedLeaseTeam, monkeypatch: pytest.MonkeyPatch, away_s: float, left_s: float | None
) -> None:
    await held(team)
    monkeypatch.setattr(lease_files, "_boot", lambda: "another boot")
    team.clocks.mono = 20.0
    team.clocks.wall += away_s
    team.restart()
    await team.gateway.look(None)
    if left_s is None:
        assert team.said()[-1] == "lease_expired"
        return
    assert team.held_for_s() == pytest.approx(left_s, abs=1)
    team.clocks.passes(left_s - 10)
    await team.gateway.look(None)
    assert team.held_for_s() == pytest.approx(10, abs=1), "the limit counts from the start, not from every look"


async def test_a_lease_made_by_hand_goes_by_the_monotonic_clock_from_its_first_look_on(team: TimedLeaseTeam) -> None:
    now = team.clocks.wall
    entry = {"worker_id": "w1", "acquired_at": utc_times.write(now), "expires_at": utc_times.write(now + 1800)}
    (team.place / ".ackd/bus/locks.json").write_text(json.dumps({P: entry}))
    await team.gateway.look(None)
    team.clocks.is_set_by(2 * H)
    await team.gateway.look(None)
    assert team.held_for_s() == pytest.approx(1800, abs=1)
    assert "lease_expired" not in team.said()


async def test_progress_renews_also_after_the_clock_was_set_back(team: TimedLeaseTeam) -> None:
    from ackd.coordination.bus.rules.words import BusLine, BusType

    await held(team)
    track = team.gateway._buses[str(team.place / ".ackd/bus")].track

    async def progress(number: int) -> None:
        line = BusLine(number, number + 1, f"m{number}", BusType.PROGRESS, "w1", team.clocks.wall, {})
        await team.gateway.line(track, line)

    await progress(1)
    team.clocks.is_set_by(-2 * H)
    team.clocks.passes(60)
    await progress(2)
    assert team.held_for_s() == pytest.approx(1800, abs=1)
