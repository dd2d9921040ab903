"""Lines read back: forwards, backwards, torn, foreign, unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from ackd.adapters.session_log import Line, end_of_lines, iter_logs, parse_line, read_lines, reading
from tests.adapters.session_log.bench import fact, put

if TYPE_CHECKING:
    from pathlib import Path


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
