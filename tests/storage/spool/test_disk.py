from __future__ import annotations

import errno
import itertools
import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.storage.atomic_file import own_temporary_name
from ackd.storage.spool import disk as disk_module
from ackd.storage.spool import reading as reading_module
from ackd.storage.spool.disk import Disk, by_chance, in_a_row, numbered, plain, writer_of
from ackd.system.syscalls import rename_noreplace

if TYPE_CHECKING:
    from pathlib import Path

DISK = Disk(durable=False)


def test_directories_are_private_and_made_with_their_parents(tmp_path: Path) -> None:
    DISK.make_directory(f"{tmp_path}/a/b/c")
    DISK.make_directory(f"{tmp_path}/a/b/c")
    for directory in ("a", "a/b", "a/b/c"):
        assert (tmp_path / directory).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_real_directory_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "file":
        (tmp_path / "a").touch()
    else:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "a").symlink_to("elsewhere")
    with pytest.raises(NotADirectoryError):
        DISK.make_directory(f"{tmp_path}/a")


def test_a_missing_directory_is_made_and_a_missing_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    assert DISK.move(f"{tmp_path}/m", f"{tmp_path}/archive/day/box", "m") == "m"
    with pytest.raises(FileNotFoundError):
        DISK.move(f"{tmp_path}/m", f"{tmp_path}/nowhere", "m")
    assert not (tmp_path / "nowhere").exists()


def test_a_temporary_file_that_cannot_be_finished_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        DISK.write_temporary(str(tmp_path), b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_file_that_the_disk_does_not_give_up_is_removed_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk became read-only while the file was written."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as read_only:
        read_only.setattr(os, "write", refuse)
        read_only.setattr(os, "unlink", refuse)
        with pytest.raises(OSError, match="Read-only"):
            DISK.write_temporary(str(tmp_path), b"x")
        DISK.clear_left()
        assert len(list(tmp_path.iterdir())) == 1
    DISK.clear_left()
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_private_and_hidden(tmp_path: Path) -> None:
    DISK.write_temporary(str(tmp_path), b"x" * 10)
    (made,) = tmp_path.iterdir()
    assert made.name.startswith(".")
    assert (made.read_bytes(), made.stat().st_mode & 0o777) == (b"x" * 10, 0o600)


class TestAcrossFileSystems:
    @pytest.fixture(autouse=True)
    def two_file_systems(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = rename_noreplace

        def across(source: str, target: str) -> None:
            there = os.path.dirname(target)  # noqa: PTH120
            if os.path.dirname(source) != there and os.path.exists(there):  # noqa: PTH110, PTH120
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
            real(source, target)

        monkeypatch.setattr(disk_module, "rename_noreplace", across)
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()

    def test_a_file_is_copied_flushed_and_only_then_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, real_fsync, synced = tmp_path / "a" / "m.mime", os.fsync, []

        def fsync(fd: int) -> None:
            assert source.exists()
            synced.append(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
            real_fsync(fd)

        monkeypatch.setattr(os, "fsync", fsync)
        source.write_bytes(b"x" * 200_000)
        source.chmod(0o640)
        os.utime(source, (5, 7))
        (tmp_path / "b" / "m.mime").write_bytes(b"older")
        assert Disk(durable=True).move(str(source), f"{tmp_path}/b", "m.mime", across=True) == "m-1.mime"
        copy = tmp_path / "b" / "m-1.mime"
        assert (copy.stat().st_size, copy.stat().st_mode & 0o777, copy.stat().st_mtime) == (200_000, 0o640, 7)
        written, directory = synced
        assert (os.path.basename(written)[0], directory) == (".", str(tmp_path / "b"))  # noqa: PTH119
        assert not source.exists()
        assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["m-1.mime", "m.mime"]

    @pytest.mark.parametrize("failing", ["the file", "its directory"])
    def test_a_failed_copy_leaves_the_original_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        def broken(fd: int) -> None:
            if stat.S_ISDIR(os.fstat(fd).st_mode) == (failing == "its directory"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fsync", broken)
        (tmp_path / "a" / "m").write_bytes(b"x")
        with pytest.raises(OSError, match="Input/output"):
            Disk(durable=True).move(f"{tmp_path}/a/m", f"{tmp_path}/b", "m", across=True)
        assert (tmp_path / "a" / "m").read_bytes() == b"x"
        assert list((tmp_path / "b").iterdir()) == []

    def test_the_directories_that_were_made_for_a_copy_are_durable_before_the_file_goes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, synced = tmp_path / "a" / "m", set[str]()

        def fsync(fd: int) -> None:
            assert source.exists()
            synced.add(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115

        monkeypatch.setattr(os, "fsync", fsync)
        source.write_bytes(b"x")
        Disk(durable=True).move(str(source), f"{tmp_path}/b/day/box", "m", across=True)
        assert synced >= {f"{tmp_path}/b", f"{tmp_path}/b/day", f"{tmp_path}/b/day/box"}

    def test_what_someone_puts_there_while_it_is_copied_is_not_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = tmp_path / "a" / "m"

        def fsync(fd: int) -> None:
            (tmp_path / "new").write_bytes(b"another message")
            (tmp_path / "new").rename(source)

        monkeypatch.setattr(os, "fsync", fsync)
        source.write_bytes(b"x")
        with pytest.raises(OSError, match="changed by someone else"):
            Disk(durable=True).move(str(source), f"{tmp_path}/b", "m", across=True)
        assert source.read_bytes() == b"another message"
        assert list((tmp_path / "b").iterdir()) == []

    def test_a_copy_that_could_not_be_taken_back_goes_before_the_file_is_moved_anywhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, real_unlink = tmp_path / "a" / "m", os.unlink
        disk = Disk(durable=True)
        source.write_bytes(b"x")

        def refuse(path: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", refuse)
            with pytest.raises(OSError, match="Read-only"):
                disk.move(str(source), f"{tmp_path}/b", "m", across=True)
        assert (tmp_path / "b" / "m").exists()
        assert os.unlink is real_unlink
        disk.rename(str(source), f"{tmp_path}/a/elsewhere")
        assert list((tmp_path / "b").iterdir()) == []
        assert (tmp_path / "a" / "elsewhere").read_bytes() == b"x"

    def test_finishing_makes_the_copy_durable_before_the_old_file_goes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old, copy, synced = tmp_path / "a" / "m", tmp_path / "b" / "m", []

        def fsync(fd: int) -> None:
            assert old.exists()
            synced.append(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(reading_module, "mount_of", os.path.dirname)
        for path in (old, copy):
            path.write_bytes(b"x")
            os.utime(path, (5, 7))
        assert Disk(durable=True).finish(str(old), str(copy))
        assert synced == [f"{tmp_path}/b"]
        assert not old.exists()
        assert copy.exists()

    def test_a_fifo_stays_where_it_is(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a" / "fifo")
        with pytest.raises(OSError, match="cross-device"):
            DISK.move(f"{tmp_path}/a/fifo", f"{tmp_path}/b", "fifo", across=True)
        assert (tmp_path / "a" / "fifo").is_fifo()

    def test_unless_it_is_allowed_to_take_long_it_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "m").write_bytes(b"x")
        with pytest.raises(OSError, match="cross-device"):
            DISK.move(f"{tmp_path}/a/m", f"{tmp_path}/b", "m")
        assert (tmp_path / "a" / "m").exists()


def test_making_a_directory_waits_for_no_disk_and_says_what_is_to_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it waited"))
    disk = Disk(durable=True)
    disk.make_directory(f"{tmp_path}/a/b")
    assert disk.unflushed == {f"{tmp_path}", f"{tmp_path}/a"}


# --- names ------------------------------------------------------------------------------------------------------------
def first(name: str, count: int = 3, room_bytes: int = 0) -> list[str]:
    return list(itertools.islice(numbered(name, room_bytes), count))


def test_the_number_stands_before_the_extension() -> None:
    assert first("task_1.mime") == ["task_1.mime", "task_1-1.mime", "task_1-2.mime"]
    assert first("noext") == ["noext", "noext-1", "noext-2"]
    assert first("a.b.mime") == ["a.b.mime", "a.b-1.mime", "a.b-2.mime"]


@given(st.binary(min_size=1, max_size=255), st.integers(0, 20))
def test_every_candidate_fits_and_they_all_differ(raw: bytes, room_bytes: int) -> None:
    candidates = first(os.fsdecode(raw), 12, room_bytes)
    assert len(set(candidates)) == len(candidates)
    assert all(0 < len(os.fsencode(one)) <= 255 - room_bytes for one in candidates)


@given(st.binary(min_size=1, max_size=255))
def test_a_name_is_one_of_those_in_a_row_or_known_as_one_by_chance(raw: bytes) -> None:
    name = os.fsdecode(raw)
    row, candidates = list(in_a_row(name)), first(name, 30)
    assert candidates[: len(row)] == row
    assert all(by_chance(name).fullmatch(one) for one in candidates[len(row) :])
    assert not any(by_chance(name).fullmatch(one) for one in row if one != name)


@pytest.mark.parametrize("other", ["task-1.mime", "task.mime", "other-0123456789abcdef.mime", "task-0123456789abcdef.txt",
                                   "task-0123456789abcdeg.mime", "task-0123456789abcdef.mime.x"])  # fmt: skip
def test_what_was_not_given_by_chance_is_not_taken_for_it(other: str) -> None:
    assert not by_chance("task.mime").fullmatch(other)


def test_it_gives_up_in_the_end() -> None:
    with pytest.raises(FileExistsError):
        list(numbered("x.mime"))


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../x", "/etc/passwd", "nul\0", "\ud800", "x" * 256, "é" * 128]
)
def test_a_name_that_leads_elsewhere_is_not_there(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        plain(name)


def test_our_temporary_names_and_the_droppers_are_recognised() -> None:
    assert writer_of(own_temporary_name()) == os.getpid()
    assert writer_of(".task_1.mime.4711.0a1b2c3d") == 4711
    assert own_temporary_name() != own_temporary_name()


@pytest.mark.parametrize("name", [".gitkeep", ".nfs000012", "task_1.mime", ".task_1.mime", ".x.tmp", "ackd-1-0.tmp"])
def test_what_others_hide_is_not_ours(name: str) -> None:
    assert writer_of(name) is None


def test_of_thousands_of_one_name_each_is_given_a_free_one_soon(tmp_path: Path) -> None:
    disk = Disk(durable=False)
    tries: list[str] = []
    for _ in range(200):
        (tmp_path / "new").touch()
        tries.append(disk.move(f"{tmp_path}/new", f"{tmp_path}/archive", "task.mime"))
    assert len(set(tries)) == 200
    assert tries[:3] == ["task.mime", "task-1.mime", "task-2.mime"]
    free = (number for number, name in enumerate(numbered("task.mime")) if not (tmp_path / "archive" / name).exists())
    assert next(free) < 20
