from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters.bus_files import make_track
from ackd.core.bus_layout import Track

if TYPE_CHECKING:
    from pathlib import Path


def test_a_bus_has_the_seeds_files_for_its_owner_only(tmp_path: Path) -> None:
    bus = tmp_path / "tracks/one/.message-bus"
    made = make_track(Track(str(bus), "one"))
    assert {path.relative_to(bus).as_posix() for path in bus.rglob("*")} == {
        "queue.jsonl", "locks.json", "worker-status.json", "events", "board",
        "board/assessments.json", "board/votes.json", "board/discussion.jsonl",
    }  # fmt: skip
    assert made[:3] == ["", "events/", "board/"]
    assert (bus / "locks.json").read_bytes() == b"{}\n"
    assert {path.stat().st_mode & 0o077 for path in [bus, *bus.rglob("*")]} == {0}


def test_made_again_it_keeps_what_is_there(tmp_path: Path) -> None:
    track = Track(str(tmp_path / ".message-bus"), "one")
    make_track(track)
    (tmp_path / ".message-bus/locks.json").write_text('{"a": 1}')
    (tmp_path / ".message-bus/queue.jsonl").write_text("a line\n")
    (tmp_path / ".message-bus/board/votes.json").unlink()
    assert make_track(track) == ["board/votes.json"]
    assert (tmp_path / ".message-bus/locks.json").read_text() == '{"a": 1}'
    assert (tmp_path / ".message-bus/queue.jsonl").read_text() == "a line\n"
