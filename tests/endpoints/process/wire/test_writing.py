"""Lines that ackd sends: each is one whole line, whatever is in it, and fits its model."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.process.wire import Assignment, BadLine, Checkpoint
from ackd.endpoints.process.wire.models import FROM_ACKD

AT = 1_794_830_400.25
WORK = Assignment(
    task_id="task_007",
    spec_path="/team/.ackd/queue/ignitian_1/processed/task_assignment_1763254800000000.mime",
    worktree_path="/team",
    timeout_s=1800,
    message_id="1763254800.4242.a1b2c3@ignite.local",
    sender="coordinator",
    message_type="task_assignment",
    priority="high",
    attempt=2,
    generation=3,
    context_threshold=0.7,
    checkpoint=Checkpoint(b'{"task_id":"task_007","current_step":2}', 2),
)


def said(line: bytes) -> dict[str, Any]:
    """The object on the line, which must be one line, ASCII, and valid by its model."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()
    read: dict[str, Any] = json.loads(line)
    FROM_ACKD[read["type"]].model_validate(read)
    return read


def test_an_assign_has_the_seeds_fields_at_the_top_and_the_rest_in_its_payload() -> None:
    assert said(worker_json.assign("ignitian_1", AT, WORK)) == {
        "type": "assign",
        "worker_id": "ignitian_1",
        "timestamp": "2026-11-16T12:00:00.250Z",
        "task_id": "task_007",
        "spec_path": WORK.spec_path,
        "worktree_path": "/team",
        "timeout_seconds": 1800,
        "payload": {
            "message_id": WORK.message_id,
            "from": "coordinator",
            "message_type": "task_assignment",
            "priority": "high",
            "attempt": 2,
            "generation": 3,
            "context_threshold": 0.7,
            "checkpoint": {"task_id": "task_007", "current_step": 2},
        },
    }


def test_what_there_is_not_is_absent() -> None:
    work = Assignment("t", "/s", "/w", 0.2, "1.2@x", "user", "message", "normal", 1, 1)
    assert said(worker_json.assign("w", AT, work))["payload"].keys().isdisjoint({"checkpoint", "context_threshold"})
    assert said(worker_json.status_check("w", AT, "are you there?"))["payload"] == {"text": "are you there?"}


@pytest.mark.parametrize(("timeout_s", "told"), [(0, 1), (0.2, 1), (1.5, 2), (600.0, 600)])
def test_a_timeout_is_told_in_whole_seconds_and_never_as_none(timeout_s: float, told: int) -> None:
    work = Assignment("t", "/s", "/w", timeout_s, "1.2@x", "user", "message", "normal", 1, 1)
    assert said(worker_json.assign("w", AT, work))["timeout_seconds"] == told


def test_every_other_word_says_what_it_is_about() -> None:
    check = said(worker_json.status_check("w", AT, "Status check: are you still working on task_007?", "task_007"))
    assert check["payload"] == {"text": "Status check: are you still working on task_007?", "task_id": "task_007"}
    assert said(worker_json.ack("w", AT, "complete", "task_007"))["payload"] == {
        "of": "complete",
        "task_id": "task_007",
    }
    asked = said(worker_json.checkpoint_request("w", AT, "context at 72 %", "task_007"))
    assert asked["payload"] == {"reason": "context at 72 %", "task_id": "task_007"}
    last = said(worker_json.checkpoint_request("w", AT, "ackd is stopping", "task_007", ends_in_s=20))
    assert last["payload"] == {
        "reason": "ackd is stopping",
        "stopping": True,
        "ends_in_s": 20,
        "task_id": "task_007",
    }
    assert said(worker_json.shutdown("w", AT, "ackd stops"))["payload"] == {"reason": "ackd stops"}


@pytest.mark.parametrize("line", [b"\xff\xfe\r\n", b"x" * 5000, b'{"type": 1}\n', b""])
def test_the_answer_to_a_bad_line_says_why_and_how_it_began(line: bytes) -> None:
    answer = said(worker_json.error("w", AT, BadLine("not_json", "not JSON"), line))["payload"]
    assert (answer["code"], answer["detail"]) == ("not_json", "not JSON")
    assert len(answer["line"]) <= 800
    assert "\n" not in answer["line"]


def test_every_word_of_ours_has_a_function() -> None:
    assert set(FROM_ACKD) <= set(worker_json.__all__)


@given(st.text(), st.text(), st.binary(min_size=1))
def test_a_line_stays_one_line_whatever_is_in_it(task_id: str, text: str, path: bytes) -> None:
    spec_path = os.fsdecode(path.replace(b"\0", b""))
    work = Assignment(task_id, spec_path, "/w", 5, "1.2@x", text, text, "low", 0, 0)
    line = worker_json.assign(text, AT, work)
    assert line.count(b"\n") == 1
    assert line.isascii()
    read = json.loads(line)
    assert (read["task_id"], read["payload"]["from"]) == (task_id, text)
    assert os.fsencode(read["spec_path"]) == os.fsencode(spec_path)
