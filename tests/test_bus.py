"""A bus from Python, without a daemon."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from ackd.bus import Bus
from ackd.coordination.bus.rules.words import BusLine
from ackd.core.errors import BadBusLine


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    bus = Bus(tmp_path / "login")
    bus.make()
    return bus


def events(bus: Bus) -> set[str]:
    return {path.name for path in Path(bus.track.events).iterdir()}


def said(bus: Bus, **wanted: object) -> list[str]:
    return [line.type.value for line in bus.read(**wanted) if isinstance(line, BusLine)]  # type: ignore[arg-type]


# --- posting ------------------------------------------------------------------------------------------------------------
def test_a_post_is_a_line_of_the_seeds_form_and_its_events(bus: Bus) -> None:
    message_id = bus.post("TASK_COMPLETE", "worker-1.1", {"task_id": "1.1", "unblocks": ["1.2"]})
    found = json.loads(Path(bus.track.queue).read_text())
    assert found["id"] == message_id
    assert list(found) == ["id", "type", "source", "timestamp", "payload"]
    assert found["timestamp"].endswith("Z")
    assert events(bus) == {"TASK_COMPLETE_1.1.event", "UNBLOCKED_1.2.event", f"MESSAGE_{message_id}.event"}


def test_a_failure_makes_an_event_too_and_progress_none(bus: Bus) -> None:
    bus.post("PROGRESS", "w", {"task_id": "1.1", "progress_pct": 10})
    assert events(bus) == set()
    bus.post("TASK_FAILED", "w", {"task_id": "1.1", "error": "no"})
    assert "TASK_FAILED_1.1.event" in events(bus)


def test_a_task_whose_name_is_a_path_stays_inside(bus: Bus, tmp_path: Path) -> None:
    bus.post("TASK_COMPLETE", "w", {"task_id": "../../../escaped"})
    assert not list(tmp_path.rglob("*escaped.event"))
    assert bus.wait("TASK_COMPLETE_../../../escaped", timeout=0)


@pytest.mark.parametrize(
    ("type_", "source", "payload"),
    [
        ("SHOUT", "w", {}),
        ("PROGRESS", " ", {}),
        ("TASK_COMPLETE", "w", {}),
        ("PROGRESS", "w", {"progress_pct": 101}),
        ("PROGRESS", "w", {"x": float("nan")}),
        ("PROGRESS", "w", {"x": "\ud800"}),
        ("PROGRESS", "w", {"x": object()}),
        ("PROGRESS", "w", {"x": "y" * 2_000_000}),
        ("FILE_LOCK", "w", {"filepath": "a", "expires_at": "never"}),
    ],
)
def test_what_no_reader_would_take_is_not_posted(bus: Bus, type_: str, source: str, payload: dict[str, object]) -> None:
    with pytest.raises(BadBusLine):
        bus.post(type_, source, payload)
    assert Path(bus.track.queue).read_bytes() == b""
    assert events(bus) == set()


def test_what_only_looks_like_half_a_character_is_posted(bus: Bus) -> None:
    bus.post("PROGRESS", "w", {"current_subtask": "C:\\udders and \\\\ud800"})
    assert said(bus) == ["PROGRESS"]


def test_a_bus_without_events_gets_its_directory_when_it_needs_it(tmp_path: Path) -> None:
    (tmp_path / ".message-bus").mkdir()
    bus = Bus(tmp_path)
    bus.post("TASK_COMPLETE", "w", {"task_id": "1.1"})
    assert "TASK_COMPLETE_1.1.event" in events(bus)


def test_posters_side_by_side_never_tear_a_line(bus: Bus) -> None:
    def post() -> None:
        for number in range(100):
            bus.post("PROGRESS", "w", {"task_id": str(number), "current_subtask": "x" * (number * 90)})

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said(bus) == ["PROGRESS"] * 400


# --- reading ------------------------------------------------------------------------------------------------------------
def test_reading_goes_by_type_time_and_offset(bus: Bus) -> None:
    bus.post("PROGRESS", "w", {"task_id": "1.1"})
    with Path(bus.track.queue).open("a") as file:
        file.write('{"type": "BLOCKED", "source": "w", "timestamp": "2020-01-01T00:00:00Z", "payload": {}}\nnoise\n')
    bus.post("TASK_FAILED", "w", {"task_id": "1.1"})
    assert said(bus) == ["PROGRESS", "BLOCKED", "TASK_FAILED"]
    assert said(bus, type_="BLOCKED") == ["BLOCKED"]
    assert said(bus, since=1_600_000_000.0) == ["PROGRESS", "TASK_FAILED"]
    first = next(iter(bus.read()))
    assert said(bus, offset=first.end) == ["BLOCKED", "TASK_FAILED"]
    assert [line.code for line in bus.read() if isinstance(line, BadBusLine)] == ["not_json"]


# --- waiting ------------------------------------------------------------------------------------------------------------
def test_what_has_happened_already_is_not_waited_for(bus: Bus) -> None:
    bus.post("TASK_COMPLETE", "w", {"task_id": "1.1"})
    assert bus.wait("TASK_COMPLETE_1.1", timeout=0)
    assert bus.wait("TASK_COMPLETE_*.event", timeout=0)
    assert not bus.wait("TASK_COMPLETE_1.2", timeout=0)
    assert not bus.wait("TASK_COMPLETE_1.1", timeout=0, new=True)


def test_a_touched_event_file_counts_and_so_does_a_line_that_nobody_raised_an_event_for(bus: Bus) -> None:
    (Path(bus.track.events) / "TASK_COMPLETE_7.event").touch()
    assert bus.wait("TASK_COMPLETE_7", timeout=0)
    with Path(bus.track.queue).open("a") as file:
        file.write('{"type": "TASK_COMPLETE", "source": "w", "payload": {"task_id": "8"}}\n')
    assert bus.wait("TASK_COMPLETE_8", timeout=0)


@pytest.mark.parametrize("how", ["post", "echo", "touch"])
@pytest.mark.parametrize("new", [False, True])
def test_it_is_woken_when_it_happens(bus: Bus, how: str, new: bool) -> None:
    if new:  # it happened before, and will again
        bus.post("TASK_COMPLETE", "w", {"task_id": "1.1"})

    def happen() -> None:
        if how == "post":
            bus.post("TASK_COMPLETE", "w", {"task_id": "1.1"})
        elif how == "touch":
            (Path(bus.track.events) / "TASK_COMPLETE_1.1.event").touch()
        else:
            with Path(bus.track.queue).open("a") as file:
                file.write('{"type": "TASK_COMPLETE", "source": "w", "payload": {"task_id": "1.1"}}\n')

    timer = threading.Timer(0.1, happen)
    timer.start()
    assert bus.wait("TASK_COMPLETE_1.1", timeout=60, new=new)
    timer.join()
