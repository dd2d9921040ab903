from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ackd.core.errors import BadMessage
from ackd.core.message import Rejection
from ackd.storage.spool import reading
from ackd.storage.spool.reading import (
    has_settled,
    is_closed,
    is_copy,
    is_link,
    peek_all,
    read_header_block,
    read_regular,
)
from ackd.system.syscalls import identity_of

LONG_AGO = 1_000_000_000.0


def aged(path: Path, mtime: float = LONG_AGO) -> str:
    os.utime(path, (mtime, mtime))
    return str(path)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_regular_file_is_read_with_its_facts(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"hello")
    found = read_regular(aged(path), 100)
    assert (found.data, found.mtime, found.size, found.inode) == (b"hello", LONG_AGO, 5, path.stat().st_ino)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    assert read_regular(str(tmp_path / "m"), 100).data == b""


def test_the_limit_is_exact(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x" * 100)
    assert len(read_regular(str(tmp_path / "m"), 100).data) == 100
    with pytest.raises(BadMessage) as refused:
        read_regular(str(tmp_path / "m"), 99)
    assert refused.value.code == Rejection.TOO_LARGE


def test_a_sparse_file_of_two_gigabytes_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(2 * 1024**3)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(BadMessage) as refused:
        read_regular(str(tmp_path / "m"), 1_048_576)
    assert refused.value.code == Rejection.TOO_LARGE


@pytest.mark.parametrize(("final", "fits"), [(80, True), (101, False)])
def test_a_file_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, final: int, fits: bool
) -> None:
    path, real_fstat, grown = tmp_path / "m", os.fstat, []
    path.write_bytes(b"x" * 10)

    def fstat_then_grow(fd: int) -> os.stat_result:
        status = real_fstat(fd)
        grown.append(fd)
        if len(grown) == 1:  # after the size was looked at
            path.write_bytes(b"x" * final)
        return status

    monkeypatch.setattr(os, "fstat", fstat_then_grow)
    if fits:
        assert len(read_regular(str(path), 100).data) == final
    else:
        with pytest.raises(BadMessage):
            read_regular(str(path), 100)


def test_what_is_no_regular_file_is_refused_without_blocking(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "sock"))
    for name in ("link", "dangling", "dir", "fifo", "sock"):
        with pytest.raises(BadMessage) as refused:
            read_regular(str(tmp_path / name), 100)
        assert refused.value.code == Rejection.NOT_REGULAR


def test_a_device_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(BadMessage, match="a device"):
        read_regular("/dev/null", 100)


@pytest.mark.parametrize("swap", ["link", "fifo", "dir"])
def test_a_file_swapped_after_the_look_is_still_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    path, real_open = tmp_path / "m", os.open
    path.write_bytes(b"x")

    def swap_then_open(name: str, flags: int) -> int:
        path.unlink()
        if swap == "link":
            path.symlink_to("/etc/passwd")
        elif swap == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
        return real_open(name, flags)

    before = open_files()
    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(BadMessage) as refused:
        read_regular(str(path), 100)
    assert refused.value.code == Rejection.NOT_REGULAR
    monkeypatch.undo()
    assert open_files() == before


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular(str(tmp_path / "m"), 100)
    with pytest.raises(FileNotFoundError):
        has_settled(str(tmp_path / "m"), 0, 1)


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (b"A: 1\nB: 2\n\nbody", b"A: 1\nB: 2\n\n"),
        (b"A: 1\r\n\r\nbody\n\n", b"A: 1\r\n\r\n"),
        (b"no blank line", b"no blank line"),
        (b"", b""),
        (b"A: " + b"x" * 5000 + b"\n\n" + b"y" * 5000, b"A: " + b"x" * 5000 + b"\n\n"),
        (b"z" * 100_000, b"z" * 8192),
    ],
)
def test_the_header_block_ends_at_the_first_blank_line_or_the_limit(
    tmp_path: Path, content: bytes, block: bytes
) -> None:
    (tmp_path / "m").write_bytes(content)
    found = read_header_block(str(tmp_path / "m"), 8192)
    assert (found.data, found.size) == (block, len(content))


def test_a_peek_at_a_directory_reads_beginnings_and_says_what_has_none(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 10_000)
    (tmp_path / "short").write_bytes(b"y")
    for hidden in (".temporary", "processed"):
        (tmp_path / hidden).write_bytes(b"z")
    os.utime(tmp_path / "long", (1_000.5, 1_000.5))
    (tmp_path / "link").symlink_to("short")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    found = {
        name: (data, mtime)
        for name, data, mtime in peek_all(str(tmp_path), lambda name: name[0] != "." and name != "processed")
    }
    assert found.keys() == {"long", "short", "link", "directory", "fifo"}
    assert found["long"] == (b"x" * 4096, 1_000.5)
    assert found["short"][0] == b"y"
    assert {found[name][0] for name in ("link", "directory", "fifo")} == {None}


def test_a_file_that_goes_while_others_are_peeked_at_has_no_beginning(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"x")
    peeked = peek_all(str(tmp_path), bool)
    first, _, _ = next(peeked)
    for name in {*"abc"} - {first}:
        (tmp_path / name).unlink()
    assert [data for _, data, _ in peeked] == [None, None]


def test_a_peek_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(peek_all(str(tmp_path), bool))) == 1
    next(peek_all(str(tmp_path), bool))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_whether_a_writer_has_a_file_open_is_known_where_leases_are_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    with path.open("w"):
        assert is_closed(str(path)) is False
    assert is_closed(str(path)) is True

    def no_lease(*_: object) -> None:
        raise OSError(errno.EINVAL, "no leases here")

    monkeypatch.setattr(fcntl, "fcntl", no_lease)
    assert is_closed(str(path)) is None


def test_a_quiet_file_has_settled_and_a_fresh_one_has_not(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x")
    mtime = path.stat().st_mtime
    assert not has_settled(str(path), mtime + 0.5, 1)
    assert has_settled(str(path), mtime + 1.5, 1)


def test_a_file_from_the_future_does_not_wait_for_ever(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    assert has_settled(aged(tmp_path / "m", time.time() + 1e6), time.time(), 1)


def test_a_file_still_open_for_writing_has_not_settled_however_old(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as writer:
        writer.write(b"first half")
        writer.flush()
        path = aged(tmp_path / "m")
        assert not has_settled(path, time.time(), 1)
    assert has_settled(aged(tmp_path / "m"), time.time(), 1)


def test_a_reader_does_not_hinder_settling(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    with (tmp_path / "m").open("rb"):
        assert has_settled(aged(tmp_path / "m"), time.time(), 1)


def test_what_is_no_regular_file_has_settled_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert has_settled(str(tmp_path / "fifo"), time.time(), 1)


@pytest.mark.parametrize("code", ["EACCES", "EINVAL", "ENOSYS"])
def test_without_leases_the_mtime_must_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def no_lease(*_: object) -> int:
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(fcntl, "fcntl", no_lease)
    with (tmp_path / "m").open("wb"):
        assert has_settled(aged(tmp_path / "m"), time.time(), 1)


BROKEN_LEASE = """
import fcntl, os, sys
from ackd.storage.spool import reading
path, real = sys.argv[1], fcntl.fcntl
def fcntl_and_break(fd, command, argument):
    real(fd, command, argument)
    if (command, argument) == (fcntl.F_SETLEASE, fcntl.F_RDLCK):
        try:
            os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except BlockingIOError:
            print("lease broken", flush=True)
reading.fcntl.fcntl = fcntl_and_break
print("settled", reading.has_settled(path, 2e9, 1))
"""


def test_a_writer_who_comes_while_we_look_does_not_kill_us(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    command = [sys.executable, "-c", BROKEN_LEASE, aged(tmp_path / "m")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != -signal.SIGIO
    assert (ended.returncode, ended.stdout) == (0, "lease broken\nsettled True\n")


class TestUnfinishedMoves:
    """Two directories stand for two mounts; tests/faults has real ones."""

    @pytest.fixture(autouse=True)
    def two_mounts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "mount_of", os.path.dirname)
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()

    def two(self, tmp_path: Path, old: bytes, copy: bytes, later_s: float = 0) -> tuple[str, str]:
        (tmp_path / "a/m").write_bytes(old)
        (tmp_path / "b/m").write_bytes(copy)
        return aged(tmp_path / "b/m", LONG_AGO + later_s), aged(tmp_path / "a/m")

    def test_a_copy_has_the_same_bytes_and_the_same_time(self, tmp_path: Path) -> None:
        there, here = self.two(tmp_path, b"x" * 200_000, b"x" * 200_000)
        assert is_copy(there, here) == identity_of(here)

    @pytest.mark.parametrize("other", [b"x" * 199_999, b"x" * 200_001, b"x" * 199_999 + b"y", b""])
    def test_other_bytes_are_another_message(self, tmp_path: Path, other: bytes) -> None:
        assert is_copy(*self.two(tmp_path, b"x" * 200_000, other)) is None

    @pytest.mark.parametrize("later_s", [-10, 10])
    def test_another_time_is_a_message_that_was_sent_again(self, tmp_path: Path, later_s: float) -> None:
        assert is_copy(*self.two(tmp_path, b"x", b"x", later_s)) is None

    def test_a_file_system_with_coarse_times_is_no_reason_to_doubt(self, tmp_path: Path) -> None:
        assert is_copy(*self.two(tmp_path, b"x", b"x", -1.5)) is not None

    def test_one_file_on_two_paths_is_no_copy_of_itself(self, tmp_path: Path) -> None:
        there, here = self.two(tmp_path, b"x", b"x")
        (tmp_path / "b/m").unlink()
        (tmp_path / "b/m").hardlink_to(tmp_path / "a/m")
        assert is_copy(there, here) is None
        assert is_link(there, here) is None

    def test_one_file_of_two_names_on_one_mount_is_a_link(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "mount_of", lambda _: 1)
        there, here = self.two(tmp_path, b"x", b"x")
        assert is_link(there, here) is None
        (tmp_path / "b/m").unlink()
        assert is_link(there, here) is None
        (tmp_path / "b/m").hardlink_to(tmp_path / "a/m")
        assert is_link(there, here) == identity_of(here)
        (tmp_path / "c").symlink_to("a")
        assert is_link(str(tmp_path / "c/m"), here) is None

    def test_what_is_missing_or_no_file_is_no_copy(self, tmp_path: Path) -> None:
        there, here = self.two(tmp_path, b"x", b"x")
        Path(there).unlink()
        assert is_copy(there, here) is None
        Path(there).symlink_to(here)
        assert is_copy(there, here) is None

    def test_on_one_mount_nothing_is_ever_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "mount_of", lambda _: 1)
        assert is_copy(*self.two(tmp_path, b"x", b"x")) is None
