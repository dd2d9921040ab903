"""flock, with other processes, forks and removed lock files. tests/test_files.py tests it with many processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ackd.storage import file_lock
from ackd.storage.file_lock import LockFile

HOLDER = """
import sys
from ackd.storage import file_lock
lock = file_lock.acquire(sys.argv[1], 0.0)
print("held" if lock else "not held", flush=True)
sys.stdin.read()
"""


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def held_by_another(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_file_is_made_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    for _ in range(2):
        lock = file_lock.acquire(path, 0.0)
        assert lock is not None
        with lock:
            assert file_lock.acquire(path, 0.0) is None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lock_that_is_not_to_be_had_leaves_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    process = held_by_another(path)
    before = open_descriptors()
    assert file_lock.acquire(path, 0.02) is None
    assert open_descriptors() == before
    assert file_lock.holder_of(path.lstat()) == process.pid
    process.communicate(timeout=60)
    lock = file_lock.acquire(path, 0.0)
    assert lock is not None
    lock.release()
    assert file_lock.holder_of(path.lstat()) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        file_lock.acquire(tmp_path / ".lock", 0.0)
    assert not (tmp_path / "elsewhere").exists()


def test_askers_share_and_do_not_take_each_other_for_the_holder(tmp_path: Path) -> None:
    fds = [file_lock.open_lock_file(tmp_path / ".lock") for _ in range(3)]
    assert file_lock.take(fds[0], shared=True)
    assert file_lock.take(fds[1], shared=True)
    assert not file_lock.take(fds[2])
    for fd in fds:
        os.close(fd)


def test_a_lock_that_stays_open_is_taken_on_the_file_that_bears_the_name(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = LockFile(str(path))
    with lock.held() as first:
        os.pwrite(first, b"kept in it", 0)
    path.unlink()
    with lock.held() as second:
        assert os.path.samestat(os.fstat(second), path.stat())
        assert file_lock.acquire(path, 0.0) is None
    lock.close()


def test_a_lock_that_stays_open_is_opened_once_and_closed_when_it_is_forgotten(tmp_path: Path) -> None:
    before = open_descriptors()
    lock = LockFile(str(tmp_path / ".lock"))
    for _ in range(3):
        with lock.held():
            assert open_descriptors() == before + 1
    del lock
    assert open_descriptors() == before


def test_a_forked_process_has_a_lock_of_its_own(tmp_path: Path) -> None:
    lock = LockFile(str(tmp_path / ".lock"))
    with lock.held():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if file_lock.acquire(tmp_path / ".lock", 0.0) is None else 1)
        assert os.waitpid(pid, 0)[1] == 0
    with lock.held():
        pass
