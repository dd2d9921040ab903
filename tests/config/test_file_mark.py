"""The mark of a config file: equal for the same bytes, whatever was done to the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.config.file_mark import NOTE_NAME, mark_of, read_note

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_bytes_are_the_same_file_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text("a = 1\n")
    mark = mark_of(path)
    assert mark is not None
    assert mark.is_still(str(path))
    os.utime(path, (1, 1))
    assert mark.is_still(str(path)), "touched"
    path.unlink()
    path.write_text("a = 1\n")
    assert mark.is_still(str(path)), "written anew"
    path.write_text("a = 2\n")
    assert not mark.is_still(str(path))
    path.unlink()
    assert mark.is_still(str(path)), "nothing is known of a file that is not there"
    assert mark_of(path) is None


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a place\nwith odd names" / "ackd.toml"
    path.parent.mkdir()
    path.write_text("x")
    mark = mark_of(path)
    assert mark is not None
    (tmp_path / NOTE_NAME).write_text(mark.as_line())
    assert read_note(tmp_path) == mark


@pytest.mark.parametrize("text", ["", "1 2 3", "a b c d /x", "1 2 3 -4 /x", "\0"])
def test_what_no_daemon_wrote_is_no_note(tmp_path: Path, text: str) -> None:
    (tmp_path / NOTE_NAME).write_text(text)
    assert read_note(tmp_path) is None
    assert read_note(tmp_path / "nowhere") is None
