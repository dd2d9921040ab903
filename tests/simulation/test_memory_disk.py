"""What of the memory disk a power cut leaves: the simulation is worth as much as this is true."""

from __future__ import annotations

import random
import stat

import pytest

from tests.simulation.memory_disk import SETTLED_S, MemoryDisk
from tests.simulation.timeline import Timeline

FILE = stat.S_IFREG | 0o600


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk(Timeline())
    disk.create("/a", stat.S_IFDIR | 0o700)
    disk.create("/b", stat.S_IFDIR | 0o700)
    disk.flush(disk.root)
    return disk


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    disk.write(disk.create(path, FILE), 0, data)


def outcomes(disk_of: MemoryDisk, path: str) -> bytes | None:
    try:
        return bytes(disk_of.look(path).data)
    except FileNotFoundError:
        return None


def after_cuts(steps: list[str]) -> set[tuple[bytes | None, bytes | None]]:
    """Every state of /a/m and /b/m that a power cut can leave after these steps."""
    found = set()
    for seed in range(200):
        disk = MemoryDisk(Timeline())
        for name in "ab":
            disk.create(f"/{name}", stat.S_IFDIR | 0o700)
        disk.flush(disk.root)
        for step in steps:
            match step:
                case "write":
                    put(disk, "/a/m", b"whole")
                case "fsync":
                    disk.flush(disk.look("/a/m"))
                case "fsync directory":
                    disk.flush(disk.look("/a"))
                case "rename":
                    disk.rename("/a/m", "/b/m", replace=False)
                case "wait":
                    disk._timeline.mono += SETTLED_S + 1
        disk.power_cut(random.Random(seed))
        found.add((outcomes(disk, "/a/m"), outcomes(disk, "/b/m")))
    return found


def test_what_was_not_flushed_may_be_whole_torn_empty_or_gone() -> None:
    left = {a for a, _ in after_cuts(["write"])}
    assert {None, b"", b"whole"} < left
    assert left <= {None} | {b"whole"[:size] for size in range(6)}


def test_what_was_flushed_with_its_directory_is_whole() -> None:
    assert after_cuts(["write", "fsync", "fsync directory"]) == {(b"whole", None)}


def test_a_rename_is_done_or_not_and_never_loses_the_file() -> None:
    left = after_cuts(["write", "fsync", "fsync directory", "rename"])
    assert left == {(b"whole", None), (None, b"whole")}


def test_what_is_old_enough_is_durable_by_itself() -> None:
    assert after_cuts(["write", "wait"]) == {(b"whole", None)}


def test_directories_that_were_undone_are_not_found_any_more(disk: MemoryDisk) -> None:
    disk.create("/a/new", stat.S_IFDIR | 0o700)
    put(disk, "/a/new/m", b"m")
    lost = next(seed for seed in range(100) if random.Random(seed).randint(0, 2) == 2)
    assert disk.power_cut(random.Random(lost)) == 2
    with pytest.raises(FileNotFoundError):
        disk.look("/a/new/m")
