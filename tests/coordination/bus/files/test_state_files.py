from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ackd.coordination.bus.files import state_files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_read_with_what_tells_that_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "worker-status.json"
    assert state_files.read_file(str(path), 100) is None
    assert state_files.identity_of(str(path)) is None
    path.write_text("{}")
    found = state_files.read_file(str(path), 100)
    assert found is not None
    assert (found.data, found.identity) == (b"{}", state_files.identity_of(str(path)))
    path.write_text('{"a": 1}')
    assert state_files.identity_of(str(path)) != found.identity
    assert state_files.read_file(str(path), 3) is None
    assert state_files.last_written(str(path), str(tmp_path / "none")) == path.stat().st_mtime


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert state_files.read_file(str(tmp_path / "pipe"), 100) is None
    assert state_files.identity_of(str(tmp_path)) is None


def test_only_old_event_files_that_are_wanted_gone_are_removed(tmp_path: Path) -> None:
    for name, at in (("A_1.event", 10), ("A_2.event", 1000), ("B_1.event", 10), ("notes.txt", 10)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "A_link.event").symlink_to("A_2.event")
    (tmp_path / "A_dir.event").mkdir()
    assert state_files.clear_events(str(tmp_path), 500, lambda name: name.startswith("A")) == (1, False)
    assert not (tmp_path / "A_1.event").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"A_2.event", "B_1.event", "notes.txt", "A_link.event"}
    assert state_files.clear_events(str(tmp_path / "missing"), 500, lambda _: True) == (0, False)
