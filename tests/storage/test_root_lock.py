from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.core.errors import RootHeld
from ackd.storage.root_lock import LOCK_NAME, hold, holder

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD_AND_WAIT = """
import sys
from pathlib import Path
from ackd.storage.root_lock import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_daemon(run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD_AND_WAIT, str(run_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def test_the_second_daemon_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with another_daemon(run) as first:
        with pytest.raises(RootHeld) as refused:
            hold(run)
        assert (refused.value.pid, refused.value.root) == (first.pid, str(tmp_path))
        assert holder(run) == first.pid


def test_a_killed_holder_holds_nothing_though_its_pid_stays_in_the_file(tmp_path: Path) -> None:
    with another_daemon(tmp_path) as first:
        first.kill()
        first.wait()
        assert json.loads((tmp_path / LOCK_NAME).read_bytes())["pid"] == first.pid
        assert holder(tmp_path) is None
        hold(tmp_path).release()


def test_release_frees_the_lock_and_leaves_the_file(tmp_path: Path) -> None:
    lock = hold(tmp_path)
    assert lock.still_ours()
    assert holder(tmp_path) == os.getpid()
    lock.release()
    lock.release()
    assert not lock.still_ours()
    assert (tmp_path / LOCK_NAME).exists()
    assert holder(tmp_path) is None


def test_nobody_holds_a_root_that_was_never_served(tmp_path: Path) -> None:
    assert holder(tmp_path / "run") is None
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("removed", ["the file", "run", "the file, and another is there"])
def test_removing_what_lies_below_the_root_frees_nothing(tmp_path: Path, removed: str) -> None:
    run = tmp_path / "run"
    with another_daemon(run) as first:
        if removed == "run":
            shutil.rmtree(run)
        else:
            (run / LOCK_NAME).unlink()
        if removed.endswith("there"):
            (run / LOCK_NAME).write_text('{"pid": 1}')
        assert holder(run) == first.pid
        with pytest.raises(RootHeld) as refused:
            hold(run)
        assert refused.value.pid == first.pid


def test_a_lock_file_removed_under_the_holder_is_put_back(tmp_path: Path) -> None:
    lock = hold(tmp_path / "run")
    (tmp_path / "run" / LOCK_NAME).unlink()
    assert lock.still_ours()
    lock.keep()
    assert json.loads((tmp_path / "run" / LOCK_NAME).read_text()) == {"pid": os.getpid()}
    assert len(held_by_us(tmp_path)) == 2
    lock.release()
    assert held_by_us(tmp_path) == []


def held_by_us(root: Path) -> list[str]:
    """Our open descriptors of the root, and of files below it."""
    links = (str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return [link for link in links if link.startswith(str(root))]


def test_a_root_that_was_replaced_is_taken_anew_unless_another_has_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    lock = hold(root / "run")
    root.rename(tmp_path / "away")
    root.mkdir()
    assert not lock.still_ours()
    lock.keep()
    assert lock.still_ours()
    hold(tmp_path / "away" / "run").release()  # nobody holds what is no root of ours any more
    root.rename(tmp_path / "away again")
    with another_daemon(root / "run") as other, pytest.raises(RootHeld) as refused:
        lock.keep()
    assert refused.value.pid == other.pid
    lock.release()


def test_a_root_by_another_name_is_the_same_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to("root")
    lock = hold(tmp_path / "link" / "run")
    assert lock.still_ours()
    with pytest.raises(RootHeld):
        hold(tmp_path / "root" / "run")
    lock.release()


@pytest.mark.parametrize("refusal", [errno.EBADF, errno.EOPNOTSUPP, errno.ENOLCK])
def test_where_a_directory_cannot_be_locked_the_file_alone_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    real_flock = fcntl.flock

    def flock(fd: int, kind: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(refusal, os.strerror(refusal))
        real_flock(fd, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    run = tmp_path / "run"
    lock = hold(run)
    assert holder(run) == os.getpid()
    with pytest.raises(RootHeld):
        hold(run)
    (run / LOCK_NAME).unlink()
    assert not lock.still_ours()
    assert holder(run) is None
    lock.keep()
    assert lock.still_ours()
    lock.release()
    assert holder(run) is None
    assert held_by_us(tmp_path) == []


def test_a_disk_that_refuses_the_file_leaves_the_root_free(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK_NAME).symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        hold(tmp_path / "run")
    assert held_by_us(tmp_path) == []


def test_a_file_replaced_between_open_and_lock_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_flock = fcntl.flock
    swapped: list[int] = []

    def swap_first(fd: int, kind: int) -> None:
        if not swapped and stat.S_ISREG(os.fstat(fd).st_mode):
            swapped.append(fd)
            (tmp_path / LOCK_NAME).unlink()
            (tmp_path / LOCK_NAME).touch()
        real_flock(fd, kind)

    monkeypatch.setattr(fcntl, "flock", swap_first)
    lock = hold(tmp_path)
    assert swapped
    assert lock.still_ours()
    lock.release()


def test_asking_who_holds_it_does_not_keep_a_daemon_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(tmp_path).release()
    asking = os.open(tmp_path / LOCK_NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr("ackd.storage.root_lock.time.sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
    hold(tmp_path).release()
    os.close(asking)


def test_children_do_not_inherit_it_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    lock = hold(tmp_path / "run")
    assert not os.get_inheritable(lock._fd)
    assert not os.get_inheritable(lock._root_fd)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "run" / LOCK_NAME).stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_symlink_in_its_place_is_refused_and_its_target_untouched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        hold(tmp_path)
    assert (tmp_path / "precious").read_text() == "x"


def test_garbage_in_the_file_is_an_unnamed_holder(tmp_path: Path) -> None:
    lock = hold(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(b"\xff{")
    assert holder(tmp_path) == 0
    with pytest.raises(RootHeld) as refused:
        hold(tmp_path)
    assert refused.value.pid is None
    lock.release()


def test_a_holder_writes_over_the_last_one_for_a_full_disk_gives_no_room_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LOCK_NAME).write_text('{"pid": 12345678901234567890}\n')
    write, sizes = os.pwrite, []

    def pwrite(fd: int, content: bytes, at: int) -> int:
        sizes.append(os.fstat(fd).st_size)
        return write(fd, content, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    hold(tmp_path).release()
    assert sizes == [30]
    assert json.loads((tmp_path / LOCK_NAME).read_text()) == {"pid": os.getpid()}
