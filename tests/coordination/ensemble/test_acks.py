from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.core.signals import MessageEnded
from ackd.core.words import MessageEnd
from tests.coordination.ensemble.ensemble_team import EnsembleTeam

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path) -> EnsembleTeam:
    return EnsembleTeam(tmp_path)


def ack(team: EnsembleTeam, task: str, ago_s: float = 0.0) -> Path:
    """Write an ACK file whose time is after everything so far by the disk's clock, or ``ago_s`` before that."""
    path = team.later(team.put(f"ack/{task}.ack", ""))
    if ago_s:
        at = path.stat().st_mtime - ago_s
        os.utime(path, (at, at))
    return path


@pytest.mark.parametrize("name", ["JOB-1", "T-1", "worker-1-T-1"])
async def test_an_ack_by_any_name_of_the_task_is_a_receipt_for_its_message(team: EnsembleTeam, name: str) -> None:
    team.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\n")
    await team.look()
    ack(team, name)
    await team.look()
    await team.look()
    (receipt,) = team.receipts()
    assert (receipt["kind"], receipt["message_id"]) == ("ack", team.mail[0].message_id)
    assert (receipt["agent"], receipt["reason"]) == ("worker-1", f"queue/ack/{name}.ack")


async def test_a_stale_ack_from_an_earlier_run_does_not_count_and_is_said_once(team: EnsembleTeam) -> None:
    ack(team, "T-1", ago_s=60)
    team.put("tasks/worker-1-T-1.yaml")
    await team.look()
    await team.look()
    team.start()
    await team.look()
    assert team.receipts() == []
    (line,) = team.said("ack_stale")
    assert (line["task_id"], line["agent"], line["file"]) == ("T-1", "worker-1", "queue/ack/T-1.ack")
    ack(team, "T-1")
    await team.look()
    assert len(team.receipts()) == 1


async def test_a_copied_task_with_an_old_time_does_not_make_an_old_ack_count(team: EnsembleTeam) -> None:
    """`cp -p` keeps the modification time, so the time at which the copy appeared counts."""
    ack(team, "T-1", ago_s=60)
    path = team.put("tasks/worker-1-T-1.yaml")
    os.utime(path, (1, 1))
    await team.look()
    assert (team.receipts(), len(team.said("ack_stale"))) == ([], 1)


async def test_the_next_version_of_a_task_needs_its_own_ack(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml", "try: 1\n")
    await team.look()
    old = ack(team, "T-1")
    await team.look()
    path = team.put("tasks/worker-1-T-1.yaml", "try: 2\n")
    later = old.stat().st_mtime + 1
    os.utime(path, (later, later))
    await team.look()
    assert [receipt["message_id"] for receipt in team.receipts()] == [team.mail[0].message_id]
    os.utime(old, (later + 1, later + 1))
    await team.look()
    assert {receipt["message_id"] for receipt in team.receipts()} == {draft.message_id for draft in team.mail}


async def test_an_ack_for_no_task_of_ours_is_left_alone(team: EnsembleTeam) -> None:
    await team.look()
    ack(team, "T-9")
    team.put("ack/notes.txt", "")
    await team.look()
    assert (team.receipts(), team.lines) == ([], [])


async def test_an_ack_for_a_message_that_is_over_is_no_receipt(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    await team.look()
    team.gateway.heard(MessageEnded(team.mail[0].message_id, "worker-1", MessageEnd.COMPLETED))
    ack(team, "T-1")
    await team.look()
    assert team.receipts() == []


async def test_an_ack_is_never_opened(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    team.put("tasks/worker-2-T-2.yaml")
    await team.look()
    os.mkfifo(team.queue / "ack/T-1.ack")
    (team.queue / "ack/T-2.ack").symlink_to("/dev/zero")
    await team.look()
    assert team.receipts() == []
    assert len(team.said("stray_file")) == 2
