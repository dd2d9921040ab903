"""The probe for room, on real file systems; a small one is a tmpfs."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ackd.storage.room_probe import has_room, one_of_each_mount
from tests.faults.mounts import fill, mounted, needs_root, read_only, use_up_inodes

if TYPE_CHECKING:
    from pathlib import Path


def test_a_disk_with_room_has_room_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    assert has_room([tmp_path])
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_file_system_is_asked_once_however_many_directories_lie_on_it(tmp_path: Path) -> None:
    own, others = tmp_path / "own", [tmp_path / "a", tmp_path / "b"]
    for directory in (own, *others):
        directory.mkdir()
    with mounted(own):
        assert one_of_each_mount([*others, own, tmp_path / "gone"]) == [others[0], own]


def test_a_directory_that_is_not_there_is_no_obstacle(tmp_path: Path) -> None:
    assert has_room([tmp_path, tmp_path / "gone"])


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOTCONN, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("call", ["statvfs", "open"])
def test_neither_is_one_that_refuses_for_reasons_of_its_own(
    call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "box").mkdir()
    refuse_below(tmp_path / "box", call, code, monkeypatch)
    assert has_room([tmp_path / "box"])
    assert has_room([tmp_path / "box", tmp_path])


@pytest.mark.parametrize("call", ["statvfs", "open"])
def test_the_machine_is_heard_beside_one(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("box", "other"):
        (tmp_path / name).mkdir()
    refuse_below(tmp_path / "box", call, errno.EACCES, monkeypatch)
    refuse_below(tmp_path / "other", "open", errno.ENOSPC, monkeypatch)
    assert not has_room([tmp_path / "box", tmp_path / "other"]), "the same mount, by the next of its directories"


def refuse_below(directory: Path, call: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = getattr(os, call)

    def refuse(path: Any, *args: Any, **how: Any) -> Any:
        if os.fspath(path).startswith(os.fspath(directory)):
            raise OSError(code, os.strerror(code), path)
        return real(path, *args, **how)

    monkeypatch.setattr(os, call, refuse)


@needs_root
def test_a_full_disk_has_none_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "256k") as small:
        assert has_room([tmp_path, small])
        ballast = fill(small)
        assert not has_room([tmp_path, small])
        assert list(small.iterdir()) == [ballast]


@needs_root
def test_neither_has_a_disk_without_inodes(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", inodes=50) as small:
        use_up_inodes(small)
        assert not has_room([small])


@needs_root
def test_nor_a_read_only_one_beside_a_writable_one_of_the_same_device(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    with read_only(tmp_path / "part"):
        assert not has_room([tmp_path, tmp_path / "part"])
    assert has_room([tmp_path, tmp_path / "part"])


def test_a_process_without_descriptors_has_none(tmp_path: Path) -> None:
    ask = "import sys; from pathlib import Path; from ackd.storage.room_probe import has_room; "
    ask += "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)); print(has_room([Path(sys.argv[1])]))"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 8
    answer = subprocess.run(
        [sys.executable, "-c", ask, os.fspath(tmp_path)], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "False\n"


# --- processes and threads ------------------------------------------------------------------------------------------------
@needs_root
@pytest.mark.parametrize(("limit", "answer"), [(1, "False"), (2, "False"), (3, "True")])
def test_a_user_without_processes_has_none_for_a_thread_and_a_process_beside_it(limit: int, answer: str) -> None:
    """The limit counts all processes of a user, so that each case is run as a user of its own."""
    ask = "import os, resource; from ackd.storage.room_probe import has_room; "
    ask += f"resource.setrlimit(resource.RLIMIT_NPROC, ({limit}, {limit})); os.setuid(20_000 + os.getpid() % 40_000); "
    ask += "print(has_room([]), has_room([], starting=True))"
    answered = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answered.stdout == f"True {answer}\n"


def test_no_thread_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    assert has_room([], starting=True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert not has_room([], starting=True)


@pytest.mark.parametrize(("code", "room"), [(errno.EAGAIN, False), (errno.ENOMEM, False), (errno.ENOENT, True)])
def test_a_process_that_only_lacks_its_program_could_be_started(
    code: int, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_spawnp", refuse)
    assert has_room([], starting=True) == room


def test_what_was_started_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    spawn = os.posix_spawnp

    def noted(*args: Any) -> int:
        started.append(spawn(*args))
        return started[-1]

    monkeypatch.setattr(os, "posix_spawnp", noted)
    assert has_room([], starting=True)
    (pid,) = started
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
