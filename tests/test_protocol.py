"""The public words of the worker protocol: what its specification checks, and what the wire makes of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.worker import TABLE
from ackd.endpoints.process import wire as worker_json
from ackd.protocol import (
    CONTEXT_THRESHOLD,
    AssignMessage,
    BlockedMessage,
    CompleteMessage,
    ContextThresholdMessage,
    FailedMessage,
    HeartbeatMessage,
    Message,
    MessageType,
    ProgressMessage,
    WorkerProtocol,
    WorkerState,
    check_context_threshold,
    create_checkpoint_signal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

S = WorkerState
THE_LONG_WAY = (S.ASSIGNED, S.EXECUTING, S.VERIFYING, S.SELF_REVIEW, S.COMPLETE)


def worker_after(path: Iterable[WorkerState]) -> WorkerProtocol:
    worker = WorkerProtocol("worker-1")
    for state in path:
        assert worker.transition(state)
        assert worker.state is state
    return worker


# --- what the specification checks ------------------------------------------------------------------------------------
def test_a_worker_begins_idle_and_free() -> None:
    worker = WorkerProtocol("worker-1")
    assert (worker.worker_id, worker.state, worker.current_task) == ("worker-1", S.IDLE, None)
    assert worker.can_accept_task()


def test_the_long_way_leads_to_complete_and_back_to_idle() -> None:
    worker = worker_after(THE_LONG_WAY)
    assert not worker.can_accept_task()
    assert worker.transition(S.IDLE)
    assert worker.can_accept_task()


@pytest.mark.parametrize(("before", "after"), [((), S.EXECUTING), ((S.ASSIGNED,), S.COMPLETE)])
def test_no_state_can_be_skipped(before: tuple[WorkerState, ...], after: WorkerState) -> None:
    worker = worker_after(before)
    stood = worker.state
    assert not worker.transition(after)
    assert worker.state is stood


def test_who_was_blocked_can_go_on() -> None:
    assert worker_after([S.ASSIGNED, S.EXECUTING, S.BLOCKED]).transition(S.EXECUTING)


@pytest.mark.parametrize(("usage", "reached"), [(0.0, False), (0.69, False), (0.70, True), (0.85, True), (1.0, True)])
def test_the_threshold_is_reached_at_seventy_percent(usage: float, reached: bool) -> None:
    assert CONTEXT_THRESHOLD == 0.70
    assert check_context_threshold(usage) is reached


@pytest.mark.parametrize("start", S)
@pytest.mark.parametrize("end", S)
def test_there_is_a_way_where_the_table_has_one_and_nowhere_else(start: WorkerState, end: WorkerState) -> None:
    worker = WorkerProtocol("w")
    worker.state = start
    there_is = end in TABLE[start]
    assert worker.transition(end) is there_is
    assert worker.state is (end if there_is else start)


def test_the_table_can_be_read_as_the_specification_writes_it() -> None:
    assert WorkerProtocol.VALID_TRANSITIONS[S.EXECUTING] == [S.VERIFYING, S.BLOCKED, S.WAITING, S.FAILED]
    assert WorkerProtocol.VALID_TRANSITIONS.keys() == set(S)
    assert {state.name for state in S} == set("IDLE ASSIGNED EXECUTING VERIFYING SELF_REVIEW COMPLETE FAILED BLOCKED WAITING".split())  # fmt: skip


def test_there_are_seven_types() -> None:
    names = "ASSIGN HEARTBEAT PROGRESS COMPLETE FAILED BLOCKED CONTEXT_THRESHOLD".split()
    assert {kind.name: kind.value for kind in MessageType} == {name: name.lower() for name in names}


# --- checkpoints ------------------------------------------------------------------------------------------------------
def test_a_checkpoint_signal_says_where_the_work_stands() -> None:
    signal = create_checkpoint_signal("t1", "w1", 3, ["a.py"], ["b.py"])
    assert isinstance(signal, Message)
    assert (signal.type, signal.worker_id) == (MessageType.CONTEXT_THRESHOLD, "w1")
    assert signal.timestamp.tzinfo is not None
    assert signal.payload == {
        "task_id": "t1",
        "current_step": 3,
        "files_created": ["a.py"],
        "files_modified": ["b.py"],
        "checkpoint_ready": True,
    }


def test_a_checkpoint_signal_is_what_the_wire_takes_for_one() -> None:
    said = worker_json.decode(on_the_wire(create_checkpoint_signal("t1", "w1", 3, ["a.py"], [])))
    assert isinstance(said, worker_json.ContextThreshold)
    assert said.checkpoint is not None
    assert (said.task_id, said.worker_id, said.checkpoint.step, said.naive_time) == ("t1", "w1", 3, False)


# --- the wire -----------------------------------------------------------------------------------------------------------
def on_the_wire(message: Message) -> bytes:
    fields = asdict(message) | {"type": message.type.value, "timestamp": message.timestamp.isoformat()}
    return json.dumps(fields).encode()


def common(kind: MessageType) -> tuple[MessageType, str, datetime, dict[str, Any]]:
    return kind, "w1", datetime(2026, 11, 16, 12, tzinfo=UTC), {}


@pytest.mark.parametrize(
    ("message", "read_as"),
    [
        (HeartbeatMessage(*common(MessageType.HEARTBEAT), 0.5, None), worker_json.Heartbeat),
        (ProgressMessage(*common(MessageType.PROGRESS), "t1", 1, 3, "one of three"), worker_json.Progressed),
        (CompleteMessage(*common(MessageType.COMPLETE), "t1", [], ["a"], True, "ok"), worker_json.Completed),
        (FailedMessage(*common(MessageType.FAILED), "t1", "no", True, None), worker_json.Failed),
        (BlockedMessage(*common(MessageType.BLOCKED), "t1", "waits", "t0"), worker_json.Blocked),
    ],
)
def test_each_class_has_the_fields_of_its_line(message: Message, read_as: type) -> None:
    assert isinstance(worker_json.decode(on_the_wire(message)), read_as)


def test_an_assign_line_fills_the_class_for_it() -> None:
    work = worker_json.Assignment("t1", "/spec", "/tree", 60, "1.2@x", "user", "message", "normal", 1, 1)
    line = json.loads(worker_json.assign("w1", 1_794_830_400.0, work))
    line |= {"type": MessageType(line["type"]), "timestamp": datetime.fromisoformat(line["timestamp"])}
    message = AssignMessage(**line)
    assert (message.task_id, message.spec_path, message.worktree_path, message.timeout_seconds) == (
        "t1",
        "/spec",
        "/tree",
        60,
    )


def test_a_context_threshold_has_no_fields_but_its_payload() -> None:
    assert set(asdict(create_checkpoint_signal("t", "w", 0, [], []))) == {"type", "worker_id", "timestamp", "payload"}
    assert issubclass(ContextThresholdMessage, Message)
