"""Files of ours among the system's: which are ours, which were edited, and what goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.storage import installed_file
from ackd.storage.installed_file import EDITED, FOREIGN, MISSING, OURS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("comment", ["#", '.\\"'])
@pytest.mark.parametrize("text", ["[Unit]\nA=1\n", "", "no end of line", "ü\n\n"])
def test_what_was_put_is_ours_until_it_is_changed(tmp_path: Path, comment: str, text: str) -> None:
    path = tmp_path / "file"
    assert installed_file.look(path).state == MISSING
    installed_file.put(path, text, comment)
    found = installed_file.look(path)
    assert (found.state, found.text) == (OURS, text if text.endswith("\n") else f"{text}\n")
    assert path.stat().st_mode & 0o777 == 0o644
    whole = path.read_text()
    for changed in (f"{whole}more\n", f"more\n{whole}", whole.rstrip("\n")):
        path.write_text(changed)
        assert installed_file.look(path).state == EDITED
        assert installed_file.look(path).text == changed
    installed_file.put(path, "new\n", comment)
    assert installed_file.look(path)[:2] == (OURS, "new\n")


def test_what_we_did_not_write_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[Unit]\n")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "directory").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    for path in tmp_path.iterdir():
        assert installed_file.look(path).state == FOREIGN


def test_directories_that_were_made_go_with_the_last_file_in_them(tmp_path: Path) -> None:
    one, two, three = tmp_path / "a/b/c/one", tmp_path / "a/b/c/two", tmp_path / "a/d/three"
    for path in (one, two, three):
        installed_file.put(path, "text", "#")
    installed_file.put(one, "written again", "#")
    installed_file.hand_over(one, two, "#")
    installed_file.remove([one])
    assert two.exists()
    installed_file.remove([two, three])
    assert list(tmp_path.iterdir()) == []


def test_directories_that_somebody_else_uses_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = tmp_path / "there/made/file"
    installed_file.put(path, "text", "#")
    (tmp_path / "there/made/theirs").touch()
    installed_file.remove([path])
    assert [each.name for each in tmp_path.rglob("*")] == ["there", "made", "theirs"]
    (tmp_path / "there/made/theirs").unlink()
    installed_file.put(path, "text", "#")
    installed_file.remove([path])
    assert (tmp_path / "there/made").is_dir()  # it was there before this file


def test_copies_do_not_take_each_others_place(tmp_path: Path) -> None:
    path = tmp_path / "unit"
    for number, name in enumerate(("unit.bak", "unit.bak.1", "unit.bak.2")):
        path.write_text(f"version {number}")
        assert installed_file.keep_copy(path).name == name
        assert (tmp_path / name).read_text() == f"version {number}"
