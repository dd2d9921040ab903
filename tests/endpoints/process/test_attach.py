"""Following what a process prints, through rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.endpoints.process.attach import StderrFollower

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_printed_is_followed_through_rotation_and_into_a_file_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "coder.stderr.log"
    printed = StderrFollower(path)
    assert (printed.last(10), list(printed.more())) == ([], [])
    path.write_bytes(b"one\r\ntw")
    assert list(printed.more()) == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert list(printed.more()) == ["two"]
    path.rename(tmp_path / "coder.stderr.log.1")
    path.write_bytes(b"three\n")
    assert list(printed.more()) == ["three"]
    path.write_bytes(b"4\n")  # begun anew, and shorter
    assert list(printed.more()) == ["4"]
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    pieces = [*printed.more(), *printed.more(), *printed.more(), *printed.more()]
    assert 65_536 < len("".join(pieces)) <= 200_000
