"""Images of a disk as a power cut leaves them, and mounting them.

``Recorder`` makes a file system on a recording disk and mounts it. ``image_at`` builds what the platter may hold when
the power goes at one point of the record: every write before the last answered flush, and of those after it a random
part, each of which may itself be torn between sectors.

How large a sector is, the file system is told by nobody, and xfs cares: it believes what a metadata block's first 512
bytes say of how new it is, and does not replay its log over a block that is torn behind them. So its disk has sectors of
4 KiB, as disks have today; that of ext4, whose journal holds whole blocks, tears at 512 bytes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pytest

from tests.faults.power_disk import FILE_NAME, FLUSH, RECORD, WRITE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SECTORS: Final = {"ext4": 512, "xfs": 4096}
MIB: Final = 1 << 20
#: mkfs.xfs makes none smaller than 300 MiB.
FILE_SYSTEMS: Final = {
    "ext4": (64 * MIB, ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0")),
    "xfs": (300 * MIB, ("mkfs.xfs", "-q", "-f", "-K")),
}


def require(kind: str) -> None:
    """Skip, saying why, where this cannot be done."""
    _, (mkfs, *_) = FILE_SYSTEMS[kind]
    if os.geteuid() != 0:
        pytest.skip("a power cut needs root: it mounts file systems of its own")
    for program in (mkfs, "losetup", "mount"):
        if shutil.which(program) is None:
            pytest.skip(f"a power cut on {kind} needs {program}")
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        pytest.skip("a power cut needs /dev/fuse and loop devices")


@contextlib.contextmanager
def recording(kind: str, place: Path) -> Iterator[tuple[Path, Path]]:
    """The mounted file system and the record. Everything is unmounted and detached at the end."""
    size, mkfs = FILE_SYSTEMS[kind]
    backing, mounted, log = place / "backing", place / "mounted", place / "record"
    backing.mkdir()
    command = [sys.executable, "-m", "tests.faults.power_disk", str(backing), str(size), str(log)]
    disk = subprocess.Popen(command, cwd=Path(__file__).parent.parent.parent)
    with contextlib.ExitStack() as undo:
        undo.callback(disk.wait, 60)
        undo.callback(_run_quietly, "umount", str(backing))
        _wait_for(backing / FILE_NAME)
        with loop_device(backing / FILE_NAME) as device:
            run(*mkfs, device)
            with mounting(device, mounted):
                yield mounted, log


def _wait_for(path: Path) -> None:
    give_up_at = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < give_up_at, f"{path} did not come"
        time.sleep(0.01)


@contextlib.contextmanager
def loop_device(backing: Path) -> Iterator[str]:
    device = run("losetup", "--find", "--show", str(backing)).strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def mounting(device: str, where: Path) -> Iterator[None]:
    where.mkdir(exist_ok=True)
    run("mount", "-o", "noatime", device, str(where))
    try:
        yield
    finally:
        _unmount(where)


def _unmount(where: Path) -> None:
    """A thread of a process that was just killed may still be leaving."""
    for _ in range(50):
        if subprocess.run(["umount", str(where)], capture_output=True, check=False, timeout=60).returncode == 0:
            return
        time.sleep(0.2)
    run("umount", str(where))


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def _run_quietly(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=False, timeout=60)


# --- cutting ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Cut:
    """``kept`` of ``pending`` writes that no flush had made durable."""

    at: int
    pending: int
    kept: int
    torn: int


def image_at(kind: str, log: Path, at: int, rng: random.Random, image: Path) -> Cut:
    """Build the image for a cut at byte ``at`` of the record."""
    (size, _), sector = FILE_SYSTEMS[kind], SECTORS[kind]
    with image.open("xb") as disk, log.open("rb") as record:
        disk.truncate(size)
        durable = _last_flush(log, at)
        for offset, data in _writes(record, 0, durable):
            disk.seek(offset)
            disk.write(data)
        pending = list(_writes(record, durable, at))
        kept = [write for write in pending if rng.random() < 0.5]
        torn = 0
        for offset, data in kept:
            whole = data
            if rng.random() < 0.1 and len(data) >= 2 * sector:
                whole, torn = data[: sector * rng.randrange(1, len(data) // sector)], torn + 1
            disk.seek(offset)
            disk.write(whole)
    return Cut(at, len(pending), len(kept), torn)


def _last_flush(log: Path, at: int) -> int:
    """The end of the last flush before ``at``."""
    found = 0
    with log.open("rb") as record:
        for kind, end in _records(record, at):
            if kind == FLUSH:
                found = end
    return found


def _records(record: BinaryIO, at: int) -> Iterator[tuple[bytes, int]]:
    position = 0
    while position < at:
        record.seek(position)
        head = record.read(RECORD.size)
        if len(head) < RECORD.size:
            return
        kind, _, length = RECORD.unpack(head)
        position += RECORD.size + length
        if position <= at:
            yield kind, position


def _writes(record: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    position = start
    while position < end:
        record.seek(position)
        kind, offset, length = RECORD.unpack(record.read(RECORD.size))
        position += RECORD.size + length
        if kind == WRITE and position <= end:
            yield offset, record.read(length)
