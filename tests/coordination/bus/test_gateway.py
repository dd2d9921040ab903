"""The bus gateway on real files: tracks come and go, and each line is acted on once, over crashes and refusals."""

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
from ackd.coordination.bus.rules.words import WorkerWait
from ackd.coordination.gateway import LookRefused
from ackd.core.escalations import stamp
from ackd.core.events import SignOfLife
from tests.coordination.bus.bus_team import BusTeam, RecordingSubscriber

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.message import Draft


@pytest.fixture
def team(tmp_path: Path) -> BusTeam:
    return BusTeam(tmp_path, {"workers": {"worker-1.2*": "tester"}})


async def test_a_line_is_logged_handed_on_raises_its_events_and_is_told(tmp_path: Path) -> None:
    first, second = RecordingSubscriber(), RecordingSubscriber()
    team = BusTeam(tmp_path, subscribers=(first, second))
    team.echo("TASK_COMPLETE", "worker-9", task_id="1.1")
    await team.gateway.look(None)
    (said,) = team.said("bus_message")
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
    assert team.events() == {"TASK_COMPLETE_1.1.event"}
    assert team.told("orchestrator") == ["Track login: task 1.1 is complete, says worker-9."]


async def test_nothing_is_acted_on_twice_within_a_session_or_after_it(team: BusTeam) -> None:
    team.echo("TASK_FAILED", "w", task_id="1.1", error="no disk")
    await team.gateway.look(None)
    await team.gateway.look(None)
    team.gateway = team.started()
    await team.gateway.look(None)
    assert len(team.said("bus_message")) == len(team.sent) == 1
    team.echo("TASK_FAILED", "w", task_id="1.1", error="no disk")  # the same words again are another line
    await team.gateway.look(None)
    assert len(team.mail) == 2


async def test_only_the_track_that_changed_is_looked_at(team: BusTeam) -> None:
    await team.gateway.look(None)
    team.echo("PROGRESS", "w")
    await team.gateway.look(frozenset({"/elsewhere"}))
    assert team.said("bus_message") == []
    await team.gateway.look(frozenset({team.bus.track.bus}))
    assert len(team.said("bus_message")) == 1
    assert team.bus.track.bus in team.gateway.places()


async def test_tracks_come_and_go_and_the_house_is_one_of_them(team: BusTeam) -> None:
    await team.gateway.look(None)
    Bus(team.place / "tracks/pay").make()
    (team.place / ".ackd/bus").mkdir()
    await team.gateway.look(frozenset({str(team.place / "tracks")}))
    shutil.rmtree(team.place / "tracks/pay")
    await team.gateway.look(None)
    told = [(said["track"], said["state"]) for said in team.said("bus_track")]
    assert told == [("login", "found"), ("house", "found"), ("pay", "found"), ("pay", "gone")]
    assert set(team.gateway.page()) == {"house", "login"}


async def test_a_bad_line_is_a_line_of_the_log_and_the_next_is_read(team: BusTeam) -> None:
    team.write('not json\n{"type": "PROGRESS", "source": "w", "payload": {"progress_pct": 900}}\n\n')
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    assert [(bad["offset"], bad["code"]) for bad in team.said("bus_bad_line")] == [(0, "not_json"), (9, "bad_field")]
    assert team.events() == {"TASK_COMPLETE_1.1.event"}


# --- after a crash --------------------------------------------------------------------------------------------------------
async def test_what_a_crash_repeats_is_marked_and_its_mail_is_the_same(tmp_path: Path) -> None:
    subscriber = RecordingSubscriber()
    team = BusTeam(tmp_path, subscribers=(subscriber,))
    await team.gateway.look(None)
    state = team.place / ".ackd/state/gateways"
    before = {path.name: path.read_bytes() for path in state.glob("*.json")}
    team.echo("BLOCKED", "tester", task_id="1.2", waiting_for="1.1")
    team.echo("TASK_COMPLETE", "builder", task_id="1.1")
    await team.gateway.look(None)
    mail = dict(team.mail)
    for name, data in before.items():  # the state of a daemon that died before it saved the offset
        (state / name).write_bytes(data)
    team.echo("PROGRESS", "tester", task_id="1.2")
    team.gateway = team.started()
    await team.gateway.look(None)
    assert [line.again for _, line in subscriber.heard] == [False, False, True, True, False]
    assert [said.get("recovered", False) for said in team.said("bus_message")] == [False, False, True, True, False]
    assert team.mail == mail
    assert len(team.sent) == 2 * len(mail)


@pytest.mark.parametrize("what", ["mail", "subscriber"])
async def test_a_disk_that_refuses_costs_time_and_no_line(tmp_path: Path, what: str) -> None:
    subscriber = RecordingSubscriber(refusals=1 if what == "subscriber" else 0)
    team = BusTeam(tmp_path, subscribers=(subscriber,))
    other = Bus(team.place / "tracks/a-first")
    other.make()
    team.echo("BLOCKED", "tester", task_id="1.2", waiting_for="1.1")
    team.echo("TASK_COMPLETE", "builder", task_id="1.1")

    def refuse(draft: Draft) -> None:
        if draft.recipient == "tester":
            team.refuse = None
            raise OSError(28, "No space left on device")

    team.refuse = refuse if what == "mail" else None
    with pytest.raises(OSError, match="No space"):
        await team.gateway.look(None)
    await team.gateway.look(None)
    assert len(team.told("tester")) == 1
    assert len(team.told("orchestrator")) == 2


async def test_a_track_that_is_broken_delays_no_other(team: BusTeam) -> None:
    broken = Bus(team.place / "tracks/a-first")
    broken.make()
    (team.place / "tracks/a-first/.message-bus/queue.jsonl").unlink()
    (team.place / "tracks/a-first/.message-bus/queue.jsonl").symlink_to("/etc/passwd")
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    team.status(v={"status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    with pytest.raises(LookRefused, match=r"track a-first: .*symbolic") as refused:
        await team.gateway.look(None)
    assert team.events() == {"TASK_COMPLETE_1.1.event"}
    assert refused.value.next_look_s == pytest.approx(team.gateway._config.heartbeat_timeout_s, abs=1)


async def test_a_broken_file_of_one_who_hears_the_lines_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    broken, subscriber = (
        RecordingSubscriber(broken=OSError(errno.ELOOP, os.strerror(errno.ELOOP))),
        RecordingSubscriber(),
    )
    team = BusTeam(tmp_path, subscribers=(broken, subscriber))
    team.echo("BOARD_VOTE", "CA", final_verdict="APPROVE")
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    assert [line.type.value for _, line in subscriber.heard] == ["BOARD_VOTE", "TASK_COMPLETE"]
    assert team.told("orchestrator") == ["Track login: task 1.1 is complete, says w."]
    said = team.said("io_error")
    assert [line["bus_type"] for line in said] == ["BOARD_VOTE", "TASK_COMPLETE"]
    assert said[0]["what"] == "recording of track login"


async def test_a_state_file_of_noise_is_none(team: BusTeam) -> None:
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    for path in (team.place / ".ackd/state/gateways").iterdir():
        path.write_bytes(b"\xff{")
    team.gateway = team.started()
    await team.gateway.look(None)
    assert len(team.mail) == 1


# --- files that are not what they were ----------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["rotated", "truncated"])
async def test_a_new_file_is_read_from_its_beginning_and_it_is_said(team: BusTeam, how: str) -> None:
    team.echo("TASK_COMPLETE", "w", task_id="1.1", commit_sha="a" * 50)
    await team.gateway.look(None)
    if how == "rotated":
        team.replace("")
    else:
        team.put("queue.jsonl", "")
    team.echo("TASK_COMPLETE", "w", task_id="1.2")
    await team.gateway.look(None)
    assert len(team.said("bus_restarted")) == 1
    assert team.events() == {"TASK_COMPLETE_1.1.event", "TASK_COMPLETE_1.2.event"}
    assert len(team.mail) == 2


async def test_what_was_said_just_before_a_file_was_replaced_is_not_lost(team: BusTeam) -> None:
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    team.echo("TASK_COMPLETE", "w", task_id="1.2")
    team.write('{"type": "TASK_COMPLETE", "source": "w", "payload": {"task_id": "1.3"}}')
    team.replace("")
    team.echo("TASK_COMPLETE", "w", task_id="1.4")
    await team.gateway.look(None)
    assert team.events() == {f"TASK_COMPLETE_1.{number}.event" for number in (1, 2, 3, 4)}


async def test_a_queue_that_is_edited_by_hand_tells_nothing_twice(team: BusTeam) -> None:
    for number in range(5):
        team.echo("TASK_COMPLETE", "w", task_id=f"1.{number}")
    await team.gateway.look(None)
    team.replace(team.queue().replace("1.3", "1.33"))
    team.echo("TASK_COMPLETE", "w", task_id="1.9")
    await team.gateway.look(None)
    assert len(team.mail) == 7
    assert "TASK_COMPLETE_1.33.event" in team.events()


async def test_half_a_line_is_waited_for_and_taken_when_it_is_whole_and_stands_still(team: BusTeam) -> None:
    await team.gateway.look(None)
    team.write('{"type": "TASK_COMPLETE", "source": "w", ')
    next_look_s = await team.gateway.look(frozenset({team.bus.track.bus}))
    assert next_look_s is not None
    assert next_look_s <= 0.05
    team.write('"payload": {"task_id": "1.1"}}')
    await team.gateway.look(frozenset({team.bus.track.bus}))
    assert team.said("bus_message") == []
    await _looking(team, lambda: team.said("bus_message"))
    assert team.said("bus_bad_line") == []
    team.write("\n")
    team.echo("PROGRESS", "w")
    await team.gateway.look(None)
    assert [said["bus_type"] for said in team.said("bus_message")] == ["TASK_COMPLETE", "PROGRESS"]


async def test_half_a_line_that_nobody_ends_is_given_up_and_glued_to_nothing(team: BusTeam) -> None:
    await team.gateway.look(None)
    team.write('{"type": "TASK_COMPL')
    await _looking(team, lambda: team.said("bus_bad_line"))
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    assert team.events() == {"TASK_COMPLETE_1.1.event"}


async def _looking(team: BusTeam, true: Callable[[], object]) -> None:
    """Look once, as after a hint, then each time that the gateway asks for, until ``true`` is."""
    where = frozenset({team.bus.track.bus})
    for _ in range(200):
        next_look_s = await team.gateway.look(where)
        if true():
            return
        where = frozenset()
        await anyio.sleep(min(0.2, max(0.01, next_look_s or 0.01)))
    raise AssertionError("never")


# --- notices ----------------------------------------------------------------------------------------------------------
async def test_who_waited_is_told_if_it_is_an_agent_and_has_its_event_either_way(team: BusTeam) -> None:
    team.echo("BLOCKED", "worker-1.2-x", task_id="1.2", waiting_for="1.1")
    team.echo("BLOCKED", "stranger", task_id="1.3", waiting_for="1.1")
    team.echo("TASK_COMPLETE", "builder", task_id="1.1", unblocks=["1.2", "stranger"])
    await team.gateway.look(None)
    assert team.told("tester") == [
        "Track login: task 1.1 is complete (said by builder). You need not wait for it any longer."
    ]
    assert team.events() >= {"UNBLOCKED_1.2.event", "UNBLOCKED_stranger.event", "TASK_COMPLETE_1.1.event"}
    assert len(team.told("orchestrator")) == 3


async def test_the_orchestrator_is_not_told_what_it_said_itself_and_nobody_inside_is_a_worker(team: BusTeam) -> None:
    team.echo("TASK_COMPLETE", "orchestrator", task_id="1.1", unblocks=["system", "queue_monitor"])
    await team.gateway.look(None)
    assert team.sent == []


async def test_who_waits_for_whom_is_handed_on_after_each_look(team: BusTeam) -> None:
    team.echo("PROGRESS", "b", task_id="1.2")
    team.echo("BLOCKED", "a", task_id="1.1", waiting_for="1.2")
    await team.gateway.look(None)
    ((wait,),) = team.waits
    assert (wait.waiter, wait.holder, wait.what) == ("a", "b", "1.2")
    assert isinstance(wait, WorkerWait)
    team.echo("PROGRESS", "a", task_id="1.1")
    await team.gateway.look(None)
    assert team.waits[-1] == []


async def test_what_was_said_long_before_a_track_was_met_is_history(team: BusTeam) -> None:
    team.write(
        '{"id": "m", "type": "TASK_COMPLETE", "source": "w", "timestamp": "2026-01-01T00:00:00Z", "payload": {"task_id": "1"}}\n'
    )
    await team.gateway.look(None)
    assert team.sent == []
    assert len(team.said("bus_message")) == 1
    assert team.said("worker_stale") == []


# --- workers --------------------------------------------------------------------------------------------------------------
async def test_a_heartbeat_is_a_sign_of_life_and_so_is_a_line(team: BusTeam) -> None:
    team.status(builder={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    await team.gateway.look(None)
    assert team.posted == [SignOfLife("builder", "worker-status.json: RUNNING")]
    await team.gateway.look(None)
    assert len(team.posted) == 1
    team.clock.wall += 400
    team.say_at("PROGRESS", "worker-1.2-x")
    await team.gateway.look(None)
    assert team.posted[1:] == [SignOfLife("tester", "PROGRESS on the bus")]
    team.status(builder={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    await team.gateway.look(None)
    assert team.posted[2:] == [SignOfLife("builder", "worker-status.json: RUNNING")]


async def test_what_ackd_says_of_a_workers_lease_is_no_sign_of_life(team: BusTeam) -> None:
    """If it were one, the end of a dead worker's lease would hide its death."""
    for type_ in ("FILE_LOCK", "FILE_UNLOCK"):
        team.say_at(type_, "builder", filepath="src/a.py", token=1, said_by="ackd")
    await team.gateway.look(None)
    assert team.posted == []
    team.say_at("FILE_LOCK", "builder", filepath="src/a.py", token=2)
    await team.gateway.look(None)
    assert team.posted == [SignOfLife("builder", "FILE_LOCK on the bus")]


async def test_who_falls_silent_is_stale_once_and_over_when_it_speaks_again(team: BusTeam) -> None:
    team.status(w={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    next_look_s = await team.gateway.look(None)
    assert next_look_s is not None
    assert 599 < next_look_s <= 601
    team.clock.wall += 601
    await team.gateway.look(frozenset())
    await team.gateway.look(None)
    (stale,) = team.said("worker_stale")
    assert (stale["worker"], stale["task_id"], stale["to"]) == ("w", "1.1", "orchestrator")
    assert "worker w is RUNNING with task 1.1" in team.told("orchestrator")[0]
    team.gateway = team.started()  # the silence was reported by the last daemon and is not reported again
    await team.gateway.look(None)
    assert len(team.said("worker_stale")) == len(team.sent) == 1
    team.status(w={"task_id": "1.1", "status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    await team.gateway.look(None)
    assert len(team.said("worker_back")) == 1
    team.clock.wall += 601
    await team.gateway.look(None)
    assert len(team.said("worker_stale")) == len(team.mail) == 2


async def test_who_never_wrote_a_heartbeat_is_noticed_by_its_lines(team: BusTeam) -> None:
    team.say_at("PROGRESS", "w", task_id="1")
    await team.gateway.look(None)
    team.clock.wall += 700
    await team.gateway.look(None)
    assert [stale["worker"] for stale in team.said("worker_stale")] == ["w"]


async def test_who_is_through_may_be_silent(team: BusTeam) -> None:
    team.status(w={"task_id": "1.1", "status": "COMPLETE", "last_heartbeat": stamp(team.clock.wall)})
    await team.gateway.look(None)
    team.clock.wall += 9999
    await team.gateway.look(None)
    assert team.said("worker_stale") == []


async def test_half_a_status_file_is_looked_at_again_and_a_broken_one_said_once(team: BusTeam) -> None:
    await team.gateway.look(None)
    team.put("worker-status.json", '{"w": {"status": "RUN')
    next_look_s = await team.gateway.look(frozenset({team.bus.track.bus}))
    assert next_look_s is not None
    assert next_look_s <= 0.05
    team.status(builder={"status": "RUNNING", "last_heartbeat": stamp(team.clock.wall)})
    await team.gateway.look(frozenset({team.bus.track.bus}))
    assert len(team.posted) == 1
    assert team.said("bus_bad_file") == []
    team.put("worker-status.json", "[]")
    await _looking(team, lambda: team.said("bus_bad_file"))
    await team.gateway.look(None)
    assert len(team.said("bus_bad_file")) == 1


# --- old events -------------------------------------------------------------------------------------------------------------
def _aged(team: BusTeam, seconds: float) -> None:
    for path in [Path(team.bus.track.queue), Path(team.bus.track.status), *Path(team.bus.track.events).iterdir()]:
        os.utime(path, (team.clock.wall - seconds,) * 2)


async def test_the_events_of_a_finished_track_go_when_it_was_silent_for_long(team: BusTeam) -> None:
    team.echo("PROGRESS", "w", task_id="1.1")
    team.echo("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    _aged(team, 90_000)
    team.gateway = team.started()
    await team.gateway.look(None)
    assert team.all_events() == set()
    assert team.said("bus_events_cleared")[0]["number"] == 2
    assert team.bus.wait("TASK_COMPLETE_1.1", timeout=0)  # the event is gone, but its line is still on the bus


async def test_a_tracks_events_stay_while_a_task_is_open_but_for_those_of_one_moment(team: BusTeam) -> None:
    team.echo("TASK_COMPLETE", "w", task_id="1.1", unblocks=["1.3"])
    team.echo("PROGRESS", "w", task_id="1.2")
    await team.gateway.look(None)
    _aged(team, 90_000)
    team.gateway = team.started()
    await team.gateway.look(None)
    assert team.all_events() == {"TASK_COMPLETE_1.1.event"}


# --- the loop -----------------------------------------------------------------------------------------------------------------
async def test_a_long_queue_never_holds_the_loop_for_long(team: BusTeam) -> None:
    for number in range(3000):
        team.echo("PROGRESS", "w", task_id=str(number))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        await team.gateway.look(None)
        team.gateway = team.started()
        before = turns
        await team.gateway.look(None)
        tasks.cancel_scope.cancel()
    assert turns - before > 3
    assert before > 3


# --- worker-status.json -----------------------------------------------------------------------------------------------
def entry(team: BusTeam, status: str, *, ago_s: float = 0.0, **more: str) -> dict[str, str]:
    return {"task_id": "1.1", "status": status, "last_heartbeat": stamp(team.clock.wall - ago_s), **more}


async def written_now(team: BusTeam, **entries: dict[str, str]) -> None:
    """Write worker-status.json and give the file the time of the test's clock."""
    team.status(**entries)
    os.utime(team.bus.track.status, (team.clock.wall, team.clock.wall))
    await team.gateway.look(None)


@pytest.mark.parametrize("end", ["COMPLETE", "COMPLETED", "FAILED"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_worker_that_ends_without_a_new_heartbeat_is_not_called_silent(
    team: BusTeam, end: str, restarted: bool
) -> None:
    begun = entry(team, "RUNNING")
    await written_now(team, w=begun)
    team.clock.wall += 60
    team.say_at("PROGRESS", "w", task_id="1.1")  # later than its heartbeat
    await team.gateway.look(None)
    team.clock.wall += 60
    if restarted:
        team.gateway = team.started()
    await written_now(team, w={**begun, "status": end})
    team.clock.wall += 3600
    await team.gateway.look(None)
    assert team.said("worker_stale") == []
    assert team.gateway.page()["login"]["workers"]["FAILED" if end == "FAILED" else "COMPLETE"] == 1  # type: ignore[index]


async def test_an_older_entry_that_anothers_hand_put_back_is_no_word_of_its_worker(team: BusTeam) -> None:
    await written_now(team, w=entry(team, "COMPLETE", ago_s=60))
    old = entry(team, "COMPLETE", ago_s=60)
    await written_now(team, w=entry(team, "RUNNING"))
    team.clock.wall += 10
    await written_now(team, w=old, other=entry(team, "RUNNING"))
    assert team.gateway.page()["login"]["workers"]["RUNNING"] == 2  # type: ignore[index]


async def test_a_worker_known_only_by_a_lock_is_not_running_and_never_stale(team: BusTeam) -> None:
    team.say_at("FILE_LOCK", "person", filepath="a.py")
    team.say_at("FILE_UNLOCK", "person", filepath="a.py")
    team.say_at("WORKER_DISPATCHED", "lead", worker_id="w", task_id="1.1")
    await team.gateway.look(None)
    assert sum(team.gateway.page()["login"]["workers"].values()) == 0  # type: ignore[index]
    team.clock.wall += 3600
    await team.gateway.look(None)
    assert team.said("worker_stale") == []
    assert [line["bus_type"] for line in team.said("bus_message")][2] == "WORKER_DISPATCHED"
    assert team.said("bus_bad_line") == []
