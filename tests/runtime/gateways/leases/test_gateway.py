"""The gateway of leases on real files; the daemon around it is a list of what was recorded and mailed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.config_coordination import Bus
from ackd.core import utc_times
from ackd.core.bus_layout import Track, event_name
from ackd.core.bus_words import BusLine, BusType
from ackd.core.deadlock import FileWait
from ackd.core.events import AgentWaits, Event, Now
from ackd.core.lease_words import Ask
from ackd.core.message import identity
from ackd.core.waits import Wait
from ackd.leases import Leases
from ackd.runtime.gateways.gateway import Around, LookRefused
from ackd.runtime.gateways.leases import LeaseGateway

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

P = "src/a.py"
AGENTS = ("leader", "builder", "reader_1")


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Now:
        return Now(time.monotonic() + self.ahead, time.time() + self.ahead)


class House:
    """A project with one bus, and a gateway that can be killed and made again."""

    def __init__(self, place: Path, **config: Any) -> None:
        self.place, self.clock = place, Clock()
        self.config = Bus(**config)
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
        around = Around(
            clock=self.clock,
            record=lambda type_, data: self.lines.append((type_, data)),
            mail=self._mail,
            post=self.posted.append,
            called=lambda name: next((one for one in AGENTS if identity(one) == identity(name)), None),
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            settle_s=self.settle_s,
            durable=False,
        )
        self.gateway = LeaseGateway(self.config, around)

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
def house(tmp_path: Path) -> House:
    return House(tmp_path)


# --- what others did is written down ------------------------------------------------------------------------------------
async def test_what_the_doors_did_is_written_down_once(house: House) -> None:
    house.doors.acquire(P, "w1")
    await house.gateway.look(None)
    await house.gateway.look(None)
    house.doors.release("w1", P)
    await house.gateway.look(frozenset({house.bus.bus}))
    house.restart()
    await house.gateway.look(None)
    assert house.said() == [("lease_granted", P, "w1"), ("lease_released", P, "w1")]
    assert house.on_the_bus() == [("FILE_LOCK", "w1"), ("FILE_UNLOCK", "w1")]


async def test_nothing_is_looked_at_where_there_is_no_bus(tmp_path: Path) -> None:
    house = House(tmp_path)
    (tmp_path / ".ackd/bus/events").rmdir()
    (tmp_path / ".ackd/bus").rmdir()
    assert await house.gateway.look(None) is None
    assert house.gateway.page() == {}


async def test_a_lease_that_is_over_is_taken_back_and_said(house: House) -> None:
    house.doors.acquire(P, "w1", ttl_s=60)
    wish = await house.gateway.look(None)
    assert wish == pytest.approx(60, abs=2)
    house.clock.ahead = 61  # the gateway sees that it is over; the files' own clock must agree
    assert house.holders() == ["w1"]
    house.clock.ahead = 0
    house.doors.files.change(lambda table, now, dead: _aged(table))
    await house.gateway.look(frozenset())
    await house.gateway.look(None)
    assert house.holders() == []
    assert house.said()[-1] == ("lease_expired", P, "w1")
    assert house.on_the_bus()[-1] == ("FILE_UNLOCK", "w1")
    assert house.event("FILE_UNLOCK")
    assert (house.place / ".ackd/bus/events/FILE_UNLOCK_all.event").exists()


async def test_a_broken_table_of_one_track_keeps_no_other_waiting_and_who_is_through_is_not_forgotten(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, tracks=("tracks/*",))
    other = house.new_bus(tmp_path / "tracks/a-first/.message-bus")
    doors = Leases(other.bus, tmp_path)
    doors.acquire("b.py", "builder")
    house.doors.acquire(P, "builder")
    await house.gateway.look(None)
    locks = tmp_path / "tracks/a-first/.message-bus/locks.json"
    kept = locks.rename(locks.with_suffix(".away"))
    locks.symlink_to("/etc/passwd")
    house.gateway.heard("task_complete", {"agent": "builder"})
    with pytest.raises(LookRefused, match=r"track a-first: .*symbolic"):
        await house.gateway.look(frozenset())
    assert house.holders() == []
    kept.replace(locks)
    await house.gateway.look(frozenset())
    assert doors.look().held == {}


def _aged(table: Any) -> Any:
    from ackd.core.lease_words import Change

    held = {path: tuple(one._replace(expires_at=time.time() - 1) for one in each) for path, each in table.held.items()}
    return Change(table._replace(held=held), ())


async def test_an_agent_in_line_is_given_its_lease_and_told_by_mail_and_event(house: House) -> None:
    house.doors.acquire(P, "w1")
    house.doors.ask(P, Ask("builder", until=time.time() + 60))
    await house.gateway.look(None)
    house.doors.release("w1", P)  # by whatever process: the daemon tells
    await house.gateway.look(None)
    assert house.holders() == ["builder"]
    assert ("lease_waiting", P, "builder") in house.said()
    (mail,) = house.mails.values()
    assert (mail.recipient, mail.sender, mail.type) == ("builder", "queue_monitor", "message")
    assert f"ackd lock release {P}" in str(mail.body["content"])
    assert house.event("FILE_LOCK")


async def test_a_grant_that_a_crash_left_untold_is_told_by_the_next_daemon(house: House) -> None:
    house.doors.acquire(P, "w1")
    house.doors.ask(P, Ask("builder", until=time.time() + 60))
    house.doors.release("w1", P)
    await house.gateway.look(None)
    first = dict(house.mails)
    for path in (house.place / ".ackd/state/gateways").iterdir():
        path.unlink()  # it was killed before it noted that it had told
    house.restart()
    await house.gateway.look(None)
    assert first
    assert house.mails.keys() == first.keys()


# --- signs of life and ends -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("type_", "data"),
    [
        ("task_complete", {}),
        ("task_failed", {"reason": "exit 1"}),
        ("agent_state", {"state": "down"}),
        ("liveness", {"liveness": "down", "before": "alive"}),
        ("child_ended", {"message_id": "m", "exit": 0}),
    ],
)
async def test_who_has_ended_holds_nothing(house: House, type_: str, data: dict[str, object]) -> None:
    house.doors.acquire(P, "builder")
    house.doors.acquire("other", "leader")
    await house.gateway.look(None)
    house.gateway.heard(type_, {"agent": "builder", **data})
    await house.gateway.look(frozenset())
    assert list(house.doors.look().held) == ["other"]
    assert house.said()[-1] == ("lease_released", P, "builder")


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        ("agent_state", {"state": "parked"}),
        ("liveness", {"liveness": "suspect"}),
        ("child_ended", {"why": "handed over"}),
        ("child_started", {"message_id": "m"}),
    ],
)
async def test_who_has_not_ended_keeps_what_it_holds(house: House, type_: str, data: dict[str, object]) -> None:
    house.doors.acquire(P, "builder")
    house.gateway.heard(type_, {"agent": "builder", **data})
    await house.gateway.look(None)
    assert house.holders() == ["builder"]


async def test_a_command_that_ends_beside_another_of_its_agent_takes_nothing_from_it(house: House) -> None:
    house.doors.acquire(P, "builder")
    for type_ in ("child_started", "child_started", "child_ended"):
        house.gateway.heard(type_, {"agent": "builder", "message_id": "m"})
    await house.gateway.look(None)
    assert house.holders() == ["builder"]
    house.gateway.heard("child_ended", {"agent": "builder", "message_id": "n"})
    await house.gateway.look(None)
    assert house.holders() == []


async def test_what_was_leased_after_the_end_is_kept(house: House) -> None:
    house.gateway.heard("task_complete", {"agent": "builder"})
    house.doors.acquire(P, "builder")
    await house.gateway.look(None)
    assert house.holders() == ["builder"]


async def test_a_worker_ends_with_the_agent_that_it_is(tmp_path: Path) -> None:
    house = House(tmp_path, workers={"worker-7*": "builder"})
    house.doors.acquire(P, "worker-7.1-xyz")
    house.gateway.heard("task_failed", {"agent": "builder"})
    await house.gateway.look(None)
    assert house.holders() == []


async def test_an_end_that_a_killed_daemon_only_wrote_down_is_acted_on(house: House) -> None:
    house.doors.acquire(P, "builder")
    line = {"timestamp": utc_times.write(time.time() + 1), "session_id": "s", "seq": 1, "writer": "d"}
    log = house.place / ".ackd/logs/session-20261116-010203.ndjson"
    log.write_text(
        json.dumps({**line, "type": "task_complete", "data": {"agent": "builder", "message_id": "m"}}) + "\n"
    )
    await house.gateway.look(None)
    assert house.holders() == []


async def test_a_heartbeat_renews_and_a_completed_worker_lets_go(house: House) -> None:
    lease = house.doors.acquire(P, "w1", ttl_s=100)
    status = house.place / ".ackd/bus/worker-status.json"
    beat = lease.acquired_at + 0.001
    status.write_text(json.dumps({"w1": {"status": "RUNNING", "last_heartbeat": utc_times.write(time.time() + 900)}}))
    await house.gateway.look(None)
    renewed = house.doors.look().held[P][0]
    assert renewed.expires_at == pytest.approx(time.time() + 100, abs=5)  # a clock that is ahead is not believed
    assert "lease_renewed" not in [type_ for type_, _, _ in house.said()]
    status.write_text(json.dumps({"w1": {"status": "COMPLETE", "last_heartbeat": utc_times.write(beat)}, "w2": 5}))
    await house.gateway.look(None)
    assert house.holders() == []


async def test_status_files_that_cannot_be_read_say_nothing(house: House) -> None:
    house.doors.acquire(P, "w1")
    for text in ("", "[]", '{"w1": {"last_heartbeat": "soon"}}', '{"w1"'):
        (house.place / ".ackd/bus/worker-status.json").write_text(text)
        await house.gateway.look(None)
    assert house.holders() == ["w1"]


# --- lines of the bus -----------------------------------------------------------------------------------------------------
async def test_agents_that_only_echo_are_served_in_order(house: House) -> None:
    await house.say(BusType.FILE_LOCK, "w1", filepath=P)
    await house.say(BusType.FILE_LOCK, "builder", filepath=f"./{P}")
    await house.say(BusType.FILE_LOCK, "w3", filepath=P)
    assert house.holders() == ["w1"]
    (told,) = house.mails.values()
    assert "stands in line behind w1" in str(told.body["content"])
    await house.gateway.look(None)
    await house.say(BusType.FILE_UNLOCK, "w1", filepath=P)
    await house.gateway.look(None)
    assert house.holders() == ["builder"]
    assert len(house.mails) == 2
    await house.say(BusType.TASK_COMPLETE, "builder", task_id="1")
    await house.gateway.look(None)
    assert house.holders() == ["w3"]
    assert house.said("lease_granted") == [("lease_granted", P, one) for one in ("w1", "builder", "w3")]
    assert [one for one in house.on_the_bus() if one[0] == "FILE_LOCK"] == [
        ("FILE_LOCK", one) for one in ("w1", "builder", "w3")
    ]


async def test_a_line_that_comes_again_changes_nothing(house: House) -> None:
    await house.say(BusType.FILE_LOCK, "w1", filepath=P)
    await house.say(BusType.FILE_UNLOCK, "w1", filepath=P)
    house.restart()
    house.doors.acquire(P, "w1")
    await house.say(BusType.FILE_UNLOCK, "w1", again=True, filepath=P)
    assert house.holders() == ["w1"]


async def test_a_line_that_records_what_a_door_did_changes_nothing(house: House) -> None:
    lease = house.doors.acquire(P, "w1")
    house.doors.release("w1", P)
    await house.say(BusType.FILE_LOCK, "w1", filepath=P, token=lease.token)
    assert house.holders() == []
    house.doors.acquire(P, "w1")
    await house.say(BusType.FILE_UNLOCK, "w1", filepath=P, token=lease.token)
    assert house.holders() == ["w1"]


async def test_history_is_not_lived_again(house: House) -> None:
    (house.place / ".ackd/bus/queue.jsonl").write_text("x" * 10_000)
    long_ago = time.time() - 5000
    house.doors.acquire(P, "w1")
    await house.say(BusType.FILE_LOCK, "w2", at=long_ago, filepath="other")
    await house.say(BusType.TASK_COMPLETE, "w1", at=long_ago)
    await house.say(BusType.FILE_UNLOCK, "w1", at=long_ago, filepath=P)
    assert list(house.doors.look().held) == [P]
    await house.say(BusType.FILE_LOCK, "w2", at=time.time() - 60, filepath="other")
    assert house.doors.look().held["other"][0].expires_at == pytest.approx(time.time() + 1740, abs=5)


@pytest.mark.parametrize(("type_", "payload"), [(BusType.TASK_COMPLETE, {}), (BusType.FILE_UNLOCK, {"filepath": P})])
async def test_a_line_that_is_read_late_takes_nothing_that_was_leased_after_it(
    house: House, type_: BusType, payload: dict[str, Any]
) -> None:
    """The daemon was away, or slow: w1 was through, and has leased the file anew since."""
    said_at = time.time()
    house.doors.acquire(P, "w1")
    await house.say(type_, "w1", at=said_at - 0.5, **payload)
    assert house.holders() == ["w1"]
    edit(house, **{P: entry("w1")})  # by hand, as well
    await house.say(type_, "w1", at=said_at - 0.5, **payload)
    await house.gateway.look(None)
    assert house.holders() == ["w1"]


@pytest.mark.parametrize(("type_", "payload"), [(BusType.TASK_FAILED, {}), (BusType.FILE_UNLOCK, {"filepath": P})])
async def test_what_the_bus_said_was_leased_before_is_let_go_whatever_time_a_line_gives_itself(
    house: House, type_: BusType, payload: dict[str, Any]
) -> None:
    """Models copy a time out of an example; and a line may be answered long after it was written."""
    long_ago = time.time() - 86_400.5
    lease = house.doors.acquire(P, "w1")
    await house.say(BusType.FILE_LOCK, "w1", filepath=P, token=lease.token)
    house.restart()
    await house.say(type_, "w1", at=long_ago, **payload)
    assert house.holders() == []
    await house.say(BusType.FILE_LOCK, "w2", at=long_ago, filepath=P)
    await house.say(BusType.FILE_LOCK, "w1", at=long_ago, filepath=P)
    await house.say(type_, "w1", at=long_ago, **payload)
    assert not house.doors.look().waiting
    edit(house, **{P: entry("w1")})
    await house.say(BusType.FILE_LOCK, "w1", at=long_ago, filepath=P)
    await house.say(type_, "w1", at=long_ago, **payload)
    assert house.holders() == []


async def test_who_stood_in_line_after_it_was_through_still_stands_there(house: House) -> None:
    said_at = time.time() - 0.5
    house.doors.acquire(P, "w1")
    house.doors.ask(P, Ask("w2", until=time.time() + 100))
    await house.say(BusType.TASK_COMPLETE, "w2", at=said_at)
    assert [waiter.agent for waiter in house.doors.look().waiting[P]] == ["w2"]


async def test_a_time_in_whole_seconds_lets_go_of_what_was_leased_in_that_second(house: House) -> None:
    lease = house.doors.acquire(P, "w1")
    house.clock.ahead = 2
    await house.say(BusType.TASK_COMPLETE, "w1", at=float(int(lease.acquired_at)))
    assert house.holders() == []


async def test_a_path_that_leads_out_is_refused_and_said(house: House) -> None:
    for bad in ("../x", "/etc/passwd", "", None, "a\nb"):
        await house.say(BusType.FILE_LOCK, "w1", filepath=bad)
    assert house.doors.look().held == {}
    assert [type_ for type_, _, _ in house.said()] == ["lease_refused"] * 5


async def test_shared_locks_and_their_own_ends_are_understood(house: House) -> None:
    until = utc_times.write(time.time() + 300)
    await house.say(BusType.FILE_LOCK, "w1", filepath=P, lock_type="shared", expires_at=until)
    await house.say(BusType.FILE_LOCK, "w2", filepath=P, lock_type="read")
    assert house.holders() == ["w1", "w2"]
    assert house.doors.look().held[P][0].expires_at == pytest.approx(time.time() + 300, abs=5)


async def test_progress_renews_now_and_then(house: House) -> None:
    house.doors.acquire(P, "w1", ttl_s=1000)
    house.doors.files.change(lambda table, now, dead: _soon_over(table))
    await house.say(BusType.PROGRESS, "w1", task_id="1")
    assert house.doors.look().held[P][0].expires_at > time.time() + 900


def _soon_over(table: Any) -> Any:
    from ackd.core.lease_words import Change

    held = {path: tuple(one._replace(expires_at=time.time() + 20) for one in each) for path, each in table.held.items()}
    return Change(table._replace(held=held), ())


# --- by hand --------------------------------------------------------------------------------------------------------------
def edit(house: House, **entries: dict[str, str]) -> None:
    (house.place / ".ackd/bus/locks.json").write_text(json.dumps(entries, indent=2))


def entry(worker: str) -> dict[str, str]:
    """As the seed writes one."""
    now = time.time()
    return {"worker_id": worker, "acquired_at": utc_times.write(now), "expires_at": utc_times.write(now + 1800)}


async def test_a_lease_made_by_hand_is_adopted_and_kept_as_it_was_spelled(house: House) -> None:
    edit(house, **{"./src//a.py": entry("w1")})
    await house.gateway.look(None)
    found = json.loads((house.place / ".ackd/bus/locks.json").read_text())
    assert found["./src//a.py"]["token"] == 1
    assert house.said() == [("lease_granted", P, "w1")]
    await house.say(BusType.FILE_LOCK, "w1", filepath="./src//a.py")  # what the seed posts next
    await house.say(BusType.FILE_LOCK, "w2", filepath=P)
    assert house.holders() == ["w1"]


async def test_a_hand_that_takes_a_lease_is_reported_and_not_undone(house: House) -> None:
    house.doors.acquire(P, "w1")
    await house.gateway.look(None)
    edit(house, **{P: entry("w2")})
    await house.gateway.look(None)
    assert house.holders() == ["w2"]
    assert house.said("lease_broken") == [("lease_broken", P, "w1")]
    assert ("lease_granted", P, "w2") in house.said()


async def test_a_hand_that_takes_a_lease_is_named_when_its_holder_has_had_time_to_say_that_it_let_go(
    house: House,
) -> None:
    house.settle_s = 0.02
    house.restart()
    house.doors.acquire(P, "w1")
    await house.gateway.look(None)
    edit(house, **{P: entry("w2")})
    wish = await house.gateway.look(None)
    assert wish is not None
    assert wish <= 0.02 + 1e-6  # it is the difference of two times
    assert house.said("lease_broken") == []
    await anyio.sleep(0.03)
    await house.gateway.look(frozenset())
    assert house.said("lease_broken") == []  # nobody asked for this bus
    await house.gateway.look(None)
    assert house.said("lease_broken") == [("lease_broken", P, "w1")]


def said_by_hand(house: House, type_: str, source: str, path: str = P) -> None:
    """As the seed's ``post_message``: no token, no reason."""
    line = {"id": f"msg-{source}", "type": type_, "source": source, "timestamp": utc_times.write(time.time())}
    with (house.place / ".ackd/bus/queue.jsonl").open("a") as queue:
        queue.write(json.dumps({**line, "payload": {"filepath": path}}) + "\n")


@pytest.mark.parametrize("spelled", [P, "./src//a.py"])
async def test_who_frees_a_file_by_hand_and_says_so_is_neither_robbed_nor_spoken_for_when_another_has_it(
    house: House, spelled: str
) -> None:
    """The seed's ``release_lock`` and ``acquire_lock``, one after the other, between two looks."""
    edit(house, **{P: entry("w1")})
    await house.gateway.look(None)
    said_by_hand(house, "FILE_UNLOCK", "w1", spelled)
    edit(house, **{P: entry("w2")})
    said_by_hand(house, "FILE_LOCK", "w2")
    await house.gateway.look(None)
    assert house.said("lease_broken") == []
    assert ("lease_released", P, "w1") in house.said()
    assert house.on_the_bus()[-1] == ("FILE_LOCK", "w2"), "nobody says that it is free"
    assert not house.event("FILE_UNLOCK")


async def test_no_file_is_said_to_be_free_while_another_has_it(house: House) -> None:
    edit(house, **{P: entry("w1")})
    await house.gateway.look(None)
    edit(house, **{P: entry("w2")})  # without a word of w1's
    await house.gateway.look(None)
    assert house.said("lease_broken") == [("lease_broken", P, "w1")]
    assert ("FILE_UNLOCK", "w1") not in house.on_the_bus()
    assert not house.event("FILE_UNLOCK")


async def test_an_unlock_of_an_earlier_lease_excuses_no_theft(house: House) -> None:
    said_by_hand(house, "FILE_UNLOCK", "w1")
    acquired = utc_times.write(time.time() + 2)
    edit(house, **{P: {**entry("w1"), "acquired_at": acquired}})
    await house.gateway.look(None)
    edit(house, **{P: {**entry("w2"), "acquired_at": acquired}})
    await house.gateway.look(None)
    assert house.said("lease_broken") == [("lease_broken", P, "w1")]


async def test_releasing_by_hand_wakes_who_waits(house: House) -> None:
    house.doors.acquire(P, "w1")
    house.doors.ask(P, Ask("builder", until=time.time() + 60))
    await house.gateway.look(None)
    edit(house)
    await house.gateway.look(None)
    assert house.holders() == ["builder"]
    assert house.said("lease_released", "lease_broken") == [("lease_released", P, "w1")]
    assert house.event("FILE_LOCK"), "for who waited"
    assert not house.event("FILE_UNLOCK"), "it is not free"


async def test_a_file_that_cannot_be_read_is_set_aside_and_said(house: House) -> None:
    (house.place / ".ackd/bus/locks.json").write_text('{"src/a.py": {"worker')
    await house.gateway.look(None)
    assert house.said() == [("lease_unreadable", None, None)]
    (kept,) = (house.place / ".ackd/bus").glob("locks.json.unreadable-*")
    assert kept.read_text() == '{"src/a.py": {"worker'
    await house.gateway.look(None)
    assert (house.place / ".ackd/bus/locks.json").read_text() == "{}\n"
    assert len(house.said()) == 1


# --- several buses, and who waits for whom ----------------------------------------------------------------------------------
async def test_two_buses_that_lease_one_file_are_a_conflict_said_once(tmp_path: Path) -> None:
    house = House(tmp_path, tracks=("tracks/*",))
    for name, agent in (("one", "w1"), ("two", "w2")):
        bus = house.new_bus(tmp_path / "tracks" / name / ".message-bus")
        Leases(bus.bus, tmp_path).acquire(P, agent)
    await house.gateway.look(None)
    await house.gateway.look(None)
    assert [data for type_, data in house.lines if type_ == "lease_conflict"] == [
        {"path": P, "tracks": ["one", "two"], "agents": ["w1", "w2"]}
    ]
    assert {str(tmp_path / "tracks"), str(tmp_path / "tracks/one/.message-bus")} <= house.gateway.places()


async def test_an_agent_that_waits_for_a_lease_is_said_to_wait_until_it_has_it(house: House) -> None:
    house.doors.acquire(P, "leader")
    house.doors.ask(P, Ask("builder", until=time.time() + 60))
    for _ in range(2):  # each change once
        await house.gateway.look(None)
    wait = Wait("leader", f"the lease on {P}")
    assert house.posted == [AgentWaits("builder", "leases", (wait,))]
    house.doors.release("leader", P)
    await house.gateway.look(None)
    assert house.posted[1:] == [AgentWaits("builder", "leases", ())]


async def test_who_waits_for_whom_is_known(house: House) -> None:
    for agent, shared in (("a", True), ("b", True)):
        house.doors.acquire(P, agent, shared=shared)
    house.doors.ask(P, Ask("c", until=time.time() + 60))
    house.doors.ask(P, Ask("d", shared=True, until=time.time() + 60))
    await house.gateway.look(None)
    edges = [(wait.waiter, wait.holder) for wait in await house.gateway.waits(house.bus)]
    assert edges == [("c", "a"), ("c", "b"), ("d", "c")]
    assert await house.gateway.waits(Track("/nowhere", "x")) == []
    said = [("e", f"./{P}"), ("e", "1.2"), ("e", "../out"), ("a", P), ("c", P)]
    found = await house.gateway.waits(house.bus, [FileWait(waiter, name, 1.0) for waiter, name in said])
    assert [(wait.waiter, wait.holder) for wait in found[3:]] == [("e", "a"), ("e", "b"), ("a", "b")]
    page: Any = house.gateway.page()["house"]
    assert (page["leases"], page["waiters"]) == (2, 2)
