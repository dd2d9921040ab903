from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.bus_words import Doing, WorkerStatus
from ackd.core.errors import BadBusLine
from ackd.dialects.bus.status import decode_status

NOW = 1794843994.0


def test_an_entry_as_the_seed_writes_it() -> None:
    entry = {"task_id": "1.1", "status": "RUNNING", "progress_pct": 40, "last_heartbeat": "2026-02-01T12:00:00Z"}
    found, wrong = decode_status(json.dumps({"w": entry}).encode(), NOW)
    assert found == {"w": WorkerStatus("w", Doing.RUNNING, "1.1", 1769947200.0, 40.0)}
    assert wrong == []


def test_whatever_a_hand_leaves_out_or_misspells_costs_its_own_entry_at_most() -> None:
    said = {
        "quiet": {"status": "running", "task_id": 2},
        "numbers": {"status": "BLOCKED", "last_heartbeat": 1769947200, "waiting_for": ["1.1", 2]},
        "future": {"status": "COMPLETE", "last_heartbeat": "2099-01-01T00:00:00Z"},
        "odd": {"status": "THINKING"},
        "text": "RUNNING",
        "": {},
    }
    found, wrong = decode_status(json.dumps(said).encode(), NOW)
    assert found["quiet"] == WorkerStatus("quiet", Doing.RUNNING, "2")
    assert found["numbers"] == WorkerStatus("numbers", Doing.BLOCKED, None, 1769947200.0, None, ("1.1", "2"))
    assert found["future"].heartbeat == NOW
    assert len(wrong) == 3
    assert "THINKING" in wrong[0]


@pytest.mark.parametrize("spelled", ["COMPLETED", "completed", "COMPLETE"])
def test_completed_is_complete(spelled: str) -> None:
    found, wrong = decode_status(json.dumps({"w": {"status": spelled}}).encode(), NOW)
    assert (found["w"].doing, wrong) == (Doing.COMPLETE, [])


@pytest.mark.parametrize("data", [b"", b"{", b'{"w": {"status": "RUN', b"[]", b"null", b"\xff"])
def test_half_a_file_is_no_file(data: bytes) -> None:
    with pytest.raises(BadBusLine):
        decode_status(data, NOW)


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(st.sampled_from(["status", "task_id", "progress_pct", "last_heartbeat", "waiting_for"]), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers()))))  # fmt: skip
def test_no_entry_makes_it_fail(said: dict[str, object]) -> None:
    try:
        data = json.dumps(said).encode()
        found, wrong = decode_status(data, NOW)
    except BadBusLine:
        return
    assert len(found) + len(wrong) == len(said)
