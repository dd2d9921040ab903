"""stderr on disk: rotated while it is written, and never in the child's way."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from ackd.adapters.child.stderr_log import MAX_BYTES, StderrLog
from tests.adapters.child.nursery import Nursery
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def test_the_log_is_rotated_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "logs" / "a.stderr.log", lambda _: None, max_bytes=100)
    for number in range(50):
        log.write(b"%09d\n" % number)
    log.close()
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["a.stderr.log", "a.stderr.log.1", "a.stderr.log.2"]
    kept = [(tmp_path / "logs" / name).read_bytes() for name in reversed(names)]
    assert b"".join(kept).split() == [b"%09d" % number for number in range(20, 50)]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "logs").iterdir())


def test_a_new_life_does_not_inherit_last_words(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "a.log", lambda _: None)
    log.write(b"old words\n")
    log.begin("started")
    assert log.tail == b""
    log.write(b"new\n")
    assert log.tail == b"new\n"
    log.close()


def test_a_disk_that_says_no_is_reported_once_and_text_is_let_go(tmp_path: Path) -> None:
    troubles: list[OSError] = []
    (tmp_path / "logs").touch()
    log = StderrLog(tmp_path / "logs" / "a.log", troubles.append)
    log.write(b"one\n")
    log.write(b"two\n")
    assert len(troubles) == 1
    assert log.tail == b"one\ntwo\n"
    (tmp_path / "logs").unlink()
    log.write(b"three\n")
    assert (tmp_path / "logs" / "a.log").read_bytes() == b"three\n"
    log.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    troubles: list[OSError] = []
    (tmp_path / "a.log").symlink_to(tmp_path / "elsewhere")
    StderrLog(tmp_path / "a.log", troubles.append).write(b"x\n")
    assert len(troubles) == 1
    assert not (tmp_path / "elsewhere").exists()


async def test_a_child_that_floods_stderr_fills_no_disk_and_goes_on(nursery: Nursery) -> None:
    child = nursery.sh("yes >&2 & echo $! >pid; wait")
    child._log._max_bytes = 64 * 1024
    life = child.start(1)
    oldest = nursery.stderr_log.with_name("worker.stderr.log.2")
    await until(oldest.exists)
    assert life.alive
    await life.end(5)
    sizes = [path.stat().st_size for path in nursery.stderr_log.parent.iterdir()]
    assert len(sizes) == 3
    assert sum(sizes) <= 3 * 64 * 1024
    assert MAX_BYTES == 4 * 1024 * 1024
