"""Reading paths that may hold anything, and writing so that nobody sees half a file. Real files, FIFOs and links."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
import tracemalloc
from pathlib import Path

import inotify_simple
import pytest

from ackd.core.errors import BadMessage
from ackd.storage import atomic_file
from ackd.system import syscalls


def refusal(path: Path, max_bytes: int = 100) -> str:
    with pytest.raises(BadMessage) as caught:
        atomic_file.read_regular(path, max_bytes)
    assert str(path) in caught.value.detail
    return caught.value.code


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


# --- reading ----------------------------------------------------------------------------------------------------------
def test_a_regular_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"x" * 100)
    assert atomic_file.read_regular(path, 100) == b"x" * 100
    assert refusal(path, 99) == "too_large"


def test_a_sparse_file_of_2_GB_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    path.touch()
    os.truncate(path, 2 * 1024**3)
    tracemalloc.start()
    try:
        assert refusal(path, 1_048_576) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_FIFO_is_refused_without_being_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    os.mkfifo(path)
    with inotify_simple.INotify() as kernel:
        kernel.add_watch(path, inotify_simple.flags.OPEN)
        assert refusal(path) == "not_regular"
        assert kernel.read(timeout=0) == []


def test_a_link_a_directory_a_device_and_a_socket_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    (tmp_path / "link.mime").symlink_to(secret)
    (tmp_path / "dangling.mime").symlink_to(tmp_path / "nowhere")
    (tmp_path / "directory.mime").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.mime"))
        for name in ("link", "dangling", "directory", "socket"):
            assert refusal(tmp_path / f"{name}.mime") == "not_regular"
    assert refusal(Path("/dev/null")) == "not_regular"


def test_a_missing_file_is_FileNotFoundError(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic_file.read_regular(tmp_path / "none", 100)


# --- writing ----------------------------------------------------------------------------------------------------------
def test_a_new_file_is_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    old_mask = os.umask(0)
    try:
        atomic_file.write_new(path, b"content")
    finally:
        os.umask(old_mask)
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.mime"]


def test_a_name_that_is_taken_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"first")
    with pytest.raises(FileExistsError):
        atomic_file.write_new(path, b"second")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        atomic_file.write_new(tmp_path / "link", b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a.mime", "link"]


def test_of_many_writers_of_one_name_exactly_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    won: list[int] = []

    def write(number: int) -> None:
        try:
            atomic_file.write_new(path, b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert path.read_bytes() == b"%d" % won[0]
    assert names(tmp_path) == ["a.mime"]


def test_replacing_keeps_mode_and_mtime(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.utime(path, ns=(5_000_000_000, 7_000_000_123))
    atomic_file.replace(path, b"new and longer")
    info = path.stat()
    assert path.read_bytes() == b"new and longer"
    assert (stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (0o640, 7_000_000_123)
    atomic_file.replace(path, b"newer", keep_mtime=False)
    assert path.stat().st_mtime_ns > 7_000_000_123
    assert names(tmp_path) == ["a.mime"]


def test_a_file_that_its_agent_has_deleted_is_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"old")
    flush = os.fsync

    def delete_then_flush(fd: int) -> None:
        path.unlink(missing_ok=True)
        flush(fd)

    monkeypatch.setattr(os, "fsync", delete_then_flush)
    with pytest.raises(FileNotFoundError):
        atomic_file.replace(path, b"new")
    assert names(tmp_path) == []


def test_a_reader_sees_the_old_or_the_new_content_and_never_half(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    old, new = b"o" * 200_000, b"n" * 300_000
    path.write_bytes(old)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        atomic_file.replace(path, new)
        atomic_file.replace(path, old)
    stop.set()
    reader.join()
    assert seen <= {old, new}


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_only_a_regular_file_is_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.mime"
    target = tmp_path / "target"
    target.write_bytes(b"safe")
    match kind:
        case "link":
            path.symlink_to(target)
        case "fifo":
            os.mkfifo(path)
        case _:
            path.mkdir()
    with pytest.raises(BadMessage) as caught:
        atomic_file.replace(path, b"new")
    assert caught.value.code == "not_regular"
    assert target.read_bytes() == b"safe"


def test_a_failed_flush_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        atomic_file.replace(path, b"new")
    with pytest.raises(OSError, match="Input/output"):
        atomic_file.write_new(tmp_path / "b.mime", b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.mime"]


def test_without_renameat2_the_same_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "_libc_renameat2", lambda: None)
    path = tmp_path / "a.mime"
    atomic_file.write_new(path, b"one")
    with pytest.raises(FileExistsError):
        atomic_file.write_new(path, b"two")
    atomic_file.replace(path, b"three")
    assert path.read_bytes() == b"three"
    with pytest.raises(FileNotFoundError):
        atomic_file.replace(tmp_path / "none", b"x")
    assert names(tmp_path) == ["a.mime"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_operator_who_is_root_does_not_take_the_file_from_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "a.mime"
    path.write_bytes(b"old")
    os.chown(path, 12345, 12346)
    atomic_file.replace(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


@pytest.mark.parametrize("durable", [True, False])
def test_a_write_replaces_what_is_there_or_not_and_flushes_both_if_it_must_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    flushed: list[bool] = []
    flush = os.fsync

    def noted(fd: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        flush(fd)

    monkeypatch.setattr(os, "fsync", noted)
    path = tmp_path / "a.json"
    for content in (b"one", b"two"):
        atomic_file.write(path, content, durable=durable)
        assert path.read_bytes() == content
    assert flushed == ([False, True] * 2 if durable else [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.json"]


def test_writers_of_one_file_take_over_what_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / ".a.json.tmp").write_bytes(b"half of something longer")
    atomic_file.write(tmp_path / "a.json", b"whole", durable=False)
    assert (tmp_path / "a.json").read_bytes() == b"whole"
    assert names(tmp_path) == ["a.json"]


def test_a_write_that_the_disk_refuses_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="No space"):
        atomic_file.write(path, b"new", durable=False)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.json"]


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_relative_path_is_written_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    atomic_file.write("a.json", b"a", durable=True)
    atomic_file.write_new("b.json", b"b")
    assert names(tmp_path) == ["a.json", "b.json"]


@pytest.mark.parametrize("meanwhile", ["edited", "replaced", "removed", "made"])
def test_a_file_that_another_touched_meanwhile_is_not_written_over(tmp_path: Path, meanwhile: str) -> None:
    path = tmp_path / "a.json"
    seen = None
    if meanwhile != "made":
        path.write_bytes(b"as it was read")
        seen = syscalls.identity_of(str(path))
    if meanwhile in ("replaced", "removed"):
        path.unlink()
    if meanwhile != "removed":
        path.write_bytes(b"by hand")
    with pytest.raises(OSError, match="meanwhile") as caught:
        atomic_file.write_if_unchanged(str(path), b"ours", seen)
    assert caught.value.errno == errno.ESTALE
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == (
        {} if meanwhile == "removed" else {"a.json": b"by hand"}
    )


def test_a_file_that_nobody_touched_is_written_with_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_file.write_if_unchanged(str(path), b"one", None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    atomic_file.write_if_unchanged(str(path), b"two", syscalls.identity_of(str(path)), mode=0o664)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o664)
    assert names(tmp_path) == ["a.json"]


def test_an_old_file_that_cannot_be_removed_does_not_undo_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "unlink", refuse)
    atomic_file.write_if_unchanged(str(path), b"new", syscalls.identity_of(str(path)))
    assert path.read_bytes() == b"new"


def test_temporaries_of_dead_writers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".a.json.tmp", "a.json", ".gitkeep", "b.tmp"):
        (tmp_path / name).touch()
    atomic_file.remove_temporaries(tmp_path)
    atomic_file.remove_temporaries(tmp_path / "nowhere")
    assert names(tmp_path) == [".gitkeep", "a.json", "b.tmp"]
