from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from ackd.coordination.board import files as board_files
from ackd.coordination.board.files import BoardHeld
from ackd.core.errors import NoMeeting

NOON = 1769947200.0  # 2026-02-01 12:00:00 UTC


@pytest.fixture
def board(tmp_path: Path) -> str:
    path = tmp_path / "bus/board"
    board_files.make_board(str(path))
    return str(path)


def opened(board: str, wall: float = NOON) -> str:
    meeting_id = board_files.new_meeting(board, wall)
    board_files.write_meeting(board, meeting_id, b"{}", durable=True)
    return meeting_id


def test_meetings_have_the_seeds_names_and_a_number_if_two_begin_in_one_second(board: str) -> None:
    ids = [opened(board) for _ in range(12)]
    assert ids[:3] == ["board-20260201120000", "board-20260201120000-2", "board-20260201120000-3"]
    assert board_files.meeting_ids(board) == ids
    assert board_files.newest_first(board)[0] == ids[-1]


def test_a_clock_that_was_set_back_makes_no_older_meeting_the_newest(board: str) -> None:
    first, second = opened(board), opened(board, NOON - 3600)
    assert second == f"{first}-2"
    assert board_files.newest_first(board) == [second, first]


def test_a_directory_whose_opening_was_cut_short_is_no_meeting(board: str) -> None:
    cut_short = board_files.new_meeting(board, NOON)
    assert board_files.meeting_ids(board) == []
    assert opened(board) != cut_short


@pytest.mark.parametrize("name", ["../../etc", "board-1", "", "board-20260201120000/../x", "board-20260201120000\n"])
def test_what_is_no_id_is_no_path(board: str, name: str) -> None:
    with pytest.raises(NoMeeting):
        board_files.read_meeting(board, name)


def test_everything_is_private(board: str) -> None:
    meeting_id = opened(board)
    board_files.put_flat(f"{board}/votes.json", b"{}", board_files.FlatFile(None, None))
    with board_files.locked(board):
        pass
    for path in Path(board).rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert board_files.read_meeting(board, meeting_id) == b"{}"


def _count_up(path: str, board: str, times: int) -> None:
    for _ in range(times):
        with board_files.locked(board):
            number = int(Path(path).read_text())
            Path(path).write_text(str(number + 1))


def test_never_two_hold_the_board_and_the_lock_file_stays(board: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")
    workers = [multiprocessing.Process(target=_count_up, args=(str(count), board, 50)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert count.read_text() == "200"
    assert Path(board, board_files.LOCK).exists()


def test_a_holder_that_does_not_let_go_is_not_waited_for_for_ever(board: str) -> None:
    with board_files.locked(board):
        fd = os.open(f"{board}/.lock", os.O_RDWR)
        try:
            with pytest.raises(OSError, match="unavailable"):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)
        with pytest.raises(BoardHeld, match="held by another process"), board_files.locked(board, 0.02):
            pass


# --- flat files -------------------------------------------------------------------------------------------------------
def test_a_flat_file_is_replaced_only_while_it_is_the_one_that_was_read(board: str) -> None:
    path = Path(board, "votes.json")
    nothing = board_files.read_flat(str(path))
    board_files.put_flat(str(path), b'{"CA": 1}', nothing)
    with pytest.raises(OSError, match="meanwhile") as refused:
        board_files.put_flat(str(path), b"{}", nothing)
    assert refused.value.errno == errno.ESTALE
    read = board_files.read_flat(str(path))
    path.write_text('{"CPO": 2}')
    with pytest.raises(OSError, match="meanwhile"):
        board_files.put_flat(str(path), b"{}", read)
    assert path.read_text() == '{"CPO": 2}'
    gone = board_files.read_flat(str(path))
    path.unlink()
    with pytest.raises(OSError, match="meanwhile"):
        board_files.put_flat(str(path), b"{}", gone)
    assert [one.name for one in Path(board).iterdir()] == [], "and no temporary file is left"


def test_a_link_or_a_fifo_is_not_read(board: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    Path(board, "votes.json").symlink_to(tmp_path / "secret")
    os.mkfifo(Path(board, "assessments.json"))
    for name in ("votes.json", "assessments.json"):
        with pytest.raises(OSError, match=name):
            board_files.read_flat(f"{board}/{name}")


def test_lines_are_not_glued_to_half_a_line(board: str) -> None:
    path = Path(board, "discussion.jsonl")
    path.write_text('{"from": "CA"')
    board_files.append_lines(str(path), b"{}\n")
    assert path.read_text() == '{"from": "CA"\n{}\n'


def test_what_makes_room_is_moved_and_never_over_another(board: str) -> None:
    meeting_id = opened(board)
    for text in ("1", "2"):
        Path(board, "votes.json").write_text(text)
        board_files.move_aside(f"{board}/votes.json", f"{board}/{meeting_id}")
    board_files.move_aside(f"{board}/votes.json", f"{board}/{meeting_id}")
    assert Path(board, meeting_id, "votes.json").read_text() == "1"
    assert Path(board, meeting_id, "votes.json.2").read_text() == "2"


# --- the bus ----------------------------------------------------------------------------------------------------------
def test_only_whole_lines_count_as_said(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    assert board_files.ids_said_since(str(queue), 0, ["a"]) == set()
    assert board_files.queue_size(str(queue)) == 0
    queue.write_text('{"id": "a"}\n{"id": "b", "x": "c"}\n{"id": "d", "pay')
    assert board_files.ids_said_since(str(queue), 0, ["a", "b", "c", "d"]) == {"a", "b"}
    assert board_files.ids_said_since(str(queue), 12, ["a", "b"]) == {"b"}
    assert board_files.ids_said_since(str(queue), 10_000, ["a"]) == {"a"}, "a file that was cut is read from its start"
