"""The ground a bench stands on: a journaled file system of its own, and words for the machine.

Root gets a loop-mounted ext4 image, because an ext4 without a journal creates files many times slower after many
unlinks, and tmpfs has no flush to speak of. Everyone else gets a temporary directory, and the words say which file
system that is. Whatever happens, the image is unmounted, its loop device detached and its file removed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE_BYTES = 16 * 2**30
#: A message is one inode; 100,000 of them, twice, and room for the archive.
INODES = 1_000_000
#: Nothing initialises tables in the background while we measure.
MKFS = ("mkfs.ext4", "-q", "-F", "-N", str(INODES), "-E", "lazy_itable_init=0,lazy_journal_init=0")


@dataclass(frozen=True)
class Ground:
    place: Path
    file_system: str
    warnings: tuple[str, ...] = ()


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """A directory to measure in. TERM and HUP end it as Ctrl-C does, also where a shell has made us deaf to that."""
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
        top = Path(tempfile.mkdtemp(prefix="ackd-bench-"))
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        place, why_no_image = top, _no_image_because()
        if why_no_image is None:
            try:
                place = stack.enter_context(_mounted(top))
            except (OSError, subprocess.CalledProcessError) as error:  # a container may have no loop devices
                why_no_image = str(error)
        yield _described(place, why_no_image)


def _no_image_because() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    return f"no {missing[0]}" if missing else None


@contextlib.contextmanager
def _mounted(top: Path) -> Iterator[Path]:
    image, place = top / "image", top / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    try:
        _run(*MKFS, str(image))
        _run("mount", "-o", "loop,noatime", str(image), str(place))  # the loop device is freed by the unmount
        yield place
    finally:
        _unmount(place)
        image.unlink()


def _unmount(place: Path) -> None:
    """A second Ctrl-C must not leave it mounted; a process that still sits in it only delays the end."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if not place.is_mount():
            return
        for _ in range(20):
            if _quietly("umount", str(place)) == 0:
                return
            time.sleep(0.25)
        _run("umount", "--lazy", str(place))
    finally:
        signal.signal(signal.SIGINT, before)


def _run(*command: str) -> None:
    # In a session of its own: the terminal's Ctrl-C is ours to answer.
    subprocess.run(command, check=True, start_new_session=True)


def _quietly(*command: str) -> int:
    return subprocess.run(command, check=False, start_new_session=True, stderr=subprocess.DEVNULL).returncode


# --- words ------------------------------------------------------------------------------------------------------------
def _described(place: Path, why_no_image: str | None) -> Ground:
    kind = file_system_of(place)
    warnings = []
    if why_no_image is not None:
        warnings.append(f"measured in {place.parent} and not on an ext4 of the bench's own: {why_no_image}")
    if kind == "ext4" and not has_journal(place):
        warnings.append("this ext4 has no journal: creating files slows down after many unlinks, figures are off")
    loop = ", loop-mounted image" if why_no_image is None else ""
    journal = " with a journal" if kind == "ext4" and has_journal(place) else ""
    return Ground(place, f"{kind}{journal}{loop}", tuple(warnings))


def file_system_of(place: Path) -> str:
    """Its type by the mount table: stat -f cannot tell ext2 from ext4."""
    here = place.resolve()
    best, kind = -1, "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4])
        if here.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), right.split()[0]
    return kind


def has_journal(place: Path) -> bool:
    device = place.stat().st_dev
    try:
        name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True).name
    except OSError:
        return False
    return any(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def machine() -> str:
    """Whose Python it is belongs to it: a distribution's is compiled by profiles of its own runs, one that somebody
    compiled in passing is not, and takes a fifth longer for the same code."""
    cores = len(os.sched_getaffinity(0))
    whose = "the system's " if sys.base_prefix == "/usr" else ""
    return (
        f"{_processor()}, {cores} core{'s' * (cores != 1)}, Linux {platform.release()}, "
        f"{whose}Python {platform.python_version()}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
