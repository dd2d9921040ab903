"""Our own lines: whatever a message contains, only plain words reach a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ackd.core.message import KNOWN_TYPES, Message, Priority
from ackd.endpoints.tmux import lines
from tests.endpoints.tmux.fake_pane import ID, PATH, message

#: No character that means anything to a shell, and none that moves a cursor. The question mark is the status check's;
#: in brackets, which some shells run, stand types that ackd knows.
HARMLESS = re.compile(r"[A-Za-z0-9 ._@+:/,?-]{1,1000}")
KNOWN = re.compile(rf" \((?:{'|'.join(sorted(KNOWN_TYPES))})\)")
anything = st.text(max_size=300)


@given(anything, anything, anything, anything, anything)
def test_no_line_has_a_character_that_means_anything(id_: str, name: str, kind: str, path: str, text: str) -> None:
    hostile = Message(id_, name, "worker", kind, Priority.NORMAL, "")
    for line in (
        lines.mail(hostile, Path(path)),
        lines.mail_for_one_who_knows_nothing(name, hostile, Path(path)),
        lines.goes_on(name, hostile, Path(path), Path(text), short=True),
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
        assert HARMLESS.fullmatch(KNOWN.sub("", line, count=1)), line
        assert line.startswith("ackd: ")


def test_the_short_line_names_who_what_and_one_command() -> None:
    known = message("1763254800.4242.4f2a91c0b7d3@ignite.local")
    assert lines.mail(known, PATH) == "ackd: mail from leader (task_assignment). Run: ackd read 4f2a91c0"
    assert lines.mail_for_one_who_knows_nothing("worker", known, PATH) == (
        "ackd: you are agent worker of a team, your context was cleared. Mail from leader (task_assignment) waits. "
        "Run: ackd read 4f2a91c0"
    )


def test_an_id_of_another_form_is_named_whole_and_one_that_is_not_plain_by_its_file() -> None:
    assert lines.mail(message("job-17"), PATH).endswith("Run: ackd read job-17")
    assert lines.mail(message("1.2.abc@x"), PATH).endswith("Run: ackd read 1.2.abc@x")
    assert lines.mail(message("x;y"), PATH).endswith(f"Run: ackd read {PATH}")
    assert lines.mail(message("x;y"), Path("a b")).endswith("Run: ackd inbox")


def test_a_type_that_nobody_knows_is_left_out_of_the_brackets_that_some_shells_run() -> None:
    assert lines.mail(message("job-17", type_="reboot"), PATH) == "ackd: mail from leader. Run: ackd read job-17"


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
