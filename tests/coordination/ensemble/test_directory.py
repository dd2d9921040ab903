from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.ensemble import directory
from ackd.core.errors import BadMessage
from ackd.storage.spool import reading

if TYPE_CHECKING:
    from pathlib import Path


def found(path: Path) -> directory.FoundFile:
    (one,) = [one for one in directory.listed(str(path.parent)) or [] if one.name == path.name]
    return one


def test_the_oldest_comes_first_and_hidden_files_not_at_all(tmp_path: Path) -> None:
    for name, at in (("b", 3), ("a", 5), (".c", 1), ("z", 3)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert [one.name for one in directory.listed(str(tmp_path)) or []] == ["b", "z", "a"]


def test_what_is_no_directory_has_nothing_to_tell(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert directory.listed(str(tmp_path / "none")) is None
    assert directory.listed(str(tmp_path / "file")) is None


def test_a_closed_file_has_settled_soon_and_an_empty_one_later(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x")
    now = found(path).came_ns / 1e9
    assert 0 < directory.wait_s(found(path), now + 0.01, 1.0) < directory.QUIET_S
    assert directory.wait_s(found(path), now + 0.06, 1.0) == 0
    path.write_text("")
    assert directory.wait_s(found(path), found(path).came_ns / 1e9 + 0.06, 1.0) > 0.9


def test_an_open_file_has_not_settled_however_old_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with path.open("w") as file:
        file.write("x")
        file.flush()
        assert directory.wait_s(found(path), time.time() + 3600, 1.0) > 0
    assert directory.wait_s(found(path), time.time() + 3600, 1.0) == 0


def test_where_nobody_can_say_whether_it_is_open_its_age_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "is_closed", lambda _: None)
    path = tmp_path / "a.yaml"
    path.write_text("x")
    now = found(path).came_ns / 1e9
    assert directory.wait_s(found(path), now + 0.5, 1.0) == pytest.approx(0.5)
    assert directory.wait_s(found(path), now + 1.5, 1.0) == 0


def test_what_changed_since_it_was_listed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x")
    one = found(path)
    assert directory.read(one, 10) == b"x"
    path.write_text("xy")
    assert directory.read(one, 10) is None
    path.unlink()
    assert directory.read(one, 10) is None
    assert directory.wait_s(one, time.time(), 1.0) > 0


def test_what_is_too_large_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x" * 11)
    with pytest.raises(BadMessage, match="11 bytes"):
        directory.read(found(path), 10)
