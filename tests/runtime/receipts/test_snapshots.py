"""A snapshot that somebody asks for through receipts/: taken once, without giving the loop a chance, and answered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.core.message import Receipt, ReceiptKind
from ackd.runtime.receipts.snapshots import SnapshotRequests
from ackd.storage import maildrop
from ackd.storage.backup.snapshot import Snapshot
from tests.runtime.intake_fixture import IntakeSetup, intake_in

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["run", "state", "logs"]


def asked(setup: IntakeSetup, name: str) -> Receipt:
    path = maildrop.drop_receipt(setup.root / "receipts", ReceiptKind.SNAPSHOT, None, None, file=name)
    return maildrop.read_receipt(path)


def requests_of(setup: IntakeSetup, said: list[str]) -> SnapshotRequests:
    for name in NAMES:
        (setup.root / name).mkdir(exist_ok=True)
    return SnapshotRequests(
        root=setup.root, spool=setup.spool, services=setup.services, commit=lambda: said.append("committed")
    )


async def test_it_is_taken_once_and_the_lines_so_far_are_in_it(tmp_path: Path) -> None:
    said: list[str] = []
    async with intake_in(tmp_path) as setup:
        requests = requests_of(setup, said)
        setup.put()
        snapshot = Snapshot.new(setup.root)
        receipt = asked(setup, snapshot.name)
        for _ in range(3):  # hints come more than once
            requests.take(receipt)
        await setup.until(lambda: setup.said("snapshot_taken"))
        await anyio.wait_all_tasks_blocked()
        (fact,) = setup.said("snapshot_taken")
        assert (fact["receipt"], fact["files"], fact.get("error")) == (receipt.name, 1, None)
        assert said == ["committed"]
        assert snapshot.is_taken()
        assert "queue/leader/m.mime" in {path for path, _, _ in snapshot.files()}
        assert not list((setup.root / "receipts").iterdir())
        snapshot.remove()


@pytest.mark.parametrize("name", ["snapshot-0123456789abcdef", "queue", "snapshot-x"])
async def test_a_directory_that_is_not_there_or_is_none_of_a_snapshot_is_refused(tmp_path: Path, name: str) -> None:
    async with intake_in(tmp_path) as setup:
        requests = requests_of(setup, [])
        (setup.root / "run/queue").mkdir()
        requests.take(asked(setup, name))
        await setup.until(lambda: setup.said("snapshot_taken"))
        assert setup.said("snapshot_taken")[0]["error"]
        assert not os.listdir(setup.root / "run/queue")  # noqa: PTH208
