from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.bus.files import Appender, append, make_track, raise_event
from ackd.coordination.bus.files.tailing import HeldFile, Position, read_on
from ackd.coordination.bus.rules.layout import Track

if TYPE_CHECKING:
    from pathlib import Path


def test_one_that_appends_again_and_again_follows_the_name_and_mends_half_lines(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    appender = Appender(str(queue))
    appender.append(b"one\n")
    appender.append(b"two\n")
    with queue.open("ab") as file:
        file.write(b"half")
    appender.append(b"three\n")
    assert queue.read_bytes() == b"one\ntwo\nhalf\nthree\n"
    queue.rename(tmp_path / "old")
    appender.close()  # in use, the file is closed after a millisecond
    appender.append(b"four\n")
    assert queue.read_bytes() == b"four\n"
    assert queue.stat().st_mode & 0o777 == 0o600
    appender.close()
    appender.close()


def test_an_append_says_where_it_ended_and_follows_no_link(tmp_path: Path) -> None:
    assert append(str(tmp_path / "queue"), b"one\n") == 4
    (tmp_path / "link").symlink_to("queue")
    for write in (append, lambda path, data: Appender(path).append(data)):
        with pytest.raises(OSError, match="symbolic"):
            write(str(tmp_path / "link"), b"two\n")


def test_an_event_that_is_raised_again_has_a_new_time(tmp_path: Path) -> None:
    raise_event(str(tmp_path), "A.event")
    os.utime(tmp_path / "A.event", (1, 1))
    raise_event(str(tmp_path), "A.event")
    assert (tmp_path / "A.event").stat().st_mtime > 1


def test_a_held_file_is_read_to_its_end_whatever_its_name_is(tmp_path: Path) -> None:
    queue, held = tmp_path / "queue", HeldFile()
    queue.write_bytes(b"one\n")
    position = read_on(str(queue), Position(), 100).position
    assert held.rest(position, 100) is None
    held.hold(str(queue), position.inode)
    with queue.open("ab") as file:
        file.write(b"two\nthr")
    queue.unlink()
    rest = held.rest(position, 100)
    assert rest is not None
    assert [line.raw for line in rest.lines] == [b"two", b"thr"]
    held.hold(str(queue), 12345)
    assert held.rest(position, 100) is None


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
