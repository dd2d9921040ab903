"""Ends that exist only as event files, as of a worker whose prompt has it ``touch`` one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.core.bus_events import event_names
from tests.runtime.gateways.bus.house import Hearing, House

if TYPE_CHECKING:
    from ackd.core.message import Draft


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def touch(house: House, name: str, *, ago_s: float = 0.0) -> None:
    path = Path(house.bus.track.events) / name
    path.touch()
    at = house.clock.wall - ago_s
    os.utime(path, (at, at))


async def settled(house: House) -> None:
    """Two looks, with the time between them that a line may be late."""
    await house.gateway.look(frozenset({house.bus.track.events}))
    house.clock.wall += 1
    await house.gateway.look(frozenset())


@pytest.mark.parametrize(("end", "words"), [("TASK_COMPLETE", "is complete"), ("TASK_FAILED", "has failed")])
async def test_an_end_that_is_only_an_event_file_is_mail_and_a_line_of_the_log(
    house: House, end: str, words: str
) -> None:
    await house.gateway.look(None)
    touch(house, f"{end}_1.1.event")
    wish = await house.gateway.look(frozenset({house.bus.track.events}))
    assert wish == pytest.approx(0.05)
    assert house.mail == {}, "its line may be about to come"
    house.clock.wall += 1
    await house.gateway.look(frozenset())
    assert house.told("orchestrator") == [f"Track login: task 1.1 {words}, says an event file."]
    (said,) = house.said("bus_message")
    assert (said["bus_type"], said["task_id"], said["event"]) == (end, "1.1", f"{end}_1.1.event")
    await house.gateway.look(None)
    house.gateway = house.started()
    await house.gateway.look(None)
    house.clock.wall += 1
    await house.gateway.look(None)
    assert len(house.sent) == len(house.said("bus_message")) == 1
    assert sum(house.gateway.page()["login"]["workers"].values()) == 0  # type: ignore[index]


async def test_who_holds_the_task_has_ended_by_it_and_who_waited_is_woken(tmp_path: Path) -> None:
    hearing = Hearing()
    house = House(tmp_path, subscribers=(hearing,))
    house.say_at("PROGRESS", "builder", task_id="feature/1")
    house.say_at("BLOCKED", "tester", task_id="1.2", waiting_for="feature/1")
    await house.gateway.look(None)
    (name,) = [one for one in event_names("TASK_COMPLETE", "m", {"task_id": "feature/1"}) if "MESSAGE" not in one]
    touch(house, name)
    await settled(house)
    assert [(line.source, line.payload["task_id"]) for _, line in hearing.heard[2:]] == [("builder", "feature/1")]
    assert any("feature/1 is complete" in one for one in house.told("tester"))
    house.clock.wall += 3600
    await house.gateway.look(None)
    assert [line["worker"] for line in house.said("worker_stale")] == ["tester"]


async def test_events_of_lines_are_no_news_whoever_raised_them_and_however_the_task_went_on(house: House) -> None:
    house.say_at("TASK_FAILED", "w", task_id="1.1")
    house.say_at("TASK_COMPLETE", "w", task_id="1.1")
    touch(house, "TASK_FAILED_1.1.event")
    touch(house, "TASK_COMPLETE_1.1.event")
    touch(house, "TASK_COMPLETE_all.event")
    touch(house, "FILE_UNLOCK_x.event")
    await house.gateway.look(None)
    await settled(house)
    assert len(house.said("bus_message")) == len(house.sent) == 2
    house.gateway = house.started()
    await house.gateway.look(None)
    await settled(house)
    assert len(house.sent) == 2


async def test_a_line_that_is_read_after_its_event_was_seen_is_the_news(house: House) -> None:
    await house.gateway.look(None)
    touch(house, "TASK_COMPLETE_1.1.event")
    await house.gateway.look(frozenset({house.bus.track.events}))
    house.say_at("TASK_COMPLETE", "w", task_id="1.1")
    house.clock.wall += 1
    await house.gateway.look(None)
    assert house.told("orchestrator") == ["Track login: task 1.1 is complete, says w."]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_queue_that_is_begun_anew_makes_no_news_of_the_events_that_are_left(
    house: House, watched: bool
) -> None:
    house.say_at("TASK_COMPLETE", "w", task_id="1.1")
    await house.gateway.look(None)
    house.replace("")
    if watched:
        await house.gateway.look(None)
    house.gateway = house.started()
    await house.gateway.look(None)
    await settled(house)
    assert len(house.sent) == 1


async def test_an_event_that_lay_there_long_before_the_track_was_met_is_told_to_nobody(house: House) -> None:
    touch(house, "TASK_COMPLETE_1.1.event", ago_s=10 * 86_400)
    await house.gateway.look(None)
    await settled(house)
    assert house.mail == {}
    assert len(house.said("bus_message")) == 1


async def test_a_disk_that_refuses_the_mail_makes_it_come_again(house: House) -> None:
    await house.gateway.look(None)
    touch(house, "TASK_COMPLETE_1.1.event")

    def refuse(_: Draft) -> None:
        house.refuse = None
        raise OSError(28, "No space left on device")

    house.refuse = refuse
    with pytest.raises(OSError, match="No space"):
        await settled(house)
    await house.gateway.look(None)
    assert len(house.told("orchestrator")) == 1


async def test_what_is_no_regular_file_announces_nothing(house: House) -> None:
    await house.gateway.look(None)
    (Path(house.bus.track.events) / "TASK_COMPLETE_1.1.event").mkdir()
    (Path(house.bus.track.events) / "TASK_COMPLETE_1.2.event").symlink_to("/etc/passwd")
    await settled(house)
    assert house.mail == {}
