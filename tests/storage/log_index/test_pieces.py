"""Parts of a log: whole lines only, forwards and backwards, in pieces of any size."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackd.storage.log_index import pieces

CONTENT = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=12)


@given(lines=CONTENT, rest=st.binary(max_size=5), size_bytes=st.integers(1, 40), skipped=st.integers(0, 12))
@settings(deadline=None)
def test_pieces_are_the_whole_lines_in_their_order(
    lines: list[bytes], rest: bytes, size_bytes: int, skipped: int
) -> None:
    rest = rest.replace(b"\n", b"")
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        path = Path(directory) / "log"
        path.write_bytes(b"".join(line + b"\n" for line in lines) + rest)
        end = path.stat().st_size
        start = sum(len(line) + 1 for line in lines[:skipped])
        forwards = b"".join(pieces.chunks(path, start, end, size_bytes))
        assert forwards.split(b"\n")[:-1] == lines[skipped:]
        patched.setattr(pieces, "_FIRST_CHUNK_BYTES", size_bytes)
        patched.setattr(pieces, "_CHUNK_BYTES", size_bytes * 3)
        backwards = [line for chunk in pieces.chunks_backwards(path, start, end) for line in chunk.split(b"\n")[-2::-1]]
        assert backwards[::-1] == lines[skipped:]


@pytest.mark.parametrize("read", [pieces.chunks, pieces.chunks_backwards])
def test_a_log_that_is_gone_or_was_cut_has_nothing_there(tmp_path: Path, read: object) -> None:
    assert callable(read)
    assert list(read(tmp_path / "gone", 0, 100)) == []
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    assert list(read(path, 4, 100)) == []
    assert pieces.read(path, 2, 100) == b"e\n"
    assert pieces.read(tmp_path / "gone", 0, 100) == b""
    assert pieces.state(tmp_path / "gone") is None
    assert pieces.state(tmp_path) is None
