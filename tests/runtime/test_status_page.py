"""run/status.json: its content for a real engine, and how it is written."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import anyio

from ackd.core.agent_rules import change_state
from ackd.core.availability import AgentHappening, Parked
from ackd.core.engine import Engine
from ackd.core.escalations import OpenEscalation
from ackd.core.events import AgentJoined, Arrived, Claimed, NotTold, Now
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.policy import AgentPolicy, EnginePolicy
from ackd.runtime.status_page import StatusPage, describe, status_line

if TYPE_CHECKING:
    from pathlib import Path

NOW = Now(100.0, 1_800_000_000.0)


class Clock:
    def now(self) -> Now:
        return NOW


def engine_at_work() -> Engine:
    """An engine whose worker has one message that retries, one that is being delivered, and one that is queued."""
    engine = Engine(EnginePolicy(), random.Random(1))
    engine.handle(AgentJoined("worker", AgentPolicy(), "exec"), NOW)
    for number in (1, 2, 3):
        message = Message(f"1.{number}.a@ignite.local", "leader", "worker", "message", Priority.NORMAL, f"d{number}")
        place = Place("worker", Folder.QUEUE, f"message_{number}.mime")
        engine.handle(Arrived(message, place, NOW.wall), NOW)
        if number < 3:
            engine.handle(Claimed(number, Place("worker", Folder.PROCESSED, place.name)), NOW)
        if number == 1:
            engine.handle(NotTold(1, "exit 1"), NOW)
    return engine


def test_it_counts_what_waits_what_is_in_hand_and_what_is_tried_again() -> None:
    engine = engine_at_work()
    engine.state.totals.completed, engine.state.totals.dead, engine.state.totals.rejected = 7, 2, 1
    page = describe(engine)
    assert page["agents"] == {
        "worker": {"endpoint": "exec", "state": "busy", "queued": 1, "in_flight": 2, "retrying": 1}
    }
    assert page["totals"] == {
        "queued": 1,
        "in_flight": 2,
        "retrying": 1,
        "unread": 0,
        "completed": 7,
        "dead": 2,
        "corrupt": 1,
        "withdrawn": 0,
        "duplicates": 0,
    }


def test_a_pool_says_who_serves_it_what_waits_and_how_much_is_at_work() -> None:
    engine = Engine(EnginePolicy(), random.Random(1))
    for name in ("w1", "w2"):
        engine.handle(AgentJoined(name, AgentPolicy(), "exec"), NOW)
    engine.handle(AgentJoined("crew", AgentPolicy(), "pool", members=("w1", "w2")), NOW)
    for number in range(3):
        message = Message(f"1.{number}.a@ignite.local", "leader", "crew", "message", Priority.NORMAL, f"d{number}")
        engine.handle(Arrived(message, Place("crew", Folder.QUEUE, f"message_{number}.mime"), NOW.wall), NOW)
    agents: Any = describe(engine)["agents"]
    assert agents["crew"] == {
        "endpoint": "pool", "state": "available", "queued": 1, "in_flight": 0, "retrying": 0,
        "members": ["w1", "w2"], "at_work": 2,
    }  # fmt: skip
    assert [agents[name]["in_flight"] for name in ("w1", "w2")] == [1, 1]


def test_a_parked_agent_says_why_and_until_when_and_an_open_escalation_is_listed() -> None:
    engine = engine_at_work()
    agent = engine.state.agents["worker"]
    change_state(engine.state, agent, AgentHappening.WENT_AWAY, "no program ./work", Parked(NOW.wall + 5))
    engine.state.escalations.open(OpenEscalation("e@ignite.local", "worker", "away", "user", NOW.wall, 2))
    page = describe(engine)
    agents = page["agents"]
    assert isinstance(agents, dict)
    assert (agents["worker"]["state"], agents["worker"]["reason"]) == ("parked", "no program ./work")
    assert agents["worker"]["until"] == "2027-01-15T08:00:05Z"
    assert page["escalations"] == [
        {
            "escalation_id": "e@ignite.local",
            "agent": "worker",
            "cause": "away",
            "to": "user",
            "since": "2027-01-15T08:00:00Z",
            "counted": 2,
        }
    ]


def test_it_is_written_when_it_changed_whole_and_for_nobody_else(tmp_path: Path) -> None:
    path, content = tmp_path / "status.json", {"daemon": {"pid": 1}}
    page = StatusPage(path, Clock(), lambda: dict(content))
    assert page.write() is None
    assert json.loads(path.read_text()) == {"daemon": {"pid": 1}, "at": "2027-01-15T08:00:00Z"}
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.stat().st_ino
    page.write()
    assert path.stat().st_ino == before
    content["daemon"] = {"pid": 2}
    page.write()
    assert path.stat().st_ino != before
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_refuses_is_answered_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "status.json"
    page = StatusPage(path, Clock(), lambda: {"a": 1})
    assert isinstance(page.write(), FileNotFoundError)
    path.parent.mkdir()
    assert page.write() is None
    assert path.exists()


def test_a_name_that_is_not_utf8_does_not_end_the_daemon(tmp_path: Path) -> None:
    page = StatusPage(tmp_path / "status.json", Clock(), lambda: {"reason": "no \udcff"})
    assert page.write() is None
    assert json.loads((tmp_path / "status.json").read_text())["reason"] == "no \udcff"


async def test_it_looks_only_when_the_pump_has_turned(tmp_path: Path) -> None:
    turns, looked = anyio.Semaphore(2), 0

    def content() -> dict[str, object]:
        nonlocal looked
        looked += 1
        return {"looked": looked}

    page = StatusPage(tmp_path / "status.json", Clock(), content, every_s=0.001)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.run, turns.acquire)
        with anyio.fail_after(60):
            while not turns.statistics().tasks_waiting:  # noqa: ASYNC110 - both turns are used up, and it waits for more
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert json.loads((tmp_path / "status.json").read_text())["looked"] == looked == 2


def test_its_line_counts_the_agents_of_the_team_and_names_trouble() -> None:
    page = {
        "daemon": {"watch": "inotify"},
        "agents": {"worker": {}, "user": {}, "reviewers": {}},
        "totals": {"queued": 5, "dead": 2},
        "faults": [],
    }
    assert status_line(page, {"user", "reviewers"}) == "1 agent, 5 queued, 2 dead; watching by inotify"
    page["faults"] = [{"error": "No space left on device"}]
    assert status_line(page) == "3 agents, 5 queued, 2 dead; watching by inotify; in trouble: No space left on device"


def test_whoever_is_told_of_a_page_is_told_of_changes_only_even_when_the_disk_refuses(tmp_path: Path) -> None:
    content, told = {"a": 1}, list[dict[str, object]]()
    page = StatusPage(tmp_path / "run" / "status.json", Clock(), lambda: dict(content), told=told.append)
    assert isinstance(page.write(), FileNotFoundError)
    (tmp_path / "run").mkdir()
    page.write()
    page.write()
    content["a"] = 2
    page.write()
    assert told[0] == {"a": 1}
    assert told[-1] == {"a": 2}
    assert len(told) == 3  # the one that was refused was told, and again when it was written
