"""Lines read back: forwards, backwards, torn, foreign, unfinished."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.storage.session_log import (
    Follower,
    Line,
    SessionLog,
    choose_id,
    end_of_lines,
    find_message_lines,
    follow,
    iter_logs,
    keeping,
    matching_ids,
    newest_session,
    parse_line,
    read_lines,
    reading,
    stored,
)
from tests.storage.session_log.bench import AT, STEM, fact, fill, put


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

    monkeypatch.setattr(reading, "parse_line", counted)
    newest = iter_logs(logs, newest_first=True)
    assert [next(newest).seq for _ in range(3)] == [19_999, 19_998, 19_997]
    assert len(parsed) == 3


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


# --- one message ------------------------------------------------------------------------------------------------------
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
    put(logs, "session-20261116-010000.ndjson", json.dumps(fact(1, message_id="17.1.aa@x")).encode() + b"\n")
    assert [line.seq for line in find_message_lines(logs, "17.1")] == [1]


def test_lines_at_the_edges_of_chunks_are_found(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK_BYTES", 64)
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


def test_the_hash_of_an_id_finds_its_lines(logs: Path) -> None:
    one, other = "17.29247.7c1f00d00001@x", "17.29247.7c1fbeef0002@x"
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id=one),
        fact(2, message_id=other),
        fact(3, agent="7c1f"),
    )
    assert matching_ids(logs, "7c1f") == {one, other}
    assert [line.seq for line in find_message_lines(logs, "7c1f00d0")] == [1]
    assert matching_ids(logs, "29247") == set()


# --- the newest session -----------------------------------------------------------------------------------------------
def test_the_newest_session_has_all_files_that_it_went_on_in(logs: Path) -> None:
    assert newest_session(logs) == []
    put(logs, "session-20261116-000000.ndjson", {**fact(1), "session_id": "before"})
    files = [put(logs, f"session-20261116-010000-{n}.ndjson", fact(n)) for n in (2, 3, 4)]
    keeping.compress(files[0], lambda _took_s: True)
    assert newest_session(logs) == files
    files.append(put(logs, "session-20261116-010000-5.ndjson"))
    assert newest_session(logs) == files, "the newest one has no line yet"
    other = put(logs, "session-20261116-010000-6.ndjson", {**fact(1), "session_id": "of the same second"})
    assert newest_session(logs) == [other]


# --- following a log that goes on in other files, and is compressed behind the reader ---------------------------------
FOLLOWED = st.lists(
    st.sampled_from(("write", "write", "half", "next", "compress", "remove", "poll")), min_size=5, max_size=60
)


@given(steps=FOLLOWED)
@settings(deadline=None)
def test_whoever_follows_has_each_line_once_whatever_becomes_of_the_files(steps: list[str]) -> None:
    """However many files were begun between two looks."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored, "PIECE_BYTES", 150)
        logs = Path(directory)
        files = [put(logs, "session-20261116-000000.ndjson", fact(0))]
        follower = Follower(logs)
        read: list[int] = []
        written: list[int] = []
        for step in steps:
            match step:
                case "write" | "half":
                    written.append(len(written) + 1)
                    line = orjson.dumps(fact(written[-1])) + b"\n"
                    put(logs, files[-1].name, line[:20])
                    read += [one.seq for one in follower.poll()] if step == "half" else []
                    put(logs, files[-1].name, line[20:])
                case "next":
                    files.append(put(logs, f"session-20261116-000000-{len(files) + 1}.ndjson"))
                case "compress":
                    for path in files[:-1]:
                        keeping.compress(path, lambda _took_s: True)
                case "remove" if len(files) > 1 and read == written:
                    keeping.remove(files[0])
                case "poll":
                    read += [one.seq for one in follower.poll()]
                    assert read == written
        read += [one.seq for one in follower.poll()]
        assert read == written
