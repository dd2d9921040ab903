"""Real files; a full disk is a real limit on file size (RLIMIT_FSIZE) or /dev/full."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.adapters import session_log
from ackd.adapters.session_log import (
    Follower,
    Line,
    SessionLog,
    choose_id,
    end_of_lines,
    find_message_lines,
    follow,
    iter_logs,
    matching_ids,
    parse_line,
    read_lines,
    session_files,
)
from ackd.core.errors import AmbiguousMessage, UnknownMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = 1_794_791_723.123456  # 2026-11-16T01:15:23.123456Z
STEM = "20261116-011523"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "root" / "logs"


@contextlib.contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def written(log: SessionLog) -> list[Line]:
    return list(read_lines(log.path))


def works(log: SessionLog) -> bool:
    return log.failing is None


def fill(log: SessionLog, count: int, **data: object) -> None:
    for number in range(count):
        log.record("fact", {"n": number, **data}, AT + number)


# --- names and lines --------------------------------------------------------------------------------------------------
def test_a_line_has_the_contracts_keys_in_their_order(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("message_queued", {"message_id": "1.2.a@ignite.local", "agent": "builder"}, AT)
    log.flush()
    assert log.path.read_bytes() == (
        b'{"timestamp":"2026-11-16T01:15:23.123456Z","session_id":"20261116-011523","seq":1,"writer":"daemon",'
        b'"type":"message_queued","data":{"message_id":"1.2.a@ignite.local","agent":"builder"}}\n'
    )


def test_files_and_directories_are_private(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(d.stat().st_mode) for d in (logs, logs.parent)] == [0o700, 0o700]


def test_sessions_of_one_second_get_a_suffix_in_name_and_id(logs: Path) -> None:
    opened = [SessionLog.open(logs, started_at=AT) for _ in range(11)]
    assert [log.session_id for log in opened[:3]] == [STEM, f"{STEM}-2", f"{STEM}-3"]
    assert session_files(logs) == [log.path for log in opened], "-10 after -9"


def test_a_link_in_the_logs_place_is_not_followed(logs: Path, tmp_path: Path) -> None:
    logs.mkdir(parents=True)
    (logs / f"session-{STEM}.ndjson").symlink_to(tmp_path / "elsewhere")
    assert SessionLog.open(logs, started_at=AT).session_id == f"{STEM}-2"
    assert not (tmp_path / "elsewhere").exists()


def test_numbers_count_from_one_per_writer(logs: Path) -> None:
    one, two = SessionLog.open(logs, started_at=AT), SessionLog.open(logs, started_at=AT, writer="gateway")
    for log in (one, two, one):
        log.record("fact", {}, AT)
        log.flush()
    assert [(line.writer, line.seq) for line in iter_logs(logs)] == [("daemon", 1), ("daemon", 2), ("gateway", 1)]


@pytest.mark.parametrize(
    ("at", "stamp"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1.9999999, "1970-01-01T00:00:02.000000Z"),
        (AT, "2026-11-16T01:15:23.123456Z"),
    ],
)
def test_timestamps_have_microseconds_and_carry_over(logs: Path, at: float, stamp: str) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", {}, at)
    log.flush()
    assert [line.timestamp for line in written(log)] == [stamp]
    assert abs(written(log)[0].at - at) < 1e-6


def circle() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["again"] = data
    return data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"reason": "bad \udcff byte"}, {"reason": "bad \\udcff byte"}),
        ({"\ud800": 1}, {"\\ud800": 1}),
        ({1: "one", None: "none"}, {"1": "one", "None": "none"}),
        ({"n": 1 << 70}, {"n": str(1 << 70)}),
        (
            {"path": Path("a/b"), "set": {"x"}, 3: "forces the slow way"},
            {"path": "a/b", "set": ["x"], "3": "forces the slow way"},
        ),
        ({"path": Path("a/\udcff")}, {"path": "a/\\udcff"}),
        ({"raw": b"\xff"}, {"raw": "b'\\xff'"}),
        ({"line": "two\nlines\r\x00"}, {"line": "two\nlines\r\x00"}),
    ],
)
def test_lone_surrogates_crash_nothing_and_neither_does_any_other_value(
    logs: Path, data: dict[str, object], expected: dict[str, object]
) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", data, AT)
    log.flush()
    assert [line.data for line in written(log)] == [expected]


def test_a_circle_is_cut(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", circle(), AT)
    log.flush()
    assert log.path.read_bytes().count(b"\n") == 1
    assert "…" in log.path.read_text()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)) | st.integers() | st.none(), inner)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec=None)), anything, max_size=4), st.text(st.characters(codec=None)))
def test_any_value_becomes_one_readable_line(data: dict[str, object], type_: str) -> None:
    log = SessionLog.__new__(SessionLog)
    log.session_id, log._writer = "s", "daemon"
    raw = log._encode("2026-11-16T01:15:23.123456Z", 1, type_, data)
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    assert parse_line(raw[:-1]) is not None


# --- a disk that says no ----------------------------------------------------------------------------------------------
def test_nothing_reaches_the_file_before_flush_and_one_write_takes_it_all(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog.open(logs, started_at=AT)
    sizes: list[int] = []
    real = os.write

    def counted(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return real(fd, data)

    monkeypatch.setattr(os, "write", counted)
    fill(log, 500)
    assert log.unwritten == 500
    assert log.path.stat().st_size == 0
    log.flush()
    log.flush()
    assert sizes == [log.path.stat().st_size]
    assert log.unwritten == 0


@pytest.mark.parametrize("room", range(1, 260, 7))
def test_a_write_cut_anywhere_by_a_full_disk_glues_and_loses_nothing(logs: Path, room: int) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 3)
    with file_size_limit(room):
        log.flush()
        assert isinstance(log.failing, OSError)
        log.record("fact", {"n": 3}, AT)
        log.flush()
    assert log.path.stat().st_size == room
    log.record("fact", {"n": 4}, AT)
    log.flush()
    assert works(log)
    assert [line.data["n"] for line in written(log)] == [0, 1, 2, 3, 4]
    assert [line.seq for line in written(log)] == [1, 2, 3, 4, 5]


def test_a_line_that_lacks_only_its_newline_is_not_written_twice(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    with file_size_limit(len(log._pending[0]) - 1):
        log.flush()
    assert log.failing is not None
    fill(log, 1)
    log.flush()
    reader = read_lines(log.path)
    assert [line.seq for line in reader] == [1, 2]
    assert reader.skipped == 0


def test_short_writes_are_continued(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SessionLog.open(logs, started_at=AT)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    fill(log, 5)
    log.flush()
    assert works(log)
    assert [line.seq for line in written(log)] == [1, 2, 3, 4, 5]


def test_no_space_left_keeps_lines_in_memory_and_says_why(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    ours = os.dup(log._file.fd)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file.fd)
    log._look_at = float("inf")
    fill(log, 2)
    log.flush()
    assert log.failing is not None
    assert log.failing.strerror == "No space left on device"
    assert log.unwritten == 2
    os.dup2(ours, log._file.fd)
    log.flush()
    assert works(log)
    assert [line.seq for line in written(log)] == [1, 2]
    os.close(ours)
    os.close(full)


def test_beyond_the_bound_the_oldest_go_and_a_line_says_how_many(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "KEPT_LINES", 10)
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    with file_size_limit(log.path.stat().st_size + 20):  # the next line is torn, and later dropped
        for _ in range(3):
            fill(log, 7)
            log.flush()
            assert log.unwritten <= 10
    fill(log, 1)
    log.flush()
    reader = read_lines(log.path)
    lines = list(reader)
    assert reader.skipped == 1
    gap = lines[1]
    assert (gap.type, gap.data) == ("log_gap", {"lost": 12})
    assert [line.seq for line in lines] == [1, 13, *range(14, 24)], "the gap stands where the lost ones would"
    assert [line.type for line in lines].count("log_gap") == 1


def test_a_second_gap_counts_from_nothing_again(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "KEPT_LINES", 4)
    log = SessionLog.open(logs, started_at=AT)
    for _ in range(2):
        with file_size_limit(log.path.stat().st_size or 1):
            fill(log, 6)
            log.flush()
        log.flush()
    assert [line.data["lost"] for line in written(log) if line.type == "log_gap"] == [3, 3]


# --- the file goes away -----------------------------------------------------------------------------------------------
def test_git_clean_under_the_log_opens_a_new_file_of_the_same_session(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    shutil.rmtree(logs.parent)
    fill(log, 2)
    log.flush()
    assert works(log)
    assert [path.name for path in session_files(logs)] == [f"session-{STEM}-2.ndjson"]
    assert [(line.session_id, line.seq) for line in iter_logs(logs)] == [(STEM, 2), (STEM, 3)]
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700


def test_a_log_that_cannot_be_made_anew_keeps_its_lines_until_it_can(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    shutil.rmtree(logs)
    logs.write_text("in the way")
    fill(log, 2)
    log.flush()
    assert isinstance(log.failing, OSError)
    logs.unlink()
    log.flush()
    assert works(log)
    assert [line.seq for line in iter_logs(logs)] == [1, 2]


def test_a_torn_line_of_a_deleted_file_is_whole_in_the_new_one(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    with file_size_limit(20):
        log.flush()
    log.path.unlink()
    log.flush()
    assert log.path.read_bytes().startswith(b'{"timestamp"')
    assert [line.seq for line in written(log)] == [1]


def test_a_log_renamed_away_is_noticed_within_a_second(logs: Path) -> None:
    now = 0.0
    log = SessionLog.open(logs, started_at=AT, clock=lambda: now)
    log.path.rename(logs / "old.ndjson")
    fill(log, 1)
    log.flush()
    assert session_files(logs) == [], "not looked at again yet; the line is in the renamed file"
    now = 1.0
    fill(log, 1)
    log.flush()
    assert [line.seq for line in iter_logs(logs)] == [2]
    assert [line.seq for line in read_lines(logs / "old.ndjson")] == [1]


def test_close_writes_what_is_left_and_may_be_called_twice(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 2)
    log.close()
    log.close()
    assert len(written(log)) == 2


# --- reading ----------------------------------------------------------------------------------------------------------
def put(logs: Path, name: str, *lines: bytes | dict[str, Any]) -> Path:
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / name
    with path.open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else orjson.dumps(line) + b"\n")
    return path


def fact(number: int, **data: object) -> dict[str, Any]:
    return {
        "timestamp": f"2026-11-16T01:00:{number % 60:02d}.000000Z",
        "session_id": "s",
        "seq": number,
        "writer": "daemon",
        "type": "fact",
        "data": data,
    }


def test_torn_and_foreign_lines_are_skipped_and_counted(logs: Path) -> None:
    garbage = (
        b'{"timestamp":"2026\n',
        b"\n",
        b"\xff\xfe\n",
        b"[1]\n",
        b'"text"\n',
        b'{"timestamp":1,"type":"x","data":{}}\n',
        b'{"timestamp":"soon","type":"x","data":{}}\n',
    )
    more = (
        b'{"timestamp":"2026-11-16T01:00:00Z","type":1,"data":{}}\n',
        b'{"timestamp":"2026-11-16T01:00:00Z","type":"x","data":[]}\n',
    )
    path = put(logs, "session-20261116-010000.ndjson", fact(1), *garbage, fact(2), *more, fact(3))
    reader = read_lines(path)
    assert [line.seq for line in reader] == [1, 2, 3]
    assert reader.skipped == len(garbage) + len(more)
    assert [line.seq for line in iter_logs(logs, newest_first=True)] == [3, 2, 1]


def test_a_line_not_finished_yet_is_read_when_it_is(logs: Path) -> None:
    whole = orjson.dumps(fact(2)) + b"\n"
    path = put(logs, "session-20261116-010000.ndjson", fact(1), whole[:30])
    reader = read_lines(path)
    assert [line.seq for line in reader] == [1]
    assert reader.offset == end_of_lines(path)
    assert [line.seq for line in iter_logs(logs, newest_first=True)] == [1]
    put(logs, path.name, whole[30:])
    assert [line.seq for line in reader] == [2]
    assert [line.seq for line in read_lines(path, start=reader.offset)] == []
    assert reader.skipped == 0


def test_only_regular_files_with_a_sessions_name_are_logs(logs: Path) -> None:
    mine = put(logs, "session-20261116-010000.ndjson")
    put(logs, "session-1.ndjson")
    put(logs, "notes.txt")
    os.mkfifo(logs / "session-20261116-010001.ndjson")
    (logs / "session-20261116-010002.ndjson").symlink_to(mine)
    (logs / "session-20261116-010003.ndjson").mkdir()
    assert session_files(logs) == [mine]
    assert session_files(logs / "missing") == []


def test_reading_a_file_that_is_gone_gives_nothing(logs: Path) -> None:
    assert list(read_lines(logs / "session-20261116-010000.ndjson")) == []
    assert end_of_lines(logs / "session-20261116-010000.ndjson") == 0


@pytest.mark.parametrize("width", [0, 3, 40, 200, 5000, 300_000])
def test_backwards_is_forwards_reversed_whatever_the_length_of_lines(logs: Path, width: int) -> None:
    put(logs, "session-20261116-010000.ndjson", *(fact(n, pad="x" * (width * n % 7919)) for n in range(40)))
    put(logs, "session-20261116-020000.ndjson", *(fact(n, pad="ü" * (width // 2)) for n in range(40, 60)), b'{"torn')
    forwards = list(iter_logs(logs))
    assert [line.seq for line in forwards] == list(range(60))
    assert list(iter_logs(logs, newest_first=True)) == forwards[::-1]


def test_the_few_newest_lines_of_a_big_log_cost_few_reads(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(logs, "session-20261116-010000.ndjson", *(fact(n, pad="x" * 200) for n in range(20_000)))
    parsed: list[bytes] = []

    def counted(raw: bytes) -> Line | None:
        parsed.append(raw)
        return parse_line(raw)

    monkeypatch.setattr(session_log, "parse_line", counted)
    newest = iter_logs(logs, newest_first=True)
    assert [next(newest).seq for _ in range(3)] == [19_999, 19_998, 19_997]
    assert len(parsed) == 3


# --- finding ----------------------------------------------------------------------------------------------------------
def test_a_message_is_found_across_sessions_by_id_and_by_beginning(logs: Path) -> None:
    wanted = "1770263544.12345.abcdef@ignite.local"
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id=wanted),
        fact(2, message_id="1770263544.999.ff@ignite.local"),
    )
    put(logs, "session-20261116-020000.ndjson", fact(3, message_id=wanted), b'{"torn ' + wanted.encode())
    for text in (wanted, "1770263544.12345.abcdef", "1770263544.1"):
        assert [line.seq for line in find_message_lines(logs, text)] == [1, 3]


def test_answers_and_the_escalation_itself_belong_to_a_message_but_mere_mention_does_not(logs: Path) -> None:
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id="m"),
        fact(2, message_id="answer", in_reply_to="m"),
        fact(3, message_id="other", escalation_id="m"),
        fact(4, message_id="other", reason="m"),
        fact(5, agent="m"),
    )
    assert [line.seq for line in find_message_lines(logs, "m")] == [1, 2, 3]


def test_a_beginning_that_fits_several_names_them(logs: Path) -> None:
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id="17.1.aa@x"),
        fact(2, message_id="17.1.ab@x"),
        fact(3, agent="17.1.ac"),
    )
    with pytest.raises(AmbiguousMessage) as caught:
        find_message_lines(logs, "17.1")
    assert caught.value.candidates == ("17.1.aa@x", "17.1.ab@x")
    with pytest.raises(UnknownMessage):
        find_message_lines(logs, "18")
    with pytest.raises(UnknownMessage):
        find_message_lines(logs, "")


def test_an_id_with_json_in_it_is_found(logs: Path) -> None:
    odd = 'a"b\\c\td.*é@x'
    put(logs, "session-20261116-010000.ndjson", fact(1, message_id=odd), fact(2, message_id="axb"))
    assert [line.seq for line in find_message_lines(logs, odd)] == [1]
    assert matching_ids(logs, 'a"b') == {odd}


def test_a_log_written_with_spaces_is_searched_too(logs: Path) -> None:
    import json

    put(logs, "session-20261116-010000.ndjson", json.dumps(fact(1, message_id="17.1.aa@x")).encode() + b"\n")
    assert [line.seq for line in find_message_lines(logs, "17.1")] == [1]


def test_lines_at_the_edges_of_chunks_are_found(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "_CHUNK_BYTES", 64)
    put(
        logs,
        "session-20261116-010000.ndjson",
        *(fact(n, message_id="even" if n % 2 == 0 else "odd", pad="x" * n) for n in range(100)),
    )
    assert [line.seq for line in find_message_lines(logs, "ev")] == list(range(0, 100, 2))


def test_whole_ids_and_whole_local_parts_win_over_beginnings() -> None:
    assert choose_id("1.2.ab", ["1.2.ab@x", "1.2.abc@x"]) == "1.2.ab@x"
    assert choose_id("1.2", ["1.2", "1.2.abc@x"]) == "1.2"
    with pytest.raises(AmbiguousMessage):
        choose_id("1.2.ab", ["1.2.ab@x", "1.2.ab@y"])


# --- following --------------------------------------------------------------------------------------------------------
def test_following_starts_at_the_end_and_goes_over_a_restart_into_the_next_file(logs: Path) -> None:
    first = SessionLog.open(logs, started_at=AT)
    fill(first, 2)
    first.flush()
    follower = Follower(logs)
    assert list(follower.poll()) == []
    fill(first, 1)
    first.close()
    second = SessionLog.open(logs, started_at=AT + 5)
    fill(second, 2)
    second.flush()
    assert [(line.session_id, line.seq) for line in follower.poll()] == [
        (STEM, 3),
        (second.session_id, 1),
        (second.session_id, 2),
    ]
    assert list(follower.poll()) == []


def test_following_begins_before_there_is_any_log(logs: Path) -> None:
    follower = Follower(logs)
    assert not follower.found_any
    assert list(follower.poll()) == []
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [1]
    assert follower.found_any


def test_a_log_that_was_deleted_or_truncated_is_followed_on(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 3)
    log.flush()
    follower = Follower(logs)
    log.path.unlink()
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [4]
    os.truncate(log.path, 0)
    assert list(follower.poll()) == []
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [5]


def test_follow_yields_none_and_waits_when_there_is_nothing_new(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    waits: list[float] = []

    def write_while_waiting(seconds: float) -> None:
        waits.append(seconds)
        fill(log, 1)
        log.flush()

    stream = follow(Follower(logs), poll_s=0.2, sleep=write_while_waiting)
    assert next(stream) is None
    assert (line := next(stream)) is not None
    assert line.seq == 1
    assert next(stream) is None
    assert waits == [0.2]


def test_following_does_not_look_at_old_sessions(logs: Path) -> None:
    for hour in range(10):
        put(logs, f"session-20261116-{hour:02d}0000.ndjson", fact(hour))
    follower = Follower(logs)
    put(logs, "session-20261116-000000.ndjson", fact(90))
    put(logs, "session-20261116-090000.ndjson", fact(91))
    assert [line.seq for line in follower.poll()] == [91]
