"""The gateway of leases on real files. Lists of mail, events and log lines stand for the daemon."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.coordination.bus.rules.layout import Track, event_name
from ackd.coordination.bus.rules.words import BusLine, BusType, FileWait
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.gateway import GatewayServices, LookRefused
from ackd.coordination.leases.gateway import LeaseGateway
from ackd.coordination.leases.rules.words import Ask
from ackd.core.events import AgentWaits, Event, Now
from ackd.core.message import identity
from ackd.core.signals import AgentChanged, RunFinished, RunStarted, Signal, TaskEnded
from ackd.core.waits import Wait
from ackd.formats import utc_times
from ackd.leases import Leases
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

P = "src/a.py"
AGENTS = ("leader", "builder", "reader_1")


class SkewedClock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Now:
        return Now(time.monotonic() + self.ahead, time.time() + self.ahead)


class LeaseTeam:
    """A project with one bus, and a gateway that can be killed and made again."""

    def __init__(self, place: Path, **config: Any) -> None:
        self.place, self.clock = place, SkewedClock()
        self.config = BusSettings(**config)
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.mails: dict[str, Draft] = {}
        self.posted: list[Event] = []
        (place / ".ackd/state/gateways").mkdir(parents=True)
        (place / ".ackd/logs").mkdir()
        self.bus = self.new_bus(place / ".ackd/bus")
        self.doors = Leases(self.bus.bus, place)
        self.offset = 0
        self.settle_s = 0.0
        self.restart()

    def new_bus(self, path: Path) -> Track:
        path.mkdir(parents=True)
        (path / "events").mkdir()
        return Track(str(path), "house" if path.name == "bus" else path.parent.name)

    def restart(self) -> None:
        services = GatewayServices(
            clock=self.clock,
            record=self.lines.append,
            mail=self._mail,
            post=self.posted.append,
            called=lambda name: next((one for one in AGENTS if identity(one) == identity(name)), None),
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            live=live_config(settle_s=self.settle_s),
            durable=False,
        )
        self.gateway = LeaseGateway(self.config, services)

    async def _mail(self, draft: Draft) -> None:
        self.mails[draft.message_id] = draft

    def said(self, *types: str) -> list[tuple[str, object, object]]:
        return [(t, data.get("path"), data.get("agent")) for t, data in self.lines if not types or t in types]

    async def say(
        self, type_: BusType, source: str, *, again: bool = False, at: float | None = None, **payload: object
    ) -> None:
        if not again:
            self.offset += 100
        line = BusLine(
            self.offset, self.offset + 100, f"msg-{self.offset}", type_, source, at or time.time(), payload, again
        )
        await self.gateway.line(self.bus, line)

    def holders(self) -> list[str]:
        return [lease.agent for lease in self.doors.look().held.get(P, ())]

    def on_the_bus(self) -> list[tuple[str, str]]:
        text = (
            (self.place / ".ackd/bus/queue.jsonl").read_text()
            if (self.place / ".ackd/bus/queue.jsonl").exists()
            else ""
        )
        return [(line["type"], line["source"]) for line in map(json.loads, text.splitlines())]

    def event(self, type_: str, subject: str = P) -> bool:
        return (self.place / ".ackd/bus/events" / event_name(type_, subject)).exists()


@pytest.fixture
def team(tmp_path: Path) -> LeaseTeam:
    return LeaseTeam(tmp_path)


# --- others' changes are logged ---------------------------------------------------------------------------------------
async def test_what_the_doors_did_is_written_down_once(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    await team.gateway.look(None)
    await team.gateway.look(None)
    team.doors.release("w1", P)
    await team.gateway.look(frozenset({team.bus.bus}))
    team.restart()
    await team.gateway.look(None)
    assert team.said() == [("lease_granted", P, "w1"), ("lease_released", P, "w1")]
    assert team.on_the_bus() == [("FILE_LOCK", "w1"), ("FILE_UNLOCK", "w1")]


async def test_nothing_is_looked_at_where_there_is_no_bus(tmp_path: Path) -> None:
    team = LeaseTeam(tmp_path)
    (tmp_path / ".ackd/bus/events").rmdir()
    (tmp_path / ".ackd/bus").rmdir()
    assert await team.gateway.look(None) is None
    assert team.gateway.page() == {}


async def test_a_lease_that_is_over_is_taken_back_and_said(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1", ttl_s=60)
    next_look_s = await team.gateway.look(None)
    assert next_look_s == pytest.approx(60, abs=2)
    team.clock.ahead = 61  # only the gateway's clock; the clock of the files must agree
    assert team.holders() == ["w1"]
    team.clock.ahead = 0
    team.doors.files.change(lambda table, now, dead: _aged(table))
    await team.gateway.look(frozenset())
    await team.gateway.look(None)
    assert team.holders() == []
    assert team.said()[-1] == ("lease_expired", P, "w1")
    assert team.on_the_bus()[-1] == ("FILE_UNLOCK", "w1")
    assert team.event("FILE_UNLOCK")
    assert (team.place / ".ackd/bus/events/FILE_UNLOCK_all.event").exists()


async def test_a_broken_table_of_one_track_keeps_no_other_waiting_and_who_is_through_is_not_forgotten(
    tmp_path: Path,
) -> None:
    team = LeaseTeam(tmp_path, tracks=("tracks/*",))
    other = team.new_bus(tmp_path / "tracks/a-first/.message-bus")
    doors = Leases(other.bus, tmp_path)
    doors.acquire("b.py", "builder")
    team.doors.acquire(P, "builder")
    await team.gateway.look(None)
    locks = tmp_path / "tracks/a-first/.message-bus/locks.json"
    kept = locks.rename(locks.with_suffix(".away"))
    locks.symlink_to("/etc/passwd")
    team.gateway.heard(TaskEnded("builder"))
    with pytest.raises(LookRefused, match=r"track a-first: .*symbolic"):
        await team.gateway.look(frozenset())
    assert team.holders() == []
    kept.replace(locks)
    await team.gateway.look(frozenset())
    assert doors.look().held == {}


def _aged(table: Any) -> Any:
    from ackd.coordination.leases.rules.words import Change

    held = {path: tuple(one._replace(expires_at=time.time() - 1) for one in each) for path, each in table.held.items()}
    return Change(table._replace(held=held), ())


async def test_an_agent_in_line_is_given_its_lease_and_told_by_mail_and_event(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    team.doors.ask(P, Ask("builder", until=time.time() + 60))
    await team.gateway.look(None)
    team.doors.release("w1", P)  # any process may release it; the daemon sends the notice
    await team.gateway.look(None)
    assert team.holders() == ["builder"]
    assert ("lease_waiting", P, "builder") in team.said()
    (mail,) = team.mails.values()
    assert (mail.recipient, mail.sender, mail.type) == ("builder", "queue_monitor", "message")
    assert f"ackd lock release {P}" in str(mail.body["content"])
    assert team.event("FILE_LOCK")


async def test_a_grant_that_a_crash_left_untold_is_told_by_the_next_daemon(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    team.doors.ask(P, Ask("builder", until=time.time() + 60))
    team.doors.release("w1", P)
    await team.gateway.look(None)
    first = dict(team.mails)
    for path in (team.place / ".ackd/state/gateways").iterdir():
        path.unlink()  # the daemon was killed before it saved that the notice was sent
    team.restart()
    await team.gateway.look(None)
    assert first
    assert team.mails.keys() == first.keys()


# --- signs of life and ends -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "signal",
    [
        TaskEnded("builder"),
        AgentChanged("builder", down=True),
        RunFinished("builder"),
    ],
)
async def test_who_has_ended_holds_nothing(team: LeaseTeam, signal: Signal) -> None:
    team.doors.acquire(P, "builder")
    team.doors.acquire("other", "leader")
    await team.gateway.look(None)
    team.gateway.heard(signal)
    await team.gateway.look(frozenset())
    assert list(team.doors.look().held) == ["other"]
    assert team.said()[-1] == ("lease_released", P, "builder")


@pytest.mark.parametrize("signal", [AgentChanged("builder", down=False), RunStarted("builder")])
async def test_who_has_not_ended_keeps_what_it_holds(team: LeaseTeam, signal: Signal) -> None:
    team.doors.acquire(P, "builder")
    team.gateway.heard(signal)
    await team.gateway.look(None)
    assert team.holders() == ["builder"]


async def test_a_command_that_ends_beside_another_of_its_agent_takes_nothing_from_it(team: LeaseTeam) -> None:
    team.doors.acquire(P, "builder")
    for signal in (RunStarted("builder"), RunStarted("builder"), RunFinished("builder")):
        team.gateway.heard(signal)
    await team.gateway.look(None)
    assert team.holders() == ["builder"]
    team.gateway.heard(RunFinished("builder"))
    await team.gateway.look(None)
    assert team.holders() == []


async def test_what_was_leased_after_the_end_is_kept(team: LeaseTeam) -> None:
    team.gateway.heard(TaskEnded("builder"))
    team.doors.acquire(P, "builder")
    await team.gateway.look(None)
    assert team.holders() == ["builder"]


async def test_a_worker_ends_with_the_agent_that_it_is(tmp_path: Path) -> None:
    team = LeaseTeam(tmp_path, workers={"worker-7*": "builder"})
    team.doors.acquire(P, "worker-7.1-xyz")
    team.gateway.heard(TaskEnded("builder"))
    await team.gateway.look(None)
    assert team.holders() == []


async def test_an_end_that_a_killed_daemon_only_wrote_down_is_acted_on(team: LeaseTeam) -> None:
    team.doors.acquire(P, "builder")
    line = {"timestamp": utc_times.write(time.time() + 1), "session_id": "s", "seq": 1, "writer": "d"}
    log = team.place / ".ackd/logs/session-20261116-010203.ndjson"
    log.write_text(
        json.dumps({**line, "type": "task_complete", "data": {"agent": "builder", "message_id": "m"}}) + "\n"
    )
    await team.gateway.look(None)
    assert team.holders() == []


async def test_a_heartbeat_renews_and_a_completed_worker_lets_go(team: LeaseTeam) -> None:
    lease = team.doors.acquire(P, "w1", ttl_s=100)
    status = team.place / ".ackd/bus/worker-status.json"
    beat = lease.acquired_at + 0.001
    status.write_text(json.dumps({"w1": {"status": "RUNNING", "last_heartbeat": utc_times.write(time.time() + 900)}}))
    await team.gateway.look(None)
    renewed = team.doors.look().held[P][0]
    assert renewed.expires_at == pytest.approx(time.time() + 100, abs=5)  # a heartbeat from the future renews nothing
    assert "lease_renewed" not in [type_ for type_, _, _ in team.said()]
    status.write_text(json.dumps({"w1": {"status": "COMPLETE", "last_heartbeat": utc_times.write(beat)}, "w2": 5}))
    await team.gateway.look(None)
    assert team.holders() == []


async def test_status_files_that_cannot_be_read_say_nothing(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    for text in ("", "[]", '{"w1": {"last_heartbeat": "soon"}}', '{"w1"'):
        (team.place / ".ackd/bus/worker-status.json").write_text(text)
        await team.gateway.look(None)
    assert team.holders() == ["w1"]


# --- lines of the bus -----------------------------------------------------------------------------------------------------
async def test_agents_that_only_echo_are_served_in_order(team: LeaseTeam) -> None:
    await team.say(BusType.FILE_LOCK, "w1", filepath=P)
    await team.say(BusType.FILE_LOCK, "builder", filepath=f"./{P}")
    await team.say(BusType.FILE_LOCK, "w3", filepath=P)
    assert team.holders() == ["w1"]
    (told,) = team.mails.values()
    assert "stands in line behind w1" in str(told.body["content"])
    await team.gateway.look(None)
    await team.say(BusType.FILE_UNLOCK, "w1", filepath=P)
    await team.gateway.look(None)
    assert team.holders() == ["builder"]
    assert len(team.mails) == 2
    await team.say(BusType.TASK_COMPLETE, "builder", task_id="1")
    await team.gateway.look(None)
    assert team.holders() == ["w3"]
    assert team.said("lease_granted") == [("lease_granted", P, one) for one in ("w1", "builder", "w3")]
    assert [one for one in team.on_the_bus() if one[0] == "FILE_LOCK"] == [
        ("FILE_LOCK", one) for one in ("w1", "builder", "w3")
    ]


async def test_a_line_that_comes_again_changes_nothing(team: LeaseTeam) -> None:
    await team.say(BusType.FILE_LOCK, "w1", filepath=P)
    await team.say(BusType.FILE_UNLOCK, "w1", filepath=P)
    team.restart()
    team.doors.acquire(P, "w1")
    await team.say(BusType.FILE_UNLOCK, "w1", again=True, filepath=P)
    assert team.holders() == ["w1"]


async def test_a_line_that_records_what_a_door_did_changes_nothing(team: LeaseTeam) -> None:
    lease = team.doors.acquire(P, "w1")
    team.doors.release("w1", P)
    await team.say(BusType.FILE_LOCK, "w1", filepath=P, token=lease.token)
    assert team.holders() == []
    team.doors.acquire(P, "w1")
    await team.say(BusType.FILE_UNLOCK, "w1", filepath=P, token=lease.token)
    assert team.holders() == ["w1"]


async def test_history_is_not_lived_again(team: LeaseTeam) -> None:
    (team.place / ".ackd/bus/queue.jsonl").write_text("x" * 10_000)
    long_ago = time.time() - 5000
    team.doors.acquire(P, "w1")
    await team.say(BusType.FILE_LOCK, "w2", at=long_ago, filepath="other")
    await team.say(BusType.TASK_COMPLETE, "w1", at=long_ago)
    await team.say(BusType.FILE_UNLOCK, "w1", at=long_ago, filepath=P)
    assert list(team.doors.look().held) == [P]
    await team.say(BusType.FILE_LOCK, "w2", at=time.time() - 60, filepath="other")
    assert team.doors.look().held["other"][0].expires_at == pytest.approx(time.time() + 1740, abs=5)


@pytest.mark.parametrize(("type_", "payload"), [(BusType.TASK_COMPLETE, {}), (BusType.FILE_UNLOCK, {"filepath": P})])
async def test_a_line_that_is_read_late_takes_nothing_that_was_leased_after_it(
    team: LeaseTeam, type_: BusType, payload: dict[str, Any]
) -> None:
    """The daemon was down, or slow: w1 had let the file go, and has leased it again since."""
    said_at = time.time()
    team.doors.acquire(P, "w1")
    await team.say(type_, "w1", at=said_at - 0.5, **payload)
    assert team.holders() == ["w1"]
    edit(team, **{P: entry("w1")})  # the same holds for a lease made by hand
    await team.say(type_, "w1", at=said_at - 0.5, **payload)
    await team.gateway.look(None)
    assert team.holders() == ["w1"]


@pytest.mark.parametrize(("type_", "payload"), [(BusType.TASK_FAILED, {}), (BusType.FILE_UNLOCK, {"filepath": P})])
async def test_what_the_bus_said_was_leased_before_is_let_go_whatever_time_a_line_gives_itself(
    team: LeaseTeam, type_: BusType, payload: dict[str, Any]
) -> None:
    """Models copy a time from an example, and the daemon may read a line long after it was written."""
    long_ago = time.time() - 86_400.5
    lease = team.doors.acquire(P, "w1")
    await team.say(BusType.FILE_LOCK, "w1", filepath=P, token=lease.token)
    team.restart()
    await team.say(type_, "w1", at=long_ago, **payload)
    assert team.holders() == []
    await team.say(BusType.FILE_LOCK, "w2", at=long_ago, filepath=P)
    await team.say(BusType.FILE_LOCK, "w1", at=long_ago, filepath=P)
    await team.say(type_, "w1", at=long_ago, **payload)
    assert not team.doors.look().waiting
    edit(team, **{P: entry("w1")})
    await team.say(BusType.FILE_LOCK, "w1", at=long_ago, filepath=P)
    await team.say(type_, "w1", at=long_ago, **payload)
    assert team.holders() == []


async def test_who_stood_in_line_after_it_was_through_still_stands_there(team: LeaseTeam) -> None:
    said_at = time.time() - 0.5
    team.doors.acquire(P, "w1")
    team.doors.ask(P, Ask("w2", until=time.time() + 100))
    await team.say(BusType.TASK_COMPLETE, "w2", at=said_at)
    assert [waiter.agent for waiter in team.doors.look().waiting[P]] == ["w2"]


async def test_a_time_in_whole_seconds_lets_go_of_what_was_leased_in_that_second(team: LeaseTeam) -> None:
    lease = team.doors.acquire(P, "w1")
    team.clock.ahead = 2
    await team.say(BusType.TASK_COMPLETE, "w1", at=float(int(lease.acquired_at)))
    assert team.holders() == []


async def test_a_path_that_leads_out_is_refused_and_said(team: LeaseTeam) -> None:
    for bad in ("../x", "/etc/passwd", "", None, "a\nb"):
        await team.say(BusType.FILE_LOCK, "w1", filepath=bad)
    assert team.doors.look().held == {}
    assert [type_ for type_, _, _ in team.said()] == ["lease_refused"] * 5


async def test_shared_locks_and_their_own_ends_are_understood(team: LeaseTeam) -> None:
    until = utc_times.write(time.time() + 300)
    await team.say(BusType.FILE_LOCK, "w1", filepath=P, lock_type="shared", expires_at=until)
    await team.say(BusType.FILE_LOCK, "w2", filepath=P, lock_type="read")
    assert team.holders() == ["w1", "w2"]
    assert team.doors.look().held[P][0].expires_at == pytest.approx(time.time() + 300, abs=5)


async def test_progress_renews_now_and_then(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1", ttl_s=1000)
    team.doors.files.change(lambda table, now, dead: _soon_over(table))
    await team.say(BusType.PROGRESS, "w1", task_id="1")
    assert team.doors.look().held[P][0].expires_at > time.time() + 900


def _soon_over(table: Any) -> Any:
    from ackd.coordination.leases.rules.words import Change

    held = {path: tuple(one._replace(expires_at=time.time() + 20) for one in each) for path, each in table.held.items()}
    return Change(table._replace(held=held), ())


# --- by hand --------------------------------------------------------------------------------------------------------------
def edit(team: LeaseTeam, **entries: dict[str, str]) -> None:
    (team.place / ".ackd/bus/locks.json").write_text(json.dumps(entries, indent=2))


def entry(worker: str) -> dict[str, str]:
    """Return an entry of locks.json as the seed writes it."""
    now = time.time()
    return {"worker_id": worker, "acquired_at": utc_times.write(now), "expires_at": utc_times.write(now + 1800)}


async def test_a_lease_made_by_hand_is_adopted_and_kept_as_it_was_spelled(team: LeaseTeam) -> None:
    edit(team, **{"./src//a.py": entry("w1")})
    await team.gateway.look(None)
    found = json.loads((team.place / ".ackd/bus/locks.json").read_text())
    assert found["./src//a.py"]["token"] == 1
    assert team.said() == [("lease_granted", P, "w1")]
    await team.say(BusType.FILE_LOCK, "w1", filepath="./src//a.py")  # the line that the seed posts next
    await team.say(BusType.FILE_LOCK, "w2", filepath=P)
    assert team.holders() == ["w1"]


async def test_a_hand_that_takes_a_lease_is_reported_and_not_undone(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    await team.gateway.look(None)
    edit(team, **{P: entry("w2")})
    await team.gateway.look(None)
    assert team.holders() == ["w2"]
    assert team.said("lease_broken") == [("lease_broken", P, "w1")]
    assert ("lease_granted", P, "w2") in team.said()


async def test_a_hand_that_takes_a_lease_is_named_when_its_holder_has_had_time_to_say_that_it_let_go(
    team: LeaseTeam,
) -> None:
    team.settle_s = 0.02
    team.restart()
    team.doors.acquire(P, "w1")
    await team.gateway.look(None)
    edit(team, **{P: entry("w2")})
    next_look_s = await team.gateway.look(None)
    assert next_look_s is not None
    assert next_look_s <= 0.02 + 1e-6  # the difference of two times is not exact
    assert team.said("lease_broken") == []
    await anyio.sleep(0.03)
    await team.gateway.look(frozenset())
    assert team.said("lease_broken") == []  # that look was for no bus
    await team.gateway.look(None)
    assert team.said("lease_broken") == [("lease_broken", P, "w1")]


def said_by_hand(team: LeaseTeam, type_: str, source: str, path: str = P) -> None:
    """Post a line as the seed's ``post_message`` does: without token and reason."""
    line = {"id": f"msg-{source}", "type": type_, "source": source, "timestamp": utc_times.write(time.time())}
    with (team.place / ".ackd/bus/queue.jsonl").open("a") as queue:
        queue.write(json.dumps({**line, "payload": {"filepath": path}}) + "\n")


@pytest.mark.parametrize("spelled", [P, "./src//a.py"])
async def test_who_frees_a_file_by_hand_and_says_so_is_neither_robbed_nor_spoken_for_when_another_has_it(
    team: LeaseTeam, spelled: str
) -> None:
    """The seed's ``release_lock`` and ``acquire_lock``, one after the other, between two looks."""
    edit(team, **{P: entry("w1")})
    await team.gateway.look(None)
    said_by_hand(team, "FILE_UNLOCK", "w1", spelled)
    edit(team, **{P: entry("w2")})
    said_by_hand(team, "FILE_LOCK", "w2")
    await team.gateway.look(None)
    assert team.said("lease_broken") == []
    assert ("lease_released", P, "w1") in team.said()
    assert team.on_the_bus()[-1] == ("FILE_LOCK", "w2"), "nobody says that it is free"
    assert not team.event("FILE_UNLOCK")


async def test_no_file_is_said_to_be_free_while_another_has_it(team: LeaseTeam) -> None:
    edit(team, **{P: entry("w1")})
    await team.gateway.look(None)
    edit(team, **{P: entry("w2")})  # and w1 posts no FILE_UNLOCK
    await team.gateway.look(None)
    assert team.said("lease_broken") == [("lease_broken", P, "w1")]
    assert ("FILE_UNLOCK", "w1") not in team.on_the_bus()
    assert not team.event("FILE_UNLOCK")


async def test_an_unlock_of_an_earlier_lease_excuses_no_theft(team: LeaseTeam) -> None:
    said_by_hand(team, "FILE_UNLOCK", "w1")
    acquired = utc_times.write(time.time() + 2)
    edit(team, **{P: {**entry("w1"), "acquired_at": acquired}})
    await team.gateway.look(None)
    edit(team, **{P: {**entry("w2"), "acquired_at": acquired}})
    await team.gateway.look(None)
    assert team.said("lease_broken") == [("lease_broken", P, "w1")]


async def test_releasing_by_hand_wakes_who_waits(team: LeaseTeam) -> None:
    team.doors.acquire(P, "w1")
    team.doors.ask(P, Ask("builder", until=time.time() + 60))
    await team.gateway.look(None)
    edit(team)
    await team.gateway.look(None)
    assert team.holders() == ["builder"]
    assert team.said("lease_released", "lease_broken") == [("lease_released", P, "w1")]
    assert team.event("FILE_LOCK"), "for who waited"
    assert not team.event("FILE_UNLOCK"), "it is not free"


async def test_a_file_that_cannot_be_read_is_set_aside_and_said(team: LeaseTeam) -> None:
    (team.place / ".ackd/bus/locks.json").write_text('{"src/a.py": {"worker')
    await team.gateway.look(None)
    assert team.said() == [("lease_unreadable", None, None)]
    (kept,) = (team.place / ".ackd/bus").glob("locks.json.unreadable-*")
    assert kept.read_text() == '{"src/a.py": {"worker'
    await team.gateway.look(None)
    assert (team.place / ".ackd/bus/locks.json").read_text() == "{}\n"
    assert len(team.said()) == 1


# --- several buses, and who waits for whom ----------------------------------------------------------------------------------
async def test_two_buses_that_lease_one_file_are_a_conflict_said_once(tmp_path: Path) -> None:
    team = LeaseTeam(tmp_path, tracks=("tracks/*",))
    for name, agent in (("one", "w1"), ("two", "w2")):
        bus = team.new_bus(tmp_path / "tracks" / name / ".message-bus")
        Leases(bus.bus, tmp_path).acquire(P, agent)
    await team.gateway.look(None)
    await team.gateway.look(None)
    assert [data for type_, data in team.lines if type_ == "lease_conflict"] == [
        {"path": P, "tracks": ["one", "two"], "agents": ["w1", "w2"]}
    ]
    assert {str(tmp_path / "tracks"), str(tmp_path / "tracks/one/.message-bus")} <= team.gateway.places()


async def test_an_agent_that_waits_for_a_lease_is_said_to_wait_until_it_has_it(team: LeaseTeam) -> None:
    team.doors.acquire(P, "leader")
    team.doors.ask(P, Ask("builder", until=time.time() + 60))
    for _ in range(2):  # each change is posted once
        await team.gateway.look(None)
    wait = Wait("leader", f"the lease on {P}")
    assert team.posted == [AgentWaits("builder", "leases", (wait,))]
    team.doors.release("leader", P)
    await team.gateway.look(None)
    assert team.posted[1:] == [AgentWaits("builder", "leases", ())]


async def test_who_waits_for_whom_is_known(team: LeaseTeam) -> None:
    for agent, shared in (("a", True), ("b", True)):
        team.doors.acquire(P, agent, shared=shared)
    team.doors.ask(P, Ask("c", until=time.time() + 60))
    team.doors.ask(P, Ask("d", shared=True, until=time.time() + 60))
    await team.gateway.look(None)
    edges = [(wait.waiter, wait.holder) for wait in await team.gateway.waits(team.bus)]
    assert edges == [("c", "a"), ("c", "b"), ("d", "c")]
    assert await team.gateway.waits(Track("/nowhere", "x")) == []
    said = [("e", f"./{P}"), ("e", "1.2"), ("e", "../out"), ("a", P), ("c", P)]
    found = await team.gateway.waits(team.bus, [FileWait(waiter, name, 1.0) for waiter, name in said])
    assert [(wait.waiter, wait.holder) for wait in found[3:]] == [("e", "a"), ("e", "b"), ("a", "b")]
    page: Any = team.gateway.page()["house"]
    assert (page["leases"], page["waiters"]) == (2, 2)
