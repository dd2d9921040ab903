from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from ackd.core.errors import NewerState
from ackd.storage import state_version
from ackd.storage.state_version import BEFORE, VERSION, begin, require

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_763_467_200.25


def test_the_first_start_writes_the_version_and_its_time(tmp_path: Path) -> None:
    begun = begin(tmp_path, NOON)
    assert begun == (BEFORE, NOON, None)
    said = json.loads((tmp_path / "version").read_text())
    assert (said["version"], said["first_start"]) == (VERSION, "2025-11-18T12:00:00.250000Z")
    assert (tmp_path / "version").stat().st_mode & 0o777 == 0o600
    assert require(tmp_path) == VERSION


def test_a_later_start_knows_when_the_first_one_was_and_writes_nothing(tmp_path: Path) -> None:
    begin(tmp_path, NOON)
    inode = (tmp_path / "version").stat().st_ino
    assert begin(tmp_path, NOON + 86_400) == (VERSION, NOON, None)
    assert (tmp_path / "version").stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["version"]


def test_an_older_state_is_read_and_becomes_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path, NOON)
    monkeypatch.setattr(state_version, "VERSION", VERSION + 1)
    assert require(tmp_path) == VERSION
    assert begin(tmp_path, NOON + 60) == (VERSION, NOON + 60, None)
    assert require(tmp_path) == VERSION + 1


def test_a_newer_state_is_refused_by_name_and_left_as_it_is(tmp_path: Path) -> None:
    content = json.dumps({"version": VERSION + 1, "ackd": "9.1.0", "more": [1]})
    (tmp_path / "version").write_text(content)
    for ask in (lambda: require(tmp_path), lambda: begin(tmp_path, NOON)):
        with pytest.raises(NewerState, match=r"version 2, written by ackd 9\.1\.0; this ackd reads up to 1"):
            ask()
    assert (tmp_path / "version").read_text() == content


@pytest.mark.parametrize(
    "content", [b"", b"2", b"\xff", b"[" * 9999, b'{"version": "1"}', b'{"version": true}', b'{"version": 0}', b"{}"]
)
def test_what_cannot_be_understood_may_be_a_newer_ackds(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "version").write_bytes(content)
    with pytest.raises(NewerState, match="cannot be understood"):
        require(tmp_path)


@pytest.mark.parametrize("time", ["yesterday", 12, None, "2025-11-18T12:00:00"])
def test_a_time_that_was_edited_away_is_this_start(tmp_path: Path, time: object) -> None:
    (tmp_path / "version").write_text(json.dumps({"version": VERSION, "first_start": time}))
    assert begin(tmp_path, NOON).first_start == NOON


def test_a_full_disk_keeps_no_daemon_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    begun = begin(tmp_path, NOON)
    assert begun.refused is not None
    assert begun.first_start == NOON
    assert require(tmp_path) == BEFORE
