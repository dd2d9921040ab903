"""State that a session leaves to the next, in files that anything may have happened to."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.core.engine import Engine
from ackd.core.escalations import OpenEscalation, stamp
from ackd.core.notices import summary
from ackd.core.policy import EnginePolicy
from ackd.runtime.saved_totals import SavedTotals, marks
from ackd.storage.session_log import SessionLog
from tests.acceptance.teams import mime
from tests.nobody import nobodys_directory
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_800_000_000.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def begin(
    place: Path, *, lies: bool = True, facts: list[tuple[str, dict[str, object]]] | None = None
) -> tuple[SavedTotals, Engine]:
    engine = Engine(EnginePolicy(), random.Random(1))
    said = facts if facts is not None else []
    lying = [mime(message_id=found) for found in ("e@ignite.local", "1.0.a@ignite.local")] if lies else []
    saved_totals = SavedTotals(place / "state", engine, place / "logs", lambda _: lying, said.append)
    saved_totals.load()
    return saved_totals, engine


def session(place: Path, *types: str, at: float = AT) -> None:
    log = SessionLog.open(place / "logs", started_at=at)
    for type_ in types:
        log.record(type_, {}, at)
    log.close()


def test_totals_are_what_was_saved_and_what_the_logs_tell_since(place: Path) -> None:
    session(place, "message_completed", "message_completed", "message_withdrawn")
    saved_totals, engine = begin(place)  # as after a kill: nothing was saved
    assert (engine.state.totals.completed, engine.state.totals.withdrawn) == (2, 1)
    saved_totals.save()
    session(place, "message_completed", "message_duplicate", at=AT + 60)
    _, engine = begin(place)
    assert (engine.state.totals.completed, engine.state.totals.duplicates) == (3, 1)
    assert begin(place)[1].state.totals.completed == 3


def test_what_was_counted_once_is_not_read_again_however_often_we_are_killed(place: Path) -> None:
    session(place, "message_completed")
    begin(place)
    (log,) = (place / "logs").iterdir()
    log.write_bytes(b"")
    session(place, "message_completed", at=AT + 60)
    assert begin(place)[1].state.totals.completed == 2


async def test_the_log_of_a_long_session_is_counted_as_it_grows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the start after a crash would read all of it before it serves anyone."""
    monkeypatch.setattr("ackd.runtime.saved_totals.COUNT_EVERY_S", 0.01)
    saved_totals, _ = begin(place)
    log = SessionLog.open(place / "logs", started_at=AT)
    log.record("message_told", {"proof": "message_completed, says the pane"}, AT)
    log.record("message_completed", {}, AT)
    log.flush()
    saved = place / "state/totals.json"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(saved_totals.keep_counting)
        await until(lambda: saved.exists() and b'"completed":1' in saved.read_bytes())
        log.record("message_completed", {}, AT)
        log.flush()
        await until(lambda: b'"completed":2' in saved.read_bytes())
        tasks.cancel_scope.cancel()
    log.record("message_completed", {}, AT)
    log.close()
    (path,) = (place / "logs").iterdir()
    known = json.loads(saved.read_bytes())["offset"]
    path.write_bytes(b"\0" * known + path.read_bytes()[known:])
    assert begin(place)[1].state.totals.completed == 3


def test_sessions_of_one_second_are_counted_in_order_of_age(place: Path) -> None:
    """As text, `…-2.ndjson` comes before `….ndjson`."""
    session(place, "message_completed")
    begin(place)[0].save()
    for _ in range(11):
        session(place, "message_completed")
    assert begin(place)[1].state.totals.completed == 12
    begin(place)[0].save()
    assert begin(place)[1].state.totals.completed == 12


def test_a_log_that_was_removed_takes_no_count_with_it(place: Path) -> None:
    session(place, "message_completed")
    begin(place)[0].save()
    for log in (place / "logs").iterdir():
        log.unlink()
    session(place, "message_completed", at=AT + 60)
    assert begin(place)[1].state.totals.completed == 2


def test_a_log_that_cannot_be_read_costs_its_own_count_and_a_line() -> None:
    with nobodys_directory() as place:
        (place / "state").mkdir()
        session(place, "message_completed")
        session(place, "message_completed", at=AT + 60)
        session(place, "message_completed", at=AT + 120)
        shut = sorted((place / "logs").iterdir())[1]
        shut.chmod(0)
        facts: list[tuple[str, dict[str, object]]] = []
        assert begin(place, facts=facts)[1].state.totals.completed == 2
        assert [(name, data["what"]) for name, data in facts] == [("io_error", f"read logs/{shut.name}")]


def test_open_escalations_are_kept_as_they_change(place: Path) -> None:
    saved_totals, engine = begin(place)
    engine.state.escalations.open(OpenEscalation("e@ignite.local", "worker", "dead", "user", AT))
    saved_totals.note_changes()
    assert begin(place)[1].state.escalations.all() == engine.state.escalations.all()
    engine.state.escalations.counted("worker", "dead")
    saved_totals.note_changes()
    assert begin(place)[1].state.escalations.all()[0].counted == 2
    engine.state.escalations.close("e@ignite.local")
    saved_totals.note_changes()
    assert begin(place)[1].state.escalations.all() == []


def test_an_escalation_whose_message_is_not_there_is_not_open(place: Path) -> None:
    """The daemon crashed between deciding and writing it, or its reader removed it while no daemon ran."""
    saved_totals, engine = begin(place)
    engine.state.escalations.open(OpenEscalation("1.0.a@ignite.local", "worker", "dead", "leader", AT))
    saved_totals.note_changes()
    assert len(begin(place)[1].state.escalations.all()) == 1
    assert begin(place, lies=False)[1].state.escalations.all() == []


def test_an_escalation_whose_message_was_seen_is_open_without_it(place: Path) -> None:
    """Being seen completes the message of an escalation. The escalation waits for its answer, and still knows its
    messages."""
    saved_totals, engine = begin(place)
    one = OpenEscalation("1.0.a@ignite.local", "worker", "dead", "leader", AT, about=["m1", "m2"])
    engine.state.escalations.open(one)
    saved_totals.note_changes()
    one.told = True
    saved_totals.note_changes()
    assert begin(place, lies=False)[1].state.escalations.all() == [one]
    one.about.remove("m1")
    saved_totals.note_changes()
    assert begin(place, lies=False)[1].state.escalations.all()[0].about == ["m2"]


def test_each_box_is_looked_through_once_however_many_are_open(place: Path) -> None:
    saved_totals, engine = begin(place)
    for number in range(20):
        to = ("leader", "user")[number % 2]
        engine.state.escalations.open(OpenEscalation(f"{number}@x", f"worker{number}", "dead", to, AT))
    saved_totals.note_changes()
    asked: list[str] = []

    def lying(agent: str) -> list[bytes]:
        asked.append(agent)
        return [b"rubbish", *(mime(message_id=f"{number}@x") for number in range(10))]

    after = Engine(EnginePolicy(), random.Random(1))
    SavedTotals(place / "state", after, place / "logs", lying, lambda *_: None).load()
    assert sorted(asked) == ["leader", "user"]
    assert len(after.state.escalations.all()) == 10


def test_nothing_is_written_when_nothing_changed(place: Path) -> None:
    saved_totals, _ = begin(place)
    saved_totals.note_changes()
    saved_totals.note_boxes({}, 0)
    assert list((place / "state").iterdir()) == []


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b'{"open": 3}',
        b'{"open": [{"x": 1}]}',
        b'{"open": ["x"], "completed": "many"}',
        b'{"hours": [3, {"to": "x"}, {"to": "x", "hour": 1, "told": [1], "held": {"a": "b"}}]}',
    ],
)
def test_whatever_stands_in_the_files_it_starts(place: Path, broken: bytes) -> None:
    for name in ("totals.json", "escalations.json", "boxes.json", "notices.json"):
        (place / "state" / name).write_bytes(broken)
    saved_totals, engine = begin(place)
    assert engine.state.escalations.all() == []
    assert engine.state.totals.completed == 0
    saved_totals.boxes()


def test_no_count_and_no_time_of_what_stands_there_ends_what_is_made_of_it(place: Path) -> None:
    hour = {"to": "user", "hour": 0, "told": [], "held": {"stray": "many"}}
    (place / "state" / "notices.json").write_text(json.dumps({"hours": [hour]}))
    held = {"message_id": "m@x", "agent": "user", "members": ["a", "b"], "rounds": 3, "since": 1 << 52}
    (place / "state" / "held.json").write_text(json.dumps({"held": [held]}))
    _, engine = begin(place)
    for one in engine.state.notices.over(1):
        summary(one, "user")
    assert [stamp(one.since) for one in engine.state.held.values()]


def test_a_disk_that_refuses_costs_a_count_and_nothing_else(place: Path) -> None:
    saved_totals, engine = begin(place)
    engine.state.escalations.open(OpenEscalation("e@ignite.local", "worker", "dead", "user", AT))
    (place / "state").rename(place / "elsewhere")
    saved_totals.note_changes()
    saved_totals.save()
    (place / "elsewhere").rename(place / "state")
    saved_totals.note_changes()
    assert len(begin(place)[1].state.escalations.all()) == 1


def test_a_directory_is_known_by_inode_and_birth_and_not_by_its_device(place: Path) -> None:
    saved_totals, _ = begin(place)
    saved_totals.note_boxes({"worker": ((1, 10, 111), (1, 11, 112)), "gone": None}, 1)
    assert saved_totals.boxes() == {"worker": marks(((9, 10, 111), (9, 11, 112))), "gone": None}
    assert saved_totals.boxes()["worker"] != marks(((1, 10, 333), (1, 11, 112)))


def test_how_often_whom_was_told_of_trouble_outlives_us(place: Path) -> None:
    saved_totals, engine = begin(place)
    for number in range(25):
        engine.state.notices.weigh("leader", "stray", str(number), 0)
    saved_totals.note_changes()
    after, engine_after = begin(place)
    (hour,) = engine_after.state.notices.all()
    assert (hour.to, hour.hour, len(hour.told), hour.held, len(hour.named)) == ("leader", 0, 20, {"stray": 5}, 5)
    (place / "state" / "notices.json").unlink()
    after.note_changes()
    assert not (place / "state" / "notices.json").exists(), "nothing changed since"
