"""Our own lines: whatever a message says of itself, only plain words reach a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ackd.core.message import Message, Priority
from ackd.runtime.terminals import lines
from tests.runtime.terminals.stage import ID, PATH, message

#: No character that means anything to a shell, and none that moves a cursor. The question mark is the status check's.
HARMLESS = re.compile(r"[A-Za-z0-9 ._@+:/,?-]{1,1000}")
anything = st.text(max_size=300)


@given(anything, anything, anything, anything, anything)
def test_no_line_has_a_character_that_means_anything(id_: str, name: str, kind: str, path: str, text: str) -> None:
    hostile = Message(id_, name, "worker", kind, Priority.NORMAL, "")
    for line in (
        lines.waits(hostile, Path(path)),
        lines.waits_for_one_who_knows_nothing(name, hostile, Path(path)),
        lines.status_check(text, hostile),
        lines.status_check(f"Status check: are you still working on {text}?", hostile),
        lines.checkpoint(hostile, Path(path)),
        lines.goes_on(name, hostile, Path(path), Path(text)),
        lines.execute_stage(name, 2, hostile, Path(path)),
        lines.check_stage(text, 2),
        lines.ack_stage(text, 2),
        lines.stage_is_over(text, 2),
        lines.task_waits(id_, Path(path), [Path(text), Path("/") / text]),
        lines.task_waits_for_one_who_knows_nothing(name, id_, None, [Path(text)]),
    ):
        assert HARMLESS.fullmatch(line), line
        assert line.startswith("ackd: ")


def test_an_id_that_is_not_plain_is_replaced_by_the_file() -> None:
    line = lines.waits(message("x;y"), PATH)
    assert line == (
        f"ackd: a message from leader of type task_assignment waits: read {PATH} then run: ackd ack {PATH} "
        f"and when finished: ackd done {PATH}"
    )


def test_a_path_that_is_not_plain_is_replaced_by_a_command() -> None:
    line = lines.waits(message(), Path("/home/my files/x.mime"))
    assert f"waits: run: ackd read {ID} then run: ackd ack {ID}" in line


def test_where_neither_is_plain_the_agent_is_sent_to_its_inbox() -> None:
    assert lines.waits(message("x;y"), Path("a b")).endswith("waits: run: ackd inbox")


def test_the_engines_status_check_is_kept_when_its_ids_are_plain() -> None:
    for text in (
        "Status check: are you still working on T-1?",
        "Status check: are you still working on Stage 2 for ABC-7?",
    ):
        assert lines.status_check(text, message()) == f"ackd: {text}"
    assert lines.status_check("Status check: are you still working on a b?", message()).endswith(f"on {ID}?")


# --- tasks that are acknowledged by a file
def test_a_task_is_named_with_its_file_and_that_of_its_ack() -> None:
    task, acks = (
        Path("/t/queue/tasks/worker-1.yaml"),
        [Path("/t/queue/ack/task-001.ack"), Path("queue/ack/task-001.ack")],
    )
    how = "task task-001 waits: read /t/queue/tasks/worker-1.yaml then run: touch /t/queue/ack/task-001.ack"
    assert lines.task_waits("task-001", task, acks) == f"ackd: {how}"
    assert lines.task_waits_for_one_who_knows_nothing("1", "task-001", task, acks) == (
        f"ackd: you are worker 1 of a team, your context was cleared and {how}"
    )


def test_a_place_that_is_not_plain_is_named_as_it_was_given_or_not_at_all() -> None:
    acks = [Path("/home/me/\u65e5\u672c/queue/ack/t.ack"), Path("queue/ack/t.ack")]
    assert lines.task_waits("t", Path("/a b"), acks).endswith(
        "read it where your tasks lie then run: touch queue/ack/t.ack"
    )
    assert lines.task_waits("t", None, [Path("$(x)")]).endswith("then acknowledge it as you were told")
