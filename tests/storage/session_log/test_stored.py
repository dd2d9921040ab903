"""A compressed log is the plain one to every reader, whatever its lines are, and as much of it as is left after damage."""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackd.storage.session_log import (
    end_of_lines,
    find_message_lines,
    iter_logs,
    keeping,
    read_lines,
    session_files,
    stored,
)
from tests.storage.session_log.bench import fact, put

NAME = "session-20261116-010000.ndjson"


def always(_took_s: float) -> bool:
    return True


def compressed(path: Path) -> Path:
    assert keeping.compress(path, always) is not None
    return stored.packed_path(path)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PIECE_BYTES", 200)


@given(
    lines=st.lists(st.binary(max_size=90).map(lambda data: data.replace(b"\n", b"")), max_size=40),
    rest=st.binary(max_size=30),
    piece_bytes=st.integers(1, 300),
    cuts=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000)), max_size=8),
)
@settings(deadline=None)
def test_any_part_of_a_compressed_log_is_that_part_of_the_plain_one(
    lines: list[bytes], rest: bytes, piece_bytes: int, cuts: list[tuple[int, int]]
) -> None:
    content = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored, "PIECE_BYTES", piece_bytes)
        path = Path(directory) / NAME
        path.write_bytes(content)
        was = stored.state(path)
        packed = compressed(path)
        assert not path.exists()
        assert gzip.decompress(packed.read_bytes()) == content
        assert stored.state(path) == was
        with stored.open_log(path) as log:
            assert log is not None
            assert log.read(0, len(content) + 9) == content
            for start, end in cuts:
                assert log.read(start, end) == content[start:end]
                assert b"".join(log.raw_lines(min(start, len(content)))) == content[min(start, len(content)) :]
            assert all(line.endswith(b"\n") for line in list(log.raw_lines(0))[:-1])


@pytest.mark.usefixtures("small")
def test_lines_are_read_forwards_backwards_from_an_offset_and_by_message(logs: Path) -> None:
    path = put(logs, NAME, *(fact(n, message_id=f"1.{n}.a@x") for n in range(60)), b'{"unfinished')
    reader = read_lines(path)
    forwards, end = list(reader), end_of_lines(path)
    half = read_lines(path)
    assert [line.seq for line, _ in zip(half, range(30), strict=False)] == list(range(30))
    compressed(path)
    assert session_files(logs) == [path]
    assert list(iter_logs(logs)) == forwards
    assert list(iter_logs(logs, newest_first=True)) == forwards[::-1]
    assert end_of_lines(path) == end == reader.offset
    assert [line.seq for line in read_lines(path, half.offset)] == [line.seq for line in half]
    assert find_message_lines(logs, "1.7.a@x") == [forwards[7]]


@pytest.mark.usefixtures("small")
def test_whoever_has_the_plain_file_open_reads_it_to_its_end(logs: Path) -> None:
    path = put(logs, NAME, *(fact(n) for n in range(60)))
    lines = iter(read_lines(path))
    assert next(lines).seq == 0
    compressed(path)
    assert [line.seq for line in lines] == list(range(1, 60))


def test_it_is_gzip_for_everybody_else(logs: Path) -> None:
    path = put(logs, NAME, *(fact(n) for n in range(2_000)))
    content = path.read_bytes()
    packed = compressed(path)
    assert subprocess.run(["gzip", "-dc", packed], check=True, capture_output=True).stdout == content
    assert packed.stat().st_size < len(content) / 5
    assert packed.stat().st_mode & 0o777 == 0o600


# --- damage -----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("small")
def test_a_damaged_piece_costs_its_own_lines_and_no_other(logs: Path) -> None:
    path = put(logs, NAME, *(fact(n) for n in range(60)))
    whole, end = list(read_lines(path)), end_of_lines(path)
    packed = compressed(path)
    data = bytearray(packed.read_bytes())
    middle = data.index(b"\x1f\x8b\x08", len(data) // 3) + 20
    data[middle : middle + 4] = b"\xff\xff\xff\xff"
    packed.write_bytes(data)
    left = list(read_lines(path))
    assert len(whole) - 3 <= len(left) < len(whole)
    assert [line for line in whole if line in left] == left
    assert end_of_lines(path) == end
    assert list(iter_logs(logs, newest_first=True)) == left[::-1]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("part", [0.99, 0.7, 0.3, 0.0])
def test_a_compressed_log_that_was_cut_has_the_lines_before_the_cut(logs: Path, part: float) -> None:
    path = put(logs, NAME, *(fact(n) for n in range(60)))
    whole = list(read_lines(path))
    packed = compressed(path)
    os.truncate(packed, int(packed.stat().st_size * part))
    left = list(read_lines(path))
    assert left == whole[: len(left)]
    assert len(left) >= int(60 * part) - 10


def test_a_log_that_a_person_has_compressed_is_read_too(logs: Path) -> None:
    path = put(logs, NAME, *(fact(n) for n in range(60)))
    whole = list(read_lines(path))
    subprocess.run(["gzip", path], check=True)
    assert session_files(logs) == [path]
    assert list(read_lines(path)) == whole
    assert list(iter_logs(logs, newest_first=True)) == whole[::-1]


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08\x04" + bytes(50)])
def test_what_is_no_compressed_log_has_no_lines(logs: Path, content: bytes) -> None:
    logs.mkdir(parents=True)
    (logs / f"{NAME}.gz").write_bytes(content)
    assert list(iter_logs(logs)) == []
    assert end_of_lines(logs / NAME) == 0


def test_a_log_that_is_gone_is_none(logs: Path) -> None:
    assert stored.state(logs / NAME) is None
    with stored.open_log(logs / NAME) as log:
        assert log is None


def test_logs_without_number_are_listed_by_more_than_one_call(logs: Path) -> None:
    for number in range(2, 400):
        put(logs, f"session-20261116-010000-{number}.ndjson{'.gz' if number % 2 else ''}")
    assert [path.name for path in session_files(logs)] == [
        f"session-20261116-010000-{number}.ndjson" for number in range(2, 400)
    ]
