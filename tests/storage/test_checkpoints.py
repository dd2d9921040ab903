"""Checkpoints on a real disk: kept whole, private and durable, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

import anyio
import orjson
import pytest

from ackd.core.errors import BadName
from ackd.storage import checkpoints
from ackd.storage.checkpoints import CheckpointFiles, CheckpointTooLarge

if TYPE_CHECKING:
    from pathlib import Path

MESSAGE_ID = "1763254800.4242.a1b2c3@ignite.local"


@pytest.fixture
def kept(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "state" / "checkpoints")


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


async def test_what_is_kept_is_read_again(kept: CheckpointFiles) -> None:
    await kept.keep("worker", MESSAGE_ID, {"current_step": 3, "files_created": ["a.py"]})
    assert kept.read("worker", MESSAGE_ID) == {"current_step": 3, "files_created": ["a.py"]}
    assert kept.read("other", MESSAGE_ID) is None
    assert kept.read("worker", "another@id") is None


async def test_large_numbers_come_back_whole(kept: CheckpointFiles) -> None:
    await kept.keep("worker", MESSAGE_ID, {"hash": 2**127 + 1, "share": 0.1})
    assert kept.read("worker", MESSAGE_ID) == {"hash": 2**127 + 1, "share": 0.1}


@pytest.mark.parametrize(
    "filler", [[[[]]] * 200_000, ["語" * 300_000], [1e5] * 200_000], ids=["lists", "text", "numbers"]
)
async def test_what_fits_into_a_workers_line_fits_here(kept: CheckpointFiles, filler: list[object]) -> None:
    await kept.keep("worker", MESSAGE_ID, {"current_step": 1, "data": filler})
    assert kept.read("worker", MESSAGE_ID) == {"current_step": 1, "data": filler}


async def test_the_newer_word_replaces_the_older(kept: CheckpointFiles) -> None:
    for step in range(3):
        await kept.keep("worker", MESSAGE_ID, {"current_step": step})
    assert kept.read("worker", MESSAGE_ID) == {"current_step": 2}
    assert len(names(kept.directory)) == 1


async def test_its_name_is_a_hash_for_ids_may_hold_anything(kept: CheckpointFiles) -> None:
    for message_id in (MESSAGE_ID, "../../../etc/passwd", "a/b\0c", "\udcff"):
        assert kept.path("worker", message_id).parent == kept.directory
    await kept.keep("worker", "../../../etc/passwd", {"text": "x"})
    hashed = hashlib.sha256(b"../../../etc/passwd").hexdigest()[:32]
    assert names(kept.directory) == [f"worker--{hashed}.json"]
    assert kept.read("worker", "../../../etc/passwd") == {"text": "x"}


def test_an_agent_that_is_no_name_has_none(kept: CheckpointFiles) -> None:
    with pytest.raises(BadName):
        kept.read("../worker", MESSAGE_ID)


async def test_a_person_can_read_which_message_it_means(kept: CheckpointFiles) -> None:
    await kept.keep("worker", MESSAGE_ID, {"text": "half way"})
    found = orjson.loads(kept.path("worker", MESSAGE_ID).read_bytes())
    assert found == {"agent": "worker", "message_id": MESSAGE_ID, "checkpoint": {"text": "half way"}}


async def test_it_is_private(kept: CheckpointFiles) -> None:
    old_mask = os.umask(0)
    try:
        await kept.keep("worker", MESSAGE_ID, {})
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(kept.path("worker", MESSAGE_ID).stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.directory.stat().st_mode) == 0o700


async def test_what_is_forgotten_is_gone_and_may_be_forgotten_again(kept: CheckpointFiles) -> None:
    kept.forget("worker", MESSAGE_ID)
    await kept.keep("worker", MESSAGE_ID, {})
    kept.forget("worker", MESSAGE_ID)
    kept.forget("worker", MESSAGE_ID)
    assert kept.read("worker", MESSAGE_ID) is None
    assert names(kept.directory) == []


async def test_all_that_are_kept_can_be_listed(kept: CheckpointFiles) -> None:
    assert list(kept.kept()) == []
    await kept.keep("worker", MESSAGE_ID, {})
    await kept.keep("a--b", "other@id", {})
    (kept.directory / "worker--damaged.json").write_text("{")
    (kept.directory / ".ackd-1-2.tmp").write_text("{}")
    assert sorted(kept.kept()) == [("a--b", "other@id"), ("worker", MESSAGE_ID)]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"message_id": "another@id", "checkpoint": {}}', "null"])
async def test_what_is_damaged_or_of_another_message_is_none(kept: CheckpointFiles, content: str) -> None:
    await kept.keep("worker", MESSAGE_ID, {"step": 1})
    kept.path("worker", MESSAGE_ID).write_text(content)
    assert kept.read("worker", MESSAGE_ID) is None


def test_a_link_or_FIFO_in_its_place_is_none(kept: CheckpointFiles, tmp_path: Path) -> None:
    kept.directory.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(orjson.dumps({"message_id": MESSAGE_ID, "checkpoint": {"a": 1}}))
    kept.path("worker", MESSAGE_ID).symlink_to(secret)
    os.mkfifo(kept.path("other", MESSAGE_ID))
    assert kept.read("worker", MESSAGE_ID) is None
    assert kept.read("other", MESSAGE_ID) is None


async def test_one_that_is_too_large_is_refused_before_anything_is_written(kept: CheckpointFiles) -> None:
    with pytest.raises(CheckpointTooLarge, match=f"more than {checkpoints.MAX_BYTES}") as caught:
        await kept.keep("worker", MESSAGE_ID, {"text": "x" * checkpoints.MAX_BYTES})
    assert caught.value.size_bytes > checkpoints.MAX_BYTES
    assert not kept.directory.exists()


async def test_the_order_is_flush_rename_flush(kept: CheckpointFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    flush = os.fsync

    def noted(fd: int) -> None:
        there = kept.path("worker", MESSAGE_ID).exists()
        order.append(("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file") + (" after" if there else ""))
        flush(fd)

    monkeypatch.setattr(os, "fsync", noted)
    await kept.keep("worker", MESSAGE_ID, {})
    assert order == ["file", "directory after", "directory after"]


async def test_a_failed_flush_leaves_the_older_one_and_nothing_else(
    kept: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.keep("worker", MESSAGE_ID, {"step": 1})

    def fail(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        await kept.keep("worker", MESSAGE_ID, {"step": 2})
    assert kept.read("worker", MESSAGE_ID) == {"step": 1}
    assert len(names(kept.directory)) == 1


async def test_what_a_crash_left_half_written_is_taken_by_the_next_and_forgotten_with_it(kept: CheckpointFiles) -> None:
    path = kept.path("worker", MESSAGE_ID)
    half = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True)
    half.write_text("x" * 10_000)
    assert kept.read("worker", MESSAGE_ID) is None
    await kept.keep("worker", MESSAGE_ID, {"step": 1})
    assert names(kept.directory) == [path.name]
    half.write_text("{")
    kept.forget("worker", MESSAGE_ID)
    assert names(kept.directory) == []


async def test_many_at_once_leave_one_whole(kept: CheckpointFiles) -> None:
    async with anyio.create_task_group() as tasks:
        for step in range(16):
            tasks.start_soon(kept.keep, "worker", MESSAGE_ID, {"step": step, "filler": "x" * 50_000})
    found = kept.read("worker", MESSAGE_ID)
    assert found is not None
    assert found["step"] in range(16)
    assert len(names(kept.directory)) == 1
