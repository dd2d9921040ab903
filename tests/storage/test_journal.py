from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.parts import PartEnd, PartsNotice
from ackd.core.words import MessageEnd
from ackd.storage.journal import Journal, JournalState, NoticeWritten, PutAway, TakenIn
from ackd.storage.journal import journal as journal_module

if TYPE_CHECKING:
    from pathlib import Path

NOW, WINDOW = 1_800_000_000.0, 86400.0


def taken(n: int = 1, **changes: Any) -> TakenIn:
    entry = TakenIn("leader", f"m{n}@host", "leader", f"task_{n}.mime", f"d{n}", "user", "user_goal", 0, NOW)
    return replace(entry, **changes)


def let_go(n: int = 1, end: MessageEnd = MessageEnd.COMPLETED, at: float = NOW, **changes: Any) -> PutAway:
    return replace(PutAway("leader", f"m{n}@host", f"task_{n}.mime", end, f"d{n}", at), **changes)


def written(path: Path, *entries: TakenIn | PutAway, stop: bool = False) -> None:
    journal = Journal.open(path)
    for entry in entries:
        if isinstance(entry, TakenIn):
            journal.take_in(entry)
        else:
            journal.let_go(entry)
    if stop:
        journal.stop()
    journal.close()


def loaded(path: Path, now: float = NOW) -> JournalState:
    journal = Journal.open(path)
    state = journal.load(now, WINDOW)
    journal.close()
    return state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.ndjson"


def test_a_new_journal_says_that_nothing_was_lost(path: Path) -> None:
    assert loaded(path) == JournalState({}, [], clean_stop=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_was_in_hand_is_found_again(path: Path) -> None:
    written(path, taken(1), taken(2), let_go(1))
    state = loaded(path)
    assert list(state.in_flight.values()) == [taken(2)]
    assert state.completed == [let_go(1)]
    assert not state.clean_stop


def test_the_lines_on_disk_are_the_documented_ones(path: Path) -> None:
    written(path, taken(1), let_go(1, MessageEnd.DEAD), stop=True)
    first, second, third = map(json.loads, path.read_text().splitlines())
    assert first == {
        "op": "in", "agent": "leader", "message_id": "m1@host", "box": "leader", "name": "task_1.mime",
        "digest": "d1", "from": "user", "type": "user_goal", "crashes": 0, "at": NOW, "late": False,
    }  # fmt: skip
    assert second == {
        "op": "out", "agent": "leader", "message_id": "m1@host", "name": "task_1.mime", "end": "dead",
        "digest": "d1", "at": NOW,
    }  # fmt: skip
    assert third == {"op": "stop"}


@pytest.mark.parametrize("end", [MessageEnd.DEAD, MessageEnd.WITHDRAWN])
def test_only_what_was_completed_is_remembered_as_completed(path: Path, end: MessageEnd) -> None:
    written(path, taken(1), let_go(1, end))
    assert (loaded(path).in_flight, loaded(path).completed) == ({}, [])


def test_completions_older_than_the_window_are_left_out(path: Path) -> None:
    written(path, let_go(1, at=NOW - WINDOW - 1), let_go(2, at=NOW - WINDOW + 1), let_go(3, at=NOW + 5))
    assert [entry.message_id for entry in loaded(path).completed] == ["m2@host", "m3@host"]


def test_one_id_with_two_contents_is_two_messages(path: Path) -> None:
    written(path, taken(1), taken(1, digest="other"), let_go(1))
    assert list(loaded(path).in_flight.values()) == [taken(1, digest="other")]


def test_taken_in_again_the_newer_line_counts(path: Path) -> None:
    written(path, taken(1), taken(1, crashes=1))
    assert list(loaded(path).in_flight.values()) == [taken(1, crashes=1)]


def test_a_stop_is_clean_only_if_nothing_came_after_it(path: Path) -> None:
    written(path, taken(1), stop=True)
    assert loaded(path).clean_stop
    written(path, taken(2))
    assert not loaded(path).clean_stop


def test_compacting_after_a_clean_stop_makes_the_next_crash_count(path: Path) -> None:
    written(path, taken(1), stop=True)
    journal = Journal.open(path)
    state = journal.load(NOW, WINDOW)
    journal.compact(state)
    assert not journal.load(NOW, WINDOW).clean_stop
    assert journal.load(NOW, WINDOW).in_flight == state.in_flight
    journal.close()


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_torn_last_line_costs_that_line_only(path: Path, cut: int) -> None:
    written(path, taken(1), taken(2))
    path.write_bytes(path.read_bytes()[:-cut])
    state = loaded(path)
    whole = [taken(1), taken(2)] if cut == 1 else [taken(1)]
    assert list(state.in_flight.values()) == whole
    assert state.unreadable_lines == (0 if cut == 1 else 1)


def test_lines_after_a_torn_one_are_whole(path: Path) -> None:
    written(path, taken(1), taken(2))
    path.write_bytes(path.read_bytes()[:-20])
    written(path, taken(3))
    assert [entry.message_id for entry in loaded(path).in_flight.values()] == ["m1@host", "m3@host"]


def test_a_torn_line_after_the_stop_is_no_clean_stop(path: Path) -> None:
    written(path, taken(1), stop=True)
    with path.open("ab") as file:
        file.write(b'{"op":"i')
    assert not loaded(path).clean_stop


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 4096,
        b"[]",
        b"{}",
        b'{"op":"in"}',
        b'{"op":"sing"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"op":"in","agent":1}',
    ],
)
def test_garbage_between_lines_is_skipped_and_counted(path: Path, garbage: bytes) -> None:
    written(path, taken(1))
    with path.open("ab") as file:
        file.write(garbage + b"\n")
    written(path, taken(2))
    state = loaded(path)
    assert list(state.in_flight.values()) == [taken(1), taken(2)]
    assert state.unreadable_lines == 1


def test_a_file_name_that_is_not_utf8_survives(path: Path) -> None:
    odd = taken(1, name=os.fsdecode(b"task_\xff.mime"))
    written(path, odd)
    assert list(loaded(path).in_flight.values()) == [odd]


def test_nothing_reaches_the_file_before_flush_and_everything_after(path: Path) -> None:
    journal = Journal.open(path)
    journal.take_in(taken(1))
    assert path.stat().st_size == 0
    journal.flush()
    assert path.read_bytes().count(b"\n") == 1
    journal.close()
    journal.close()


def test_a_full_disk_loses_no_line_once_there_is_room_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, real_write, room = Journal.open(path), os.write, [100]

    def write(fd: int, data: bytearray) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(fd, bytes(data[: room[0]]))
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    journal.take_in(taken(1))
    with pytest.raises(OSError, match="No space"):
        journal.flush()
    room[0] = 10_000
    journal.take_in(taken(2))
    state = journal.load(NOW, WINDOW)
    assert (list(state.in_flight.values()), state.unreadable_lines) == ([taken(1), taken(2)], 0)
    journal.close()


def test_a_disk_without_room_for_one_byte_is_read_all_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start reads the journal before it deletes anything that would make room. If reading failed here, the daemon
    could never start."""
    written(path, taken(1), taken(2))
    path.write_bytes(path.read_bytes()[:-20])
    journal = Journal.open(path)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", refuse)
    assert list(journal.load(NOW, WINDOW).in_flight.values()) == [taken(1)]
    monkeypatch.undo()
    journal.take_in(taken(3))
    journal.close()
    assert list(loaded(path).in_flight.values()) == [taken(1), taken(3)]


def test_compaction_keeps_what_counts_and_appending_goes_on(path: Path) -> None:
    written(
        path, *(entry for n in range(500) for entry in (taken(n), let_go(n, MessageEnd.DEAD))), taken(900), let_go(901)
    )
    before = path.stat().st_size
    journal = Journal.open(path)
    journal.compact(journal.load(NOW, WINDOW))
    assert path.stat().st_size < before / 100
    journal.take_in(taken(902))
    state = journal.load(NOW, WINDOW)
    journal.close()
    assert list(state.in_flight.values()) == [taken(900), taken(902)]
    assert state.completed == [let_go(901)]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_written_while_compaction_is_prepared_are_kept(path: Path) -> None:
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.take_in(taken(2))
    journal.flush()
    prepared = journal.prepare_compaction(NOW, WINDOW)
    journal.let_go(let_go(1))
    journal.flush()
    journal.take_in(taken(3))
    journal.finish_compaction(prepared)
    state = journal.load(NOW, WINDOW)
    journal.close()
    assert list(state.in_flight.values()) == [taken(2), taken(3)]
    assert state.completed == [let_go(1)]


def test_it_asks_for_compaction_when_large_and_not_again_before_it_doubled(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 1000)
    journal = Journal.open(path)
    for n in range(20):
        assert journal.too_large is (journal._size > 1000)
        journal.take_in(taken(n))
        journal.flush()
    before = journal.too_large
    journal.compact(journal.load(NOW, WINDOW))
    after = journal.too_large
    assert journal._size > 1000
    assert (before, after) == (True, False)
    journal.close()


def test_a_compaction_that_cannot_be_written_leaves_the_old_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.flush()

    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        journal.compact(JournalState())
    monkeypatch.undo()
    journal.take_in(taken(2))
    assert list(journal.load(NOW, WINDOW).in_flight.values()) == [taken(1), taken(2)]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    journal.close()


def test_what_must_be_the_kernels_first_goes_ahead_of_an_end(path: Path) -> None:
    """The session log must be written first, because nobody asks about a message any more that the journal has let
    go."""
    journal = Journal.open(path)
    sizes: list[int] = []

    def ahead() -> bool:
        sizes.append(path.stat().st_size)
        return True

    journal.ahead = ahead
    journal.flush()
    assert sizes == []
    journal.let_go(let_go(1))
    journal.take_in(taken(2))
    journal.flush()
    journal.close()
    assert sizes == [0]
    assert path.stat().st_size > 0


def test_while_the_end_of_a_message_is_told_nowhere_it_stays_in_hand(path: Path) -> None:
    """The log's disk is full, the journal's is not. If the daemon dies now, the next one asks what became of the
    message, and writes the line."""
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.ahead = lambda: False
    journal.let_go(let_go(1))
    journal.take_in(taken(2))
    journal.flush()
    assert list(loaded(path).in_flight) == [taken(1).key, taken(2).key]
    journal.ahead = lambda: True
    journal.flush()
    assert list(loaded(path).in_flight) == [taken(2).key]
    journal.close()


def test_no_more_ends_wait_than_the_log_keeps_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's disk is full for days: memory has no room for everything that ended meanwhile."""
    monkeypatch.setattr(journal_module, "KEPT_ENDS", 2, raising=False)
    journal = Journal.open(path)
    journal.ahead = lambda: False
    for n in range(5):
        journal.take_in(taken(n))
        journal.let_go(let_go(n))
    journal.flush()
    state = loaded(path)
    assert state.completed == [let_go(0), let_go(1), let_go(2)]
    assert list(state.in_flight.values()) == [taken(3), taken(4)]
    journal.ahead = lambda: True
    journal.close()
    assert loaded(path).completed == [let_go(n) for n in range(5)]


def test_what_is_taken_in_again_is_in_hand_though_its_end_had_to_wait(path: Path) -> None:
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.ahead = lambda: False
    journal.let_go(let_go(1))
    journal.take_in(taken(1))
    journal.ahead = lambda: True
    journal.close()
    assert list(loaded(path).in_flight) == [taken(1).key]


def test_a_journal_that_was_removed_under_us_is_there_again_with_all_it_said(path: Path) -> None:
    """``git clean``: the next daemon must still learn what we had in hand."""
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.flush()
    shutil.rmtree(path.parent)
    journal.flush()
    assert not path.exists()  # nothing to say, nothing to do
    journal.take_in(taken(2))
    journal.flush()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    journal.take_in(taken(3))
    journal.close()
    assert list(loaded(path).in_flight.values()) == [taken(1), taken(2), taken(3)]


@pytest.fixture
def looking_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LOOK_INTERVAL_S", 0.0, raising=False)


def in_hand(path: Path) -> list[TakenIn]:
    return list(loaded(path).in_flight.values())


def begun(path: Path) -> Journal:
    journal = Journal.open(path)
    journal.take_in(taken(1))
    journal.flush()
    return journal


@pytest.mark.usefixtures("looking_always")
@pytest.mark.parametrize("what", ["the file", "its directory"])
def test_a_journal_that_was_moved_away_is_there_again_with_all_it_said(path: Path, what: str) -> None:
    """``mv state state.old``: what was completed must not run again after a restart."""
    journal = begun(path)
    moved = path if what == "the file" else path.parent
    moved.rename(moved.with_name("old"))
    journal.take_in(taken(2))
    journal.flush()
    assert [p.name for p in path.parent.iterdir() if p.name != "old"] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    journal.take_in(taken(3))
    journal.close()
    assert in_hand(path) == [taken(1), taken(2), taken(3)]


def test_where_the_journal_is_is_not_looked_at_for_every_line_but_for_the_last(path: Path) -> None:
    journal = begun(path)
    path.parent.rename(path.parent.with_name("old"))
    journal.take_in(taken(2))
    journal.flush()
    assert not path.exists()
    journal.stop()
    journal.close()
    state = loaded(path)
    assert (list(state.in_flight.values()), state.clean_stop) == ([taken(1), taken(2)], True)


@pytest.mark.usefixtures("looking_always")
def test_while_the_root_is_away_nothing_is_made_in_its_place(tmp_path: Path) -> None:
    """A root that is moved away and back is no loss, and a new directory in its place would be in the way."""
    root, away = tmp_path / "root", tmp_path / "away"
    path = root / "state/journal.ndjson"
    journal = begun(path)
    root.rename(away)
    journal.take_in(taken(2))
    journal.flush()
    assert not root.exists()
    away.rename(root)
    journal.take_in(taken(3))
    journal.close()
    assert in_hand(path) == [taken(1), taken(2), taken(3)]


@pytest.mark.usefixtures("looking_always")
def test_in_a_root_that_may_be_anothers_nothing_is_written_before_it_is_ours(tmp_path: Path) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    path = root / "state/journal.ndjson"
    journal = begun(path)
    journal.root_is_ours = lambda: False
    root.rename(away)
    root.mkdir()
    journal.take_in(taken(2))
    journal.flush()
    assert list(root.iterdir()) == []
    journal.root_is_ours = lambda: True
    journal.take_in(taken(3))
    journal.close()
    assert in_hand(path) == [taken(1), taken(2), taken(3)]


@pytest.mark.usefixtures("looking_always")
@pytest.mark.parametrize("lost", ["removed", "moved"])
def test_another_journal_in_our_place_is_added_to_once_the_root_is_ours(path: Path, lost: str) -> None:
    journal = begun(path)
    path.unlink() if lost == "removed" else path.rename(path.with_name("old"))
    written(path, taken(7))
    theirs = path.read_bytes()
    journal.root_is_ours = lambda: False
    journal.take_in(taken(2))
    journal.flush()
    assert path.read_bytes() == theirs
    journal.root_is_ours = lambda: True
    journal.take_in(taken(3))
    journal.flush()
    assert in_hand(path) == [taken(7), taken(1), taken(2), taken(3)]
    assert journal._size == path.stat().st_size - 1  # what ``loaded`` put there
    journal.close()


@pytest.mark.usefixtures("looking_always")
def test_a_copy_in_our_place_gets_what_it_lacks(path: Path) -> None:
    """The journal after ``mv state old; cp -a old state``."""
    journal = begun(path)
    old = path.with_name("old")
    path.rename(old)
    shutil.copy2(old, path)
    journal.take_in(taken(2))
    journal.flush()
    journal.take_in(taken(3))
    journal.close()
    assert path.read_bytes().count(b"\n") == 3
    assert in_hand(path) == [taken(1), taken(2), taken(3)]


@pytest.mark.usefixtures("looking_always")
def test_a_disk_that_refuses_leaves_another_journal_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begun(path)
    path.rename(path.with_name("old"))
    written(path, taken(7))
    theirs = path.read_bytes()

    def refuse(old: Any, new: Any) -> None:
        new.write(old.read(10))
        new.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal.take_in(taken(2))
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfileobj", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                journal.flush()
            assert path.read_bytes() == theirs
    journal.close()
    assert in_hand(path) == [taken(7), taken(1), taken(2)]


@pytest.mark.usefixtures("looking_always")
@pytest.mark.parametrize("followed", [True, False])
def test_a_compaction_of_a_journal_that_was_lost_meanwhile_is_dropped(path: Path, followed: bool) -> None:
    """The compaction stands for bytes of another file: put in place, it would swallow lines."""
    journal = begun(path)
    prepared = journal.prepare_compaction(NOW, WINDOW)
    path.rename(path.with_name("old"))
    written(path, *map(taken, range(5, 9)))
    if followed:
        journal.take_in(taken(2))
    journal.finish_compaction(prepared)
    journal.take_in(taken(3))
    journal.close()
    assert not prepared.temp.exists()
    assert in_hand(path) == [*map(taken, range(5, 9)), taken(1), *([taken(2)] if followed else []), taken(3)]


def test_what_a_crash_in_compaction_left_is_gone_at_the_next_start(path: Path) -> None:
    written(path, taken(1))
    (path.parent / f".{path.name}.0123abcd.tmp").write_text("half")
    assert list(loaded(path).in_flight.values()) == [taken(1)]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_compaction_that_cannot_be_put_in_place_leaves_the_old_journal_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path)
    journal.take_in(taken(1))

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Input/output"):
        journal.compact(JournalState())
    monkeypatch.undo()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert list(journal.load(NOW, WINDOW).in_flight.values()) == [taken(1)]
    journal.close()


# --- parts of messages --------------------------------------------------------------------------------------------------
def part(n: int = 1, **changes: Any) -> PartEnd:
    end = PartEnd("goal@host", "leader", f"m{n}@host", "worker", "message", MessageEnd.DEAD, NOW + n, "refused")
    return replace(end, **changes)


def notice_about(*parts: PartEnd) -> PartsNotice:
    return PartsNotice("n1@host", "goal@host", "leader", parts, "thread")


def noted(path: Path, *entries: PartEnd | PartsNotice | NoticeWritten) -> JournalState:
    journal = Journal.open(path)
    for entry in entries:
        journal.note(entry)
    journal.flush()
    journal.close()
    return loaded(path)


def test_parts_that_ended_are_kept_until_their_sender_was_told(path: Path) -> None:
    state = noted(path, part(1), part(2))
    assert list(state.parts.values()) == [part(1), part(2)]
    state = noted(path, notice_about(part(1), part(2)))
    assert (list(state.parts.values()), list(state.notices.values())) == ([], [notice_about(part(1), part(2))])
    assert list(noted(path, part(3)).parts.values()) == [part(3)]
    assert noted(path, NoticeWritten("n1@host")).notices == {}


def test_a_notice_that_no_line_tells_of_is_written_again_by_the_next_daemon(path: Path) -> None:
    """The log's disk is full, or the daemon dies before it wrote the line: the notice counts as not written."""
    journal = Journal.open(path)
    journal.ahead = lambda: False
    journal.note(notice_about())
    journal.note(NoticeWritten("n1@host"))
    journal.flush()
    assert loaded(path).notices == {"n1@host": notice_about()}
    journal.ahead = lambda: True
    journal.flush()
    assert loaded(path).notices == {}
    journal.close()


def test_a_part_whose_line_comes_after_the_notice_of_it_is_not_told_of_again(path: Path) -> None:
    """Its agent's lane may be slower than its sender's."""
    assert noted(path, notice_about(part(1)), part(1)).parts == {}
    again = part(1, at=NOW + 50)  # it was requeued, and has ended once more
    assert list(noted(path, again).parts.values()) == [again]


def test_a_compaction_keeps_parts_and_notices(path: Path) -> None:
    before = noted(path, part(1), part(2), notice_about(part(1)))
    journal = Journal.open(path)
    journal.compact(before)
    journal.close()
    after = loaded(path)
    assert (after.parts, after.notices) == (before.parts, before.notices)


def test_a_part_of_which_nobody_was_told_for_a_month_is_forgotten(path: Path) -> None:
    noted(path, part(1))
    assert loaded(path, NOW + 29 * 86_400).parts
    assert not loaded(path, NOW + 32 * 86_400).parts


def test_the_line_of_a_part_comes_before_the_end_of_its_message(path: Path) -> None:
    """A start that finds the end asks no more what came of it."""
    journal = Journal.open(path)
    journal.take_in(taken(1, part_of="goal@host", notify=True))
    journal.let_go(let_go(1))
    journal.note(part(1))
    journal.flush()
    journal.close()
    assert [json.loads(line)["op"] for line in path.read_text().splitlines()] == ["in", "part", "out"]


def test_a_message_in_hand_is_known_as_a_part(path: Path) -> None:
    entry = taken(1, part_of="goal@host", notify=False)
    written(path, entry)
    assert list(loaded(path).in_flight.values()) == [entry]


@pytest.mark.parametrize(
    "broken",
    [
        {"op": "part"},
        {"op": "part", "parent": "a", "holder": "b", "message_id": "c", "agent": "d", "type": "e", "end": "?", "at": 1},
        {"op": "notice", "notice_id": "n", "parent": "a", "holder": "b", "parts": 7},
        {"op": "notice", "notice_id": "n", "parent": "a", "holder": "b", "parts": [{}]},
        {"op": "noticed"},
    ],
)
def test_a_broken_line_about_parts_is_skipped(path: Path, broken: dict[str, object]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(broken) + "\n")
    state = loaded(path)
    assert (state.parts, state.notices, state.unreadable_lines) == ({}, {}, 1)
