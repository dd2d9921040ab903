"""Leases for programs: what the block holds, and what the bus is told in whose name."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.leases import LeaseHeld, Leases

P = "src/a.py"


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    (tmp_path / "bus").mkdir()
    return Leases(tmp_path / "bus", tmp_path)


def said(leases: Leases) -> list[tuple[str, str, bool]]:
    """Type, source, and whether it is the source's own word."""
    lines = [json.loads(line) for line in Path(leases.track.queue).read_text().splitlines()]
    return [(one["type"], one["source"], _is_own(one["type"], one["source"], one["payload"])) for one in lines]


def _is_own(type_: str, source: str, payload: dict[str, object]) -> bool:
    return BusLine(0, 1, "m", BusType(type_), source, 0.0, payload).is_its_own


def test_a_block_holds_and_its_end_lets_go(leases: Leases) -> None:
    with leases.hold(P, "a") as lease:
        assert lease.token == 1
        with pytest.raises(LeaseHeld) as held:
            leases.acquire(f"./{P}", "b")
        assert (held.value.path, held.value.holder) == (P, "a")
    assert leases.look().held == {}
    assert leases.acquire(P, "b").token == 2


def test_what_a_holder_does_is_its_own_word(leases: Leases) -> None:
    leases.acquire(P, "a")
    leases.release("a", P)
    assert said(leases) == [("FILE_LOCK", "a", True), ("FILE_UNLOCK", "a", True)]
    assert (Path(leases.track.events) / "FILE_UNLOCK_all.event").exists()


def test_what_time_or_another_does_to_a_lease_is_said_in_ackds_name(leases: Leases, tmp_path: Path) -> None:
    leases.acquire(P, "a", ttl_s=0.001)
    while time.time() < leases.look().held[P][0].expires_at:
        os.sched_yield()
    leases.acquire(P, "b")
    assert said(leases)[1:] == [("FILE_UNLOCK", "a", False), ("FILE_LOCK", "b", True)]
    daemon = Leases(tmp_path / "bus", tmp_path, for_others=True)
    daemon.release("b", P)
    daemon.acquire(P, "c")
    assert said(leases)[3:] == [("FILE_UNLOCK", "b", False), ("FILE_LOCK", "c", False)]


def test_what_a_hand_wrote_is_taken_over_in_ackds_name(leases: Leases) -> None:
    Path(leases.track.locks).write_text(json.dumps({P: {"worker_id": "a"}}))
    leases.acquire("other", "b")
    assert said(leases) == [("FILE_LOCK", "a", False), ("FILE_LOCK", "b", True)]
