"""Ends of tasks that only an event file announces, as from a worker whose prompt says to ``touch`` one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.bus.rules.events import event_names
from tests.coordination.bus.bus_team import BusTeam, RecordingSubscriber

if TYPE_CHECKING:
    from ackd.core.message import Draft


@pytest.fixture
def team(tmp_path: Path) -> BusTeam:
    return BusTeam(tmp_path)


def touch(team: BusTeam, name: str, *, ago_s: float = 0.0) -> None:
    path = Path(team.bus.track.events) / name
    path.touch()
    at = team.clock.wall - ago_s
    os.utime(path, (at, at))


async def settled(team: BusTeam) -> None:
    """Look twice, so far apart that a line which belongs to an event would have come."""
    await team.gateway.look(frozenset({team.bus.track.events}))
    team.clock.wall += 1
    await team.gateway.look(frozenset())


@pytest.mark.parametrize(("end", "words"), [("TASK_COMPLETE", "is complete"), ("TASK_FAILED", "has failed")])
async def test_an_end_that_is_only_an_event_file_is_mail_and_a_line_of_the_log(
    team: BusTeam, end: str, words: str
) -> None:
    await team.gateway.look(None)
    touch(team, f"{end}_1.1.event")
    next_look_s = await team.gateway.look(frozenset({team.bus.track.events}))
    assert next_look_s == pytest.approx(0.05)
    assert team.mail == {}, "its line may be about to come"
    team.clock.wall += 1
    await team.gateway.look(frozenset())
    assert team.told("orchestrator") == [f"Track login: task 1.1 {words}, says an event file."]
    (said,) = team.said("bus_message")
    assert (said["bus_type"], said["task_id"], said["event"]) == (end, "1.1", f"{end}_1.1.event")
    await team.gateway.look(None)
    team.gateway = team.started()
    await team.gateway.look(None)
    team.clock.wall += 1
    await team.gateway.look(None)
    assert len(team.sent) == len(team.said("bus_message")) == 1
    assert sum(team.gateway.page()["login"]["workers"].values()) == 0  # type: ignore[index]


async def test_who_holds_the_task_has_ended_by_it_and_who_waited_is_woken(tmp_path: Path) -> None:
    subscriber = RecordingSubscriber()
    team = BusTeam(tmp_path, subscribers=(subscriber,))
    team.say_at("PROGRESS", "builder", task_id="feature/1")
    team.say_at("BLOCKED", "tester", task_id="1.2", waiting_for="feature/1")
    await team.gateway.look(None)
    (name,) = [one for one in event_names("TASK_COMPLETE", "m", {"task_id": "feature/1"}) if "MESSAGE" not in one]
    touch(team, name)
    await settled(team)
    assert [(line.source, line.payload["task_id"]) for _, line in subscriber.heard[2:]] == [("builder", "feature/1")]
    assert any("feature/1 is complete" in one for one in team.told("tester"))
    team.clock.wall += 3600
    await team.gateway.look(None)
    assert [line["worker"] for line in team.said("worker_stale")] == ["tester"]


async def test_events_of_lines_are_no_news_whoever_raised_them_and_however_the_task_went_on(team: BusTeam) -> None:
    team.say_at("TASK_FAILED", "w", task_id="1.1")
    team.say_at("TASK_COMPLETE", "w", task_id="1.1")
    touch(team, "TASK_FAILED_1.1.event")
    touch(team, "TASK_COMPLETE_1.1.event")
    touch(team, "TASK_COMPLETE_all.event")
    touch(team, "FILE_UNLOCK_x.event")
    await team.gateway.look(None)
    await settled(team)
    assert len(team.said("bus_message")) == len(team.sent) == 2
    team.gateway = team.started()
    await team.gateway.look(None)
    await settled(team)
    assert len(team.sent) == 2


async def test_a_line_that_is_read_after_its_event_was_seen_is_the_news(team: BusTeam) -> None:
    await team.gateway.look(None)
    touch(team, "TASK_COMPLETE_1.1.event")
    await team.gateway.look(frozenset({team.bus.track.events}))
    team.say_at("TASK_COMPLETE", "w", task_id="1.1")
    team.clock.wall += 1
    await team.gateway.look(None)
    assert team.told("orchestrator") == ["Track login: task 1.1 is complete, says w."]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_queue_that_is_begun_anew_makes_no_news_of_the_events_that_are_left(
    team: BusTeam, watched: bool
) -> None:
    team.say_at("TASK_COMPLETE", "w", task_id="1.1")
    await team.gateway.look(None)
    team.replace("")
    if watched:
        await team.gateway.look(None)
    team.gateway = team.started()
    await team.gateway.look(None)
    await settled(team)
    assert len(team.sent) == 1


async def test_an_event_that_lay_there_long_before_the_track_was_met_is_told_to_nobody(team: BusTeam) -> None:
    touch(team, "TASK_COMPLETE_1.1.event", ago_s=10 * 86_400)
    await team.gateway.look(None)
    await settled(team)
    assert team.mail == {}
    assert len(team.said("bus_message")) == 1


async def test_a_disk_that_refuses_the_mail_makes_it_come_again(team: BusTeam) -> None:
    await team.gateway.look(None)
    touch(team, "TASK_COMPLETE_1.1.event")

    def refuse(_: Draft) -> None:
        team.refuse = None
        raise OSError(28, "No space left on device")

    team.refuse = refuse
    with pytest.raises(OSError, match="No space"):
        await settled(team)
    await team.gateway.look(None)
    assert len(team.told("orchestrator")) == 1


async def test_what_is_no_regular_file_announces_nothing(team: BusTeam) -> None:
    await team.gateway.look(None)
    (Path(team.bus.track.events) / "TASK_COMPLETE_1.1.event").mkdir()
    (Path(team.bus.track.events) / "TASK_COMPLETE_1.2.event").symlink_to("/etc/passwd")
    await settled(team)
    assert team.mail == {}
