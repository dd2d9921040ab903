from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.runtime.gateways.ensemble.house import House

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def ack(house: House, task: str, ago_s: float = 0.0) -> Path:
    """By the disk's clock, after everything so far or so long before it."""
    path = house.later(house.put(f"ack/{task}.ack", ""))
    if ago_s:
        at = path.stat().st_mtime - ago_s
        os.utime(path, (at, at))
    return path


@pytest.mark.parametrize("name", ["JOB-1", "T-1", "worker-1-T-1"])
async def test_an_ack_by_any_name_of_the_task_is_a_receipt_for_its_message(house: House, name: str) -> None:
    house.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\n")
    await house.look()
    ack(house, name)
    await house.look()
    await house.look()
    (receipt,) = house.receipts()
    assert (receipt["kind"], receipt["message_id"]) == ("ack", house.mail[0].message_id)
    assert (receipt["agent"], receipt["reason"]) == ("worker-1", f"queue/ack/{name}.ack")


async def test_a_stale_ack_from_an_earlier_run_does_not_count_and_is_said_once(house: House) -> None:
    ack(house, "T-1", ago_s=60)
    house.put("tasks/worker-1-T-1.yaml")
    await house.look()
    await house.look()
    house.start()
    await house.look()
    assert house.receipts() == []
    (line,) = house.said("ack_stale")
    assert (line["task_id"], line["agent"], line["file"]) == ("T-1", "worker-1", "queue/ack/T-1.ack")
    ack(house, "T-1")
    await house.look()
    assert len(house.receipts()) == 1


async def test_a_copied_task_with_an_old_time_does_not_make_an_old_ack_count(house: House) -> None:
    """`cp -p` keeps the time of what it copies; when the file came to be there is another time."""
    ack(house, "T-1", ago_s=60)
    path = house.put("tasks/worker-1-T-1.yaml")
    os.utime(path, (1, 1))
    await house.look()
    assert (house.receipts(), len(house.said("ack_stale"))) == ([], 1)


async def test_the_next_version_of_a_task_needs_its_own_ack(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml", "try: 1\n")
    await house.look()
    old = ack(house, "T-1")
    await house.look()
    path = house.put("tasks/worker-1-T-1.yaml", "try: 2\n")
    later = old.stat().st_mtime + 1
    os.utime(path, (later, later))
    await house.look()
    assert [receipt["message_id"] for receipt in house.receipts()] == [house.mail[0].message_id]
    os.utime(old, (later + 1, later + 1))
    await house.look()
    assert {receipt["message_id"] for receipt in house.receipts()} == {draft.message_id for draft in house.mail}


async def test_an_ack_for_no_task_of_ours_is_left_alone(house: House) -> None:
    await house.look()
    ack(house, "T-9")
    house.put("ack/notes.txt", "")
    await house.look()
    assert (house.receipts(), house.lines) == ([], [])


async def test_an_ack_for_a_message_that_is_over_is_no_receipt(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    await house.look()
    house.gateway.heard("message_completed", {"message_id": house.mail[0].message_id})
    ack(house, "T-1")
    await house.look()
    assert house.receipts() == []


async def test_an_ack_is_never_opened(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    house.put("tasks/worker-2-T-2.yaml")
    await house.look()
    os.mkfifo(house.queue / "ack/T-1.ack")
    (house.queue / "ack/T-2.ack").symlink_to("/dev/zero")
    await house.look()
    assert house.receipts() == []
    assert len(house.said("stray_file")) == 2
