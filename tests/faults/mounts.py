"""File systems of a test's own, mounted below its directory and gone with it: small ones, other ones, read-only ones.

Mounting needs root: without it the test is skipped, visibly. Whatever a test has mounted is unmounted at its end, after
every process that it started has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Written in pieces of this size until nothing goes in any more.
_PIECE = b"\0" * 65_536

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@contextlib.contextmanager
def mounted(at: Path, size: str = "8m", inodes: int = 0) -> Iterator[Path]:
    """A tmpfs of its own. ``inodes`` 0: as many as one likes."""
    at.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes},mode=0700", "ackd-test", str(at))
    try:
        yield at
    finally:
        end_strays(at.parent)
        _run("umount", str(at))


@contextlib.contextmanager
def bound(at: Path) -> Iterator[Path]:
    """A mount of its own of the same file system, as a container has it: the same device, and no rename leads out."""
    at.mkdir(parents=True, exist_ok=True)
    _run("mount", "--bind", str(at), str(at))
    try:
        yield at
    finally:
        end_strays(at.parent)
        _run("umount", str(at))


@contextlib.contextmanager
def read_only(at: Path) -> Iterator[None]:
    """Everything that is reached by its path below ``at`` is on a read-only mount; what was opened before is not.

    A live daemon's file system can only become read-only under it by an error of the disk: as long as it has files
    open for writing, the kernel refuses to remount. A read-only mount of the same directory over itself is the same to
    whoever goes by path.
    """
    _run("mount", "--bind", str(at), str(at))
    try:
        _run("mount", "-o", "remount,bind,ro", str(at))
        yield
    finally:
        _run("umount", "-l", str(at))


@contextlib.contextmanager
def full(directory: Path) -> Iterator[None]:
    """Not a byte is left, and none of what is freed meanwhile."""
    ballast = directory / ".ballast"
    with _again_and_again(lambda: fill(directory)):
        yield
    ballast.unlink()


@contextlib.contextmanager
def out_of_inodes(directory: Path) -> Iterator[None]:
    """No file can be made, also after one was removed."""
    ballast = directory / ".ballast"
    with _again_and_again(lambda: use_up_inodes(directory)):
        yield
    shutil.rmtree(ballast)


@contextlib.contextmanager
def _again_and_again(use_up: Callable[[], object]) -> Iterator[None]:
    over = threading.Event()

    def keep_it_so() -> None:
        while not over.wait(0.002):
            use_up()

    use_up()
    hog = threading.Thread(target=keep_it_so)
    hog.start()
    try:
        yield
    finally:
        over.set()
        hog.join()


def fill(directory: Path) -> Path:
    """Until not a byte is left. Returns what is in the way: remove it, and there is room."""
    ballast = directory / ".ballast"
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    piece = _PIECE
    try:
        while piece:
            try:
                os.write(fd, piece)
            except OSError:
                piece = piece[: len(piece) // 2]
    finally:
        os.close(fd)
    return ballast


def use_up_inodes(directory: Path) -> Path:
    """Until no file can be made. Returns the directory that is in the way."""
    ballast = directory / ".ballast"
    ballast.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        for _ in range(100_000):
            (ballast / os.urandom(8).hex()).touch()
    return ballast


def half_written(root: Path) -> list[str]:
    """Temporary files that somebody left behind: dot-names that are not the test's own. A daemon that runs may have
    one for a moment: there, wait until there is none."""
    return [str(path) for path in root.rglob(".*") if path.name != ".ballast" and ".ballast" not in path.parts]


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
