"""Tracks that come and go, lines acted on once, whatever happens in between."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.bus import Bus
from ackd.core.deadlock import Wait
from ackd.core.escalations import stamp
from ackd.core.events import SignOfLife
from ackd.runtime.gateways.gateway import LookRefused
from tests.runtime.gateways.bus.house import Hearing, House

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.message import Draft


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, {"workers": {"worker-1.2*": "tester"}})


async def test_a_line_is_logged_handed_on_raises_its_events_and_is_told(tmp_path: Path) -> None:
    first, second = Hearing(), Hearing()
    house = House(tmp_path, subscribers=(first, second))
    house.echo("TASK_COMPLETE", "worker-9", task_id="1.1")
    await house.gateway.look(None)
    (said,) = house.said("bus_message")
    assert (said["track"], said["bus_type"], said["source"], said["task_id"]) == (
        "login",
        "TASK_COMPLETE",
        "worker-9",
        "1.1",
    )
    assert (
        [line.payload["unblocks"] for _, line in first.heard]
        == [[]]
        == [line.payload["unblocks"] for _, line in second.heard]
    )
    assert house.events() == {"TASK_COMPLETE_1.1.event"}
    assert house.told("orchestrator") == ["Track login: task 1.1 is complete, says worker-9."]


async def test_nothing_is_acted_on_twice_within_a_session_or_after_it(house: House) -> None:
    house.echo("TASK_FAILED", "w", task_id="1.1", error="no disk")
    await house.gateway.look(None)
    await house.gateway.look(None)
    house.gateway = house.started()
    await house.gateway.look(None)
    assert len(house.said("bus_message")) == len(house.sent) == 1
    house.echo("TASK_FAILED", "w", task_id="1.1", error="no disk")  # the same words, another time
    await house.gateway.look(None)
    assert len(house.mail) == 2


async def test_only_the_track_that_changed_is_looked_at(house: House) -> None:
    await house.gateway.look(None)
    house.echo("PROGRESS", "w")
    await house.gateway.look(frozenset({"/elsewhere"}))
    assert house.said("bus_message") == []
    await house.gateway.look(frozenset({house.bus.track.bus}))
    assert len(house.said("bus_message")) == 1
    assert house.bus.track.bus in house.gateway.places()


async def test_tracks_come_and_go_and_the_house_is_one_of_them(house: House) -> None:
    await house.gateway.look(None)
    Bus(house.place / "tracks/pay").make()
    (house.place / ".ackd/bus").mkdir()
    await house.gateway.look(frozenset({str(house.place / "tracks")}))
    shutil.rmtree(house.place / "tracks/pay")
    await house.gateway.look(None)
    told = [(said["track"], said["state"]) for said in house.said("bus_track")]
    assert told == [("login", "found"), ("house", "found"), ("pay", "found"), ("pay", "gone")]
    assert set(house.gateway.page()) == {"house", "login"}


async def test_a_bad_line_is_a_line_of_the_log_and_the_next_is_read(house: House) -> None:
    house.write('not json\n{"type": "PROGRESS", "source": "w", "payload": {"progress_pct": 900}}\n\n')
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    assert [(bad["offset"], bad["code"]) for bad in house.said("bus_bad_line")] == [(0, "not_json"), (9, "bad_field")]
    assert house.events() == {"TASK_COMPLETE_1.1.event"}


# --- after a crash --------------------------------------------------------------------------------------------------------
async def test_what_a_crash_repeats_is_marked_and_its_mail_is_the_same(tmp_path: Path) -> None:
    hearing = Hearing()
    house = House(tmp_path, subscribers=(hearing,))
    await house.gateway.look(None)
    state = house.place / ".ackd/state/gateways"
    before = {path.name: path.read_bytes() for path in state.glob("*.json")}
    house.echo("BLOCKED", "tester", task_id="1.2", waiting_for="1.1")
    house.echo("TASK_COMPLETE", "builder", task_id="1.1")
    await house.gateway.look(None)
    mail = dict(house.mail)
    for name, data in before.items():  # as if we had died before the offset was kept
        (state / name).write_bytes(data)
    house.echo("PROGRESS", "tester", task_id="1.2")
    house.gateway = house.started()
    await house.gateway.look(None)
    assert [line.again for _, line in hearing.heard] == [False, False, True, True, False]
    assert [said.get("recovered", False) for said in house.said("bus_message")] == [False, False, True, True, False]
    assert house.mail == mail
    assert len(house.sent) == 2 * len(mail)


@pytest.mark.parametrize("what", ["mail", "subscriber"])
async def test_a_disk_that_refuses_costs_time_and_no_line(tmp_path: Path, what: str) -> None:
    hearing = Hearing(refusals=1 if what == "subscriber" else 0)
    house = House(tmp_path, subscribers=(hearing,))
    other = Bus(house.place / "tracks/a-first")
    other.make()
    house.echo("BLOCKED", "tester", task_id="1.2", waiting_for="1.1")
    house.echo("TASK_COMPLETE", "builder", task_id="1.1")

    def refuse(draft: Draft) -> None:
        if draft.recipient == "tester":
            house.refuse = None
            raise OSError(28, "No space left on device")

    house.refuse = refuse if what == "mail" else None
    with pytest.raises(OSError, match="No space"):
        await house.gateway.look(None)
    await house.gateway.look(None)
    assert len(house.told("tester")) == 1
    assert len(house.told("orchestrator")) == 2


async def test_a_track_that_is_broken_delays_no_other(house: House) -> None:
    broken = Bus(house.place / "tracks/a-first")
    broken.make()
    (house.place / "tracks/a-first/.message-bus/queue.jsonl").unlink()
    (house.place / "tracks/a-first/.message-bus/queue.jsonl").symlink_to("/etc/passwd")
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    house.status(v={"status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    with pytest.raises(LookRefused, match=r"track a-first: .*symbolic") as refused:
        await house.gateway.look(None)
    assert house.events() == {"TASK_COMPLETE_1.1.event"}
    assert refused.value.wish_s == pytest.approx(house.gateway._config.heartbeat_timeout_s, abs=1)


async def test_a_broken_file_of_one_who_hears_the_lines_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    broken, hearing = Hearing(broken=OSError(errno.ELOOP, os.strerror(errno.ELOOP))), Hearing()
    house = House(tmp_path, subscribers=(broken, hearing))
    house.echo("BOARD_VOTE", "CA", final_verdict="APPROVE")
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    assert [line.type.value for _, line in hearing.heard] == ["BOARD_VOTE", "TASK_COMPLETE"]
    assert house.told("orchestrator") == ["Track login: task 1.1 is complete, says w."]
    said = house.said("io_error")
    assert [line["bus_type"] for line in said] == ["BOARD_VOTE", "TASK_COMPLETE"]
    assert said[0]["what"] == "hearing of track login"


async def test_a_state_file_of_noise_is_none(house: House) -> None:
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    for path in (house.place / ".ackd/state/gateways").iterdir():
        path.write_bytes(b"\xff{")
    house.gateway = house.started()
    await house.gateway.look(None)
    assert len(house.mail) == 1


# --- files that are not what they were ----------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["rotated", "truncated"])
async def test_a_new_file_is_read_from_its_beginning_and_it_is_said(house: House, how: str) -> None:
    house.echo("TASK_COMPLETE", "w", task_id="1.1", commit_sha="a" * 50)
    await house.gateway.look(None)
    if how == "rotated":
        house.replace("")
    else:
        house.put("queue.jsonl", "")
    house.echo("TASK_COMPLETE", "w", task_id="1.2")
    await house.gateway.look(None)
    assert len(house.said("bus_restarted")) == 1
    assert house.events() == {"TASK_COMPLETE_1.1.event", "TASK_COMPLETE_1.2.event"}
    assert len(house.mail) == 2


async def test_what_was_said_just_before_a_file_was_replaced_is_not_lost(house: House) -> None:
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    house.echo("TASK_COMPLETE", "w", task_id="1.2")
    house.write('{"type": "TASK_COMPLETE", "source": "w", "payload": {"task_id": "1.3"}}')
    house.replace("")
    house.echo("TASK_COMPLETE", "w", task_id="1.4")
    await house.gateway.look(None)
    assert house.events() == {f"TASK_COMPLETE_1.{number}.event" for number in (1, 2, 3, 4)}


async def test_a_queue_that_is_edited_by_hand_tells_nothing_twice(house: House) -> None:
    for number in range(5):
        house.echo("TASK_COMPLETE", "w", task_id=f"1.{number}")
    await house.gateway.look(None)
    house.replace(house.queue().replace("1.3", "1.33"))
    house.echo("TASK_COMPLETE", "w", task_id="1.9")
    await house.gateway.look(None)
    assert len(house.mail) == 7
    assert "TASK_COMPLETE_1.33.event" in house.events()


async def test_half_a_line_is_waited_for_and_taken_when_it_is_whole_and_stands_still(house: House) -> None:
    await house.gateway.look(None)
    house.write('{"type": "TASK_COMPLETE", "source": "w", ')
    wish = await house.gateway.look(frozenset({house.bus.track.bus}))
    assert wish is not None
    assert wish <= 0.05
    house.write('"payload": {"task_id": "1.1"}}')
    await house.gateway.look(frozenset({house.bus.track.bus}))
    assert house.said("bus_message") == []
    await _looking(house, lambda: house.said("bus_message"))
    assert house.said("bus_bad_line") == []
    house.write("\n")
    house.echo("PROGRESS", "w")
    await house.gateway.look(None)
    assert [said["bus_type"] for said in house.said("bus_message")] == ["TASK_COMPLETE", "PROGRESS"]


async def test_half_a_line_that_nobody_ends_is_given_up_and_glued_to_nothing(house: House) -> None:
    await house.gateway.look(None)
    house.write('{"type": "TASK_COMPL')
    await _looking(house, lambda: house.said("bus_bad_line"))
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    assert house.events() == {"TASK_COMPLETE_1.1.event"}


async def _looking(house: House, true: Callable[[], object]) -> None:
    """One look because something changed, then whenever the gateway wishes to."""
    where = frozenset({house.bus.track.bus})
    for _ in range(200):
        wish = await house.gateway.look(where)
        if true():
            return
        where = frozenset()
        await anyio.sleep(min(0.2, max(0.01, wish or 0.01)))
    raise AssertionError("never")


# --- who is told ------------------------------------------------------------------------------------------------------------
async def test_who_waited_is_told_if_it_is_an_agent_and_has_its_event_either_way(house: House) -> None:
    house.echo("BLOCKED", "worker-1.2-x", task_id="1.2", waiting_for="1.1")
    house.echo("BLOCKED", "stranger", task_id="1.3", waiting_for="1.1")
    house.echo("TASK_COMPLETE", "builder", task_id="1.1", unblocks=["1.2", "stranger"])
    await house.gateway.look(None)
    assert house.told("tester") == [
        "Track login: task 1.1 is complete (said by builder). You need not wait for it any longer."
    ]
    assert house.events() >= {"UNBLOCKED_1.2.event", "UNBLOCKED_stranger.event", "TASK_COMPLETE_1.1.event"}
    assert len(house.told("orchestrator")) == 3


async def test_the_orchestrator_is_not_told_what_it_said_itself_and_nobody_inside_is_a_worker(house: House) -> None:
    house.echo("TASK_COMPLETE", "orchestrator", task_id="1.1", unblocks=["system", "queue_monitor"])
    await house.gateway.look(None)
    assert house.sent == []


async def test_who_waits_for_whom_is_handed_on_after_each_look(house: House) -> None:
    house.echo("PROGRESS", "b", task_id="1.2")
    house.echo("BLOCKED", "a", task_id="1.1", waiting_for="1.2")
    await house.gateway.look(None)
    ((wait,),) = house.waits
    assert (wait.waiter, wait.holder, wait.what) == ("a", "b", "1.2")
    assert isinstance(wait, Wait)
    house.echo("PROGRESS", "a", task_id="1.1")
    await house.gateway.look(None)
    assert house.waits[-1] == []


async def test_what_was_said_long_before_a_track_was_met_is_history(house: House) -> None:
    house.write(
        '{"id": "m", "type": "TASK_COMPLETE", "source": "w", "timestamp": "2026-01-01T00:00:00Z", "payload": {"task_id": "1"}}\n'
    )
    await house.gateway.look(None)
    assert house.sent == []
    assert len(house.said("bus_message")) == 1
    assert house.said("worker_stale") == []


# --- workers --------------------------------------------------------------------------------------------------------------
async def test_a_heartbeat_is_a_sign_of_life_and_so_is_a_line(house: House) -> None:
    house.status(builder={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    await house.gateway.look(None)
    assert house.posted == [SignOfLife("builder", "worker-status.json: RUNNING")]
    await house.gateway.look(None)
    assert len(house.posted) == 1
    house.clock.wall += 400
    house.say_at("PROGRESS", "worker-1.2-x")
    await house.gateway.look(None)
    assert house.posted[1:] == [SignOfLife("tester", "PROGRESS on the bus")]
    house.status(builder={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    await house.gateway.look(None)
    assert house.posted[2:] == [SignOfLife("builder", "worker-status.json: RUNNING")]


async def test_what_ackd_says_of_a_workers_lease_is_no_sign_of_life(house: House) -> None:
    """Else the end of a dead worker's lease would hide its death."""
    for type_ in ("FILE_LOCK", "FILE_UNLOCK"):
        house.say_at(type_, "builder", filepath="src/a.py", token=1, said_by="ackd")
    await house.gateway.look(None)
    assert house.posted == []
    house.say_at("FILE_LOCK", "builder", filepath="src/a.py", token=2)
    await house.gateway.look(None)
    assert house.posted == [SignOfLife("builder", "FILE_LOCK on the bus")]


async def test_who_falls_silent_is_stale_once_and_over_when_it_speaks_again(house: House) -> None:
    house.status(w={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    wish = await house.gateway.look(None)
    assert wish is not None
    assert 599 < wish <= 601
    house.clock.wall += 601
    await house.gateway.look(frozenset())
    await house.gateway.look(None)
    (stale,) = house.said("worker_stale")
    assert (stale["worker"], stale["task_id"], stale["to"]) == ("w", "1.1", "orchestrator")
    assert "worker w is RUNNING with task 1.1" in house.told("orchestrator")[0]
    house.gateway = house.started()  # it was said, and is not said again
    await house.gateway.look(None)
    assert len(house.said("worker_stale")) == len(house.sent) == 1
    house.status(w={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    await house.gateway.look(None)
    assert len(house.said("worker_back")) == 1
    house.clock.wall += 601
    await house.gateway.look(None)
    assert len(house.said("worker_stale")) == len(house.mail) == 2


async def test_who_never_wrote_a_heartbeat_is_noticed_by_its_lines(house: House) -> None:
    house.say_at("PROGRESS", "w", task_id="1")
    await house.gateway.look(None)
    house.clock.wall += 700
    await house.gateway.look(None)
    assert [stale["worker"] for stale in house.said("worker_stale")] == ["w"]


async def test_who_is_through_may_be_silent(house: House) -> None:
    house.status(w={"task_id": "1.1", "status": "COMPLETE", "last_heartbeat": stamp(house.clock.wall)})
    await house.gateway.look(None)
    house.clock.wall += 9999
    await house.gateway.look(None)
    assert house.said("worker_stale") == []


async def test_half_a_status_file_is_looked_at_again_and_a_broken_one_said_once(house: House) -> None:
    await house.gateway.look(None)
    house.put("worker-status.json", '{"w": {"status": "RUN')
    wish = await house.gateway.look(frozenset({house.bus.track.bus}))
    assert wish is not None
    assert wish <= 0.05
    house.status(builder={"status": "RUNNING", "last_heartbeat": stamp(house.clock.wall)})
    await house.gateway.look(frozenset({house.bus.track.bus}))
    assert len(house.posted) == 1
    assert house.said("bus_bad_file") == []
    house.put("worker-status.json", "[]")
    await _looking(house, lambda: house.said("bus_bad_file"))
    await house.gateway.look(None)
    assert len(house.said("bus_bad_file")) == 1


# --- old events -------------------------------------------------------------------------------------------------------------
def _aged(house: House, seconds: float) -> None:
    for path in [Path(house.bus.track.queue), Path(house.bus.track.status), *Path(house.bus.track.events).iterdir()]:
        os.utime(path, (house.clock.wall - seconds,) * 2)


async def test_the_events_of_a_finished_track_go_when_it_was_silent_for_long(house: House) -> None:
    house.echo("PROGRESS", "w", task_id="1.1")
    house.echo("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    _aged(house, 90_000)
    house.gateway = house.started()
    await house.gateway.look(None)
    assert house.all_events() == set()
    assert house.said("bus_events_cleared")[0]["number"] == 2
    assert house.bus.wait("TASK_COMPLETE_1.1", timeout=0)  # it was said, after all


async def test_a_tracks_events_stay_while_a_task_is_open_but_for_those_of_one_moment(house: House) -> None:
    house.echo("TASK_COMPLETE", "w", task_id="1.1", unblocks=["1.3"])
    house.echo("PROGRESS", "w", task_id="1.2")
    await house.gateway.look(None)
    _aged(house, 90_000)
    house.gateway = house.started()
    await house.gateway.look(None)
    assert house.all_events() == {"TASK_COMPLETE_1.1.event"}


# --- the loop -----------------------------------------------------------------------------------------------------------------
async def test_a_long_queue_never_holds_the_loop_for_long(house: House) -> None:
    for number in range(3000):
        house.echo("PROGRESS", "w", task_id=str(number))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        await house.gateway.look(None)
        house.gateway = house.started()
        before = turns
        await house.gateway.look(None)
        tasks.cancel_scope.cancel()
    assert turns - before > 3
    assert before > 3


# --- what workers say of themselves -----------------------------------------------------------------------------------
def entry(house: House, status: str, *, ago_s: float = 0.0, **more: str) -> dict[str, str]:
    return {"task_id": "1.1", "status": status, "last_heartbeat": stamp(house.clock.wall - ago_s), **more}


async def written_now(house: House, **entries: dict[str, str]) -> None:
    """worker-status.json, with the time of the test's clock."""
    house.status(**entries)
    os.utime(house.bus.track.status, (house.clock.wall, house.clock.wall))
    await house.gateway.look(None)


@pytest.mark.parametrize("end", ["COMPLETE", "COMPLETED", "FAILED"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_worker_that_ends_without_a_new_heartbeat_is_not_called_silent(
    house: House, end: str, restarted: bool
) -> None:
    begun = entry(house, "RUNNING")
    await written_now(house, w=begun)
    house.clock.wall += 60
    house.say_at("PROGRESS", "w", task_id="1.1")  # later than its heartbeat
    await house.gateway.look(None)
    house.clock.wall += 60
    if restarted:
        house.gateway = house.started()
    await written_now(house, w={**begun, "status": end})
    house.clock.wall += 3600
    await house.gateway.look(None)
    assert house.said("worker_stale") == []
    assert house.gateway.page()["login"]["workers"]["FAILED" if end == "FAILED" else "COMPLETE"] == 1  # type: ignore[index]


async def test_an_older_entry_that_anothers_hand_put_back_is_no_word_of_its_worker(house: House) -> None:
    await written_now(house, w=entry(house, "COMPLETE", ago_s=60))
    old = entry(house, "COMPLETE", ago_s=60)
    await written_now(house, w=entry(house, "RUNNING"))
    house.clock.wall += 10
    await written_now(house, w=old, other=entry(house, "RUNNING"))
    assert house.gateway.page()["login"]["workers"]["RUNNING"] == 2  # type: ignore[index]


async def test_a_worker_known_only_by_a_lock_is_not_running_and_never_stale(house: House) -> None:
    house.say_at("FILE_LOCK", "person", filepath="a.py")
    house.say_at("FILE_UNLOCK", "person", filepath="a.py")
    house.say_at("WORKER_DISPATCHED", "lead", worker_id="w", task_id="1.1")
    await house.gateway.look(None)
    assert sum(house.gateway.page()["login"]["workers"].values()) == 0  # type: ignore[index]
    house.clock.wall += 3600
    await house.gateway.look(None)
    assert house.said("worker_stale") == []
    assert [line["bus_type"] for line in house.said("bus_message")][2] == "WORKER_DISPATCHED"
    assert house.said("bus_bad_line") == []
