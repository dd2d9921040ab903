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
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "state" / "checkpoints")


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


async def test_what_is_kept_is_read_again(files: CheckpointFiles) -> None:
    await files.keep("worker", MESSAGE_ID, {"current_step": 3, "files_created": ["a.py"]})
    assert files.read("worker", MESSAGE_ID) == {"current_step": 3, "files_created": ["a.py"]}
    assert files.read("other", MESSAGE_ID) is None
    assert files.read("worker", "another@id") is None


async def test_large_numbers_come_back_whole(files: CheckpointFiles) -> None:
    await files.keep("worker", MESSAGE_ID, {"hash": 2**127 + 1, "share": 0.1})
    assert files.read("worker", MESSAGE_ID) == {"hash": 2**127 + 1, "share": 0.1}


@pytest.mark.parametrize(
    "filler", [[[[]]] * 200_000, ["語" * 300_000], [1e5] * 200_000], ids=["lists", "text", "numbers"]
)
async def test_what_fits_into_a_workers_line_fits_here(files: CheckpointFiles, filler: list[object]) -> None:
    await files.keep("worker", MESSAGE_ID, {"current_step": 1, "data": filler})
    assert files.read("worker", MESSAGE_ID) == {"current_step": 1, "data": filler}


async def test_the_newer_word_replaces_the_older(files: CheckpointFiles) -> None:
    for step in range(3):
        await files.keep("worker", MESSAGE_ID, {"current_step": step})
    assert files.read("worker", MESSAGE_ID) == {"current_step": 2}
    assert len(names(files.directory)) == 1


async def test_its_name_is_a_hash_for_ids_may_hold_anything(files: CheckpointFiles) -> None:
    for message_id in (MESSAGE_ID, "../../../etc/passwd", "a/b\0c", "\udcff"):
        assert files.path("worker", message_id).parent == files.directory
    await files.keep("worker", "../../../etc/passwd", {"text": "x"})
    hashed = hashlib.sha256(b"../../../etc/passwd").hexdigest()[:32]
    assert names(files.directory) == [f"worker--{hashed}.json"]
    assert files.read("worker", "../../../etc/passwd") == {"text": "x"}


def test_an_agent_that_is_no_name_has_none(files: CheckpointFiles) -> None:
    with pytest.raises(BadName):
        files.read("../worker", MESSAGE_ID)


async def test_a_person_can_read_which_message_it_means(files: CheckpointFiles) -> None:
    await files.keep("worker", MESSAGE_ID, {"text": "half way"})
    found = orjson.loads(files.path("worker", MESSAGE_ID).read_bytes())
    assert found == {"agent": "worker", "message_id": MESSAGE_ID, "checkpoint": {"text": "half way"}}


async def test_it_is_private(files: CheckpointFiles) -> None:
    old_mask = os.umask(0)
    try:
        await files.keep("worker", MESSAGE_ID, {})
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(files.path("worker", MESSAGE_ID).stat().st_mode) == 0o600
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700


async def test_what_is_forgotten_is_gone_and_may_be_forgotten_again(files: CheckpointFiles) -> None:
    files.forget("worker", MESSAGE_ID)
    await files.keep("worker", MESSAGE_ID, {})
    files.forget("worker", MESSAGE_ID)
    files.forget("worker", MESSAGE_ID)
    assert files.read("worker", MESSAGE_ID) is None
    assert names(files.directory) == []


async def test_all_that_are_kept_can_be_listed(files: CheckpointFiles) -> None:
    assert list(files.kept()) == []
    await files.keep("worker", MESSAGE_ID, {})
    await files.keep("a--b", "other@id", {})
    (files.directory / "worker--damaged.json").write_text("{")
    (files.directory / ".ackd-1-2.tmp").write_text("{}")
    assert sorted(files.kept()) == [("a--b", "other@id"), ("worker", MESSAGE_ID)]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"message_id": "another@id", "checkpoint": {}}', "null"])
async def test_what_is_damaged_or_of_another_message_is_none(files: CheckpointFiles, content: str) -> None:
    await files.keep("worker", MESSAGE_ID, {"step": 1})
    files.path("worker", MESSAGE_ID).write_text(content)
    assert files.read("worker", MESSAGE_ID) is None


def test_a_link_or_FIFO_in_its_place_is_none(files: CheckpointFiles, tmp_path: Path) -> None:
    files.directory.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(orjson.dumps({"message_id": MESSAGE_ID, "checkpoint": {"a": 1}}))
    files.path("worker", MESSAGE_ID).symlink_to(secret)
    os.mkfifo(files.path("other", MESSAGE_ID))
    assert files.read("worker", MESSAGE_ID) is None
    assert files.read("other", MESSAGE_ID) is None


async def test_one_that_is_too_large_is_refused_before_anything_is_written(files: CheckpointFiles) -> None:
    with pytest.raises(CheckpointTooLarge, match=f"more than {checkpoints.MAX_BYTES}") as caught:
        await files.keep("worker", MESSAGE_ID, {"text": "x" * checkpoints.MAX_BYTES})
    assert caught.value.size_bytes > checkpoints.MAX_BYTES
    assert not files.directory.exists()


async def test_the_order_is_flush_rename_flush(files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    flush = os.fsync

    def noted(fd: int) -> None:
        there = files.path("worker", MESSAGE_ID).exists()
        order.append(("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file") + (" after" if there else ""))
        flush(fd)

    monkeypatch.setattr(os, "fsync", noted)
    await files.keep("worker", MESSAGE_ID, {})
    assert order == ["file", "directory after", "directory after"]


async def test_a_failed_flush_leaves_the_older_one_and_nothing_else(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.keep("worker", MESSAGE_ID, {"step": 1})

    def fail(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        await files.keep("worker", MESSAGE_ID, {"step": 2})
    assert files.read("worker", MESSAGE_ID) == {"step": 1}
    assert len(names(files.directory)) == 1


async def test_what_a_crash_left_half_written_is_taken_by_the_next_and_forgotten_with_it(
    files: CheckpointFiles,
) -> None:
    path = files.path("worker", MESSAGE_ID)
    half = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True)
    half.write_text("x" * 10_000)
    assert files.read("worker", MESSAGE_ID) is None
    await files.keep("worker", MESSAGE_ID, {"step": 1})
    assert names(files.directory) == [path.name]
    half.write_text("{")
    files.forget("worker", MESSAGE_ID)
    assert names(files.directory) == []


async def test_many_at_once_leave_one_whole(files: CheckpointFiles) -> None:
    async with anyio.create_task_group() as tasks:
        for step in range(16):
            tasks.start_soon(files.keep, "worker", MESSAGE_ID, {"step": step, "filler": "x" * 50_000})
    found = files.read("worker", MESSAGE_ID)
    assert found is not None
    assert found["step"] in range(16)
    assert len(names(files.directory)) == 1
