from __future__ import annotations

import ctypes
import errno
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.system import syscalls
from ackd.system.syscalls import ASIDE, identity_of, mount_of, put_in_place_of, rename_noreplace
from tests.nobody import nobodys_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["renameat2", "fallback"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "fallback":
        monkeypatch.setattr(syscalls, "_libc_renameat2", lambda: None)
    return str(request.param)


def test_a_file_moves(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(FileExistsError):
        rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b").read_text() == "old"


def test_links_fifos_and_directories_move_unopened_and_unfollowed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nonexistent")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "inside").touch()
    for name in ("link", "fifo", "dir"):
        rename_noreplace(str(tmp_path / name), str(tmp_path / f"{name}2"))
    assert (tmp_path / "link2").is_symlink()
    assert (tmp_path / "fifo2").is_fifo()
    assert (tmp_path / "dir2" / "inside").exists()


def test_a_directory_does_not_replace_one_either(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(FileExistsError):
        rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))


def test_a_source_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))


def put_there_after_link(monkeypatch: pytest.MonkeyPatch, path: Path, *contents: str) -> None:
    """Simulates a sender: after each link of a move in several steps, the next file gets the old name."""
    monkeypatch.setattr(syscalls, "_libc_renameat2", lambda: None)
    real, waiting = os.link, list(contents)

    def link(*args: Any, **words: Any) -> None:
        if waiting and not path.exists():  # what lies aside is about to be given back
            path.write_text(waiting.pop(0))
        real(*args, **words)
        if waiting:
            path.with_name("draft").write_text(waiting.pop(0))
            path.with_name("draft").rename(path)

    monkeypatch.setattr(os, "link", link)


def test_what_is_put_under_the_old_name_meanwhile_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("first")
    put_there_after_link(monkeypatch, tmp_path / "a", "second")
    rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "second", "b": "first"}


def test_of_two_that_are_put_there_meanwhile_one_waits_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("first")
    put_there_after_link(monkeypatch, tmp_path / "a", "second", "third")
    source_dir = os.open(tmp_path, os.O_RDONLY)
    rename_noreplace("a", str(tmp_path / "b"), source_dir)
    os.close(source_dir)
    (aside,) = tmp_path.glob(f"{ASIDE}*")
    assert [(tmp_path / name).read_text() for name in ("b", aside.name, "a")] == ["first", "second", "third"]


def test_a_hidden_file_is_nobody_elses_and_not_taken_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", lambda *_, **__: pytest.fail("a directory that nobody sweeps"))
    (tmp_path / ".temp").write_text("x")
    rename_noreplace(str(tmp_path / ".temp"), str(tmp_path / "b"))
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_source_that_cannot_be_removed_is_moved_nowhere() -> None:
    with nobodys_directory() as place:
        for name in ("from", "to"):
            (place / name).mkdir()
        (place / "from/a").write_text("x")
        (place / "from").chmod(0o500)
        with pytest.raises(PermissionError):
            rename_noreplace(str(place / "from/a"), str(place / "to/a"))
        (place / "from").chmod(0o700)
        assert list((place / "to").iterdir()) == []
        assert (place / "from/a").read_text() == "x"


def test_new_content_takes_the_old_ones_place_and_the_old_is_gone(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "m").write_text("old")
    put_in_place_of(str(tmp_path / "new"), str(tmp_path / "m"), identity_of(str(tmp_path / "m")))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("m", "new")]


def test_a_deleted_file_is_not_brought_back(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "m").write_text("old")
    identity = identity_of(str(tmp_path / "m"))
    (tmp_path / "m").unlink()
    with pytest.raises(FileNotFoundError):
        put_in_place_of(str(tmp_path / "new"), str(tmp_path / "m"), identity)
    assert not (tmp_path / "m").exists()


def test_a_file_that_someone_put_there_instead_is_not_destroyed(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "m").write_text("old")
    identity = identity_of(str(tmp_path / "m"))
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").replace(tmp_path / "m")
    with pytest.raises(OSError, match="changed") as refused:
        put_in_place_of(str(tmp_path / "new"), str(tmp_path / "m"), identity)
    assert refused.value.errno == errno.ESTALE
    assert (tmp_path / "m").read_text() == "theirs"
    assert (tmp_path / "new").read_text() == "new"


def test_a_reused_inode_is_not_taken_for_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "m").write_text("their later words")
    inode, mtime, size = identity_of(str(tmp_path / "m"))
    with pytest.raises(OSError, match="changed"):
        put_in_place_of(str(tmp_path / "new"), str(tmp_path / "m"), (inode, mtime - 1, size - 3))
    assert (tmp_path / "m").read_text() == "their later words"


def test_a_file_system_that_does_not_know_the_flags_gets_the_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(syscalls, "_libc_renameat2", lambda: unknown)
    (tmp_path / "a").write_text("x")
    rename_noreplace(str(tmp_path / "a"), str(tmp_path / "b"))
    (tmp_path / "new").write_text("new")
    put_in_place_of(str(tmp_path / "new"), str(tmp_path / "b"), identity_of(str(tmp_path / "b")))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("b", "new")]


def test_a_box_made_again_with_the_same_inode_has_another_birth(tmp_path: Path) -> None:
    leader = tmp_path / "leader"
    leader.mkdir()
    if syscalls.born_at_ns(str(leader)) == 0:
        pytest.skip("this file system records no births")
    first = syscalls.birth(str(leader))
    shutil.rmtree(leader)
    leader.mkdir()
    assert syscalls.birth(str(leader)) != first


def test_a_birth_does_not_change_when_the_directory_does(tmp_path: Path) -> None:
    leader = tmp_path / "leader"
    leader.mkdir()
    first = syscalls.birth(str(leader))
    (leader / "a.mime").write_text("x")
    leader.chmod(0o700)
    os.utime(leader, (1, 1))
    assert syscalls.birth(str(leader)) == first


def test_the_time_of_birth_is_read_from_the_right_place(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    born_s = syscalls.born_at_ns(str(tmp_path / "new")) / 1e9
    assert born_s == 0 or abs(born_s - time.time()) < 60


@pytest.mark.parametrize("told", [True, False])
def test_a_mount_has_a_number_or_at_least_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    """Two file systems are told apart on every kernel; a missing path lies on none."""
    if not told:  # before Linux 5.8
        monkeypatch.setattr(syscalls, "_libc_statx", lambda: None)
    (tmp_path / "a").touch()
    assert mount_of(str(tmp_path / "a")) == mount_of(str(tmp_path)) != mount_of("/proc")
    assert 0 not in (mount_of(str(tmp_path)), mount_of("/proc"))
    assert mount_of(str(tmp_path / "missing")) == mount_of(str(tmp_path / "a/below")) == 0
