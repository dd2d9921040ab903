from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackd.coordination.bus.files import append
from ackd.coordination.bus.files.tailing import CHUNK_BYTES, Position, position_at, position_at_end, read_on

if TYPE_CHECKING:
    from pathlib import Path

MOST = 1000


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    path = tmp_path / "queue.jsonl"
    path.touch()
    return path


def read(queue: Path, position: Position | None = None) -> tuple[list[bytes], Position]:
    piece = read_on(str(queue), position or Position(), MOST)
    return [line.raw for line in piece.lines], piece.position


def test_lines_are_read_once_and_the_half_one_when_it_is_whole(queue: Path) -> None:
    queue.write_bytes(b"one\ntwo\nthr")
    lines, position = read(queue)
    assert lines == [b"one", b"two"]
    assert read(queue, position) == ([], position)
    with queue.open("ab") as file:
        file.write(b"ee\n")
    assert read(queue, position)[0] == [b"three"]


def test_a_last_line_without_an_end_is_taken_if_that_is_asked_for(queue: Path) -> None:
    queue.write_bytes(b"one\ntwo")
    piece = read_on(str(queue), Position(), MOST, take_rest=True)
    assert [(line.offset, line.end, line.raw) for line in piece.lines] == [(0, 4, b"one"), (4, 7, b"two")]
    with queue.open("ab") as file:
        file.write(b"\nthree\n")
    assert read(queue, piece.position)[0] == [b"", b"three"]


def test_an_appended_line_is_never_glued_to_half_a_line(queue: Path) -> None:
    queue.write_bytes(b"half")
    append(str(queue), b"whole\n")
    assert read(queue)[0] == [b"half", b"whole"]


def test_a_file_that_was_cut_replaced_or_written_anew_is_read_from_its_beginning(queue: Path) -> None:
    queue.write_bytes(b"one\ntwo\n")
    position = read(queue)[1]
    queue.write_bytes(b"new\n")
    assert read_on(str(queue), position, MOST).restarted == "it was cut short"
    queue.write_bytes(b"one\nTWO\nthree\n")
    assert read_on(str(queue), position, MOST).restarted == "it was written anew"
    other = queue.with_name("other")
    other.write_bytes(b"one\ntwo\nthree\n")
    other.rename(queue)
    piece = read_on(str(queue), position, MOST)
    assert piece.restarted == "another file has its name"
    assert [line.raw for line in piece.lines] == [b"one", b"two", b"three"]
    queue.unlink()
    gone = read_on(str(queue), position, MOST)
    assert (gone.restarted, gone.position) == ("it is gone", Position())


def test_a_missing_file_a_directory_a_link_and_a_pipe_hold_no_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("missing", "pipe", "."):
        assert read_on(str(tmp_path / name), Position(), MOST).lines == ()
    with pytest.raises(OSError, match="symbolic links"):
        read_on(str(tmp_path / "link"), Position(), MOST)


def test_an_endless_line_costs_no_memory_and_no_line_behind_it(queue: Path) -> None:
    queue.write_bytes(b"x" * (CHUNK_BYTES * 5) + b"\nafter\n")
    position, found, pieces = Position(), [], 0
    while True:
        piece = read_on(str(queue), position, MOST)
        found += [line.raw for line in piece.lines]
        position, pieces = piece.position, pieces + 1
        if not piece.more:
            break
    assert found[-1] == b"after"
    assert all(len(raw) <= MOST + 1 for raw in found)
    assert len(found) < 10


def test_one_may_begin_at_the_end_or_at_a_byte(queue: Path) -> None:
    queue.write_bytes(b"one\ntwo\nhalf")
    assert position_at_end(str(queue)).offset == 8
    assert [position_at(str(queue), at).offset for at in (0, 1, 4, 5, 99)] == [0, 4, 4, 8, 12]
    assert position_at_end(str(queue.with_name("missing"))) == Position()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=30),
    st.lists(st.integers(1, 200)),
)
def test_however_it_is_cut_into_writes_every_line_is_read_once(
    queue: Path, lines: list[bytes], cuts: list[int]
) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    queue.write_bytes(b"")
    position, found, at = Position(), [], 0
    with queue.open("ab", buffering=0) as file:
        for size in [*cuts, len(whole)]:
            file.write(whole[at : at + size])
            at += size
            piece = read_on(str(queue), position, MOST)
            assert not piece.restarted
            found += [line.raw for line in piece.lines]
            position = piece.position
    assert found == lines
