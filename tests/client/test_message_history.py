from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.client.message_history import (
    RECEIPTS,
    STATES,
    MessageHistory,
    RecipientHistory,
    corrected,
    from_disk_alone,
    history_of,
    next_step,
)
from ackd.core.message import Folder
from ackd.storage.session_log import Line

ID = "1763.42.ab12@ignite.local"
NOW = datetime.fromisoformat("2026-11-16T01:00:25Z").timestamp()


def lines(*facts: tuple[str, dict[str, Any]]) -> list[Line]:
    return [
        Line(
            f"2026-11-16T01:00:{n:02d}.000000Z",
            "s",
            n,
            "daemon",
            type_,
            {"message_id": ID, "agent": "builder", **data},
            b"",
        )
        for n, (type_, data) in enumerate(facts)
    ]


QUEUED = (
    "message_queued",
    {"from": "leader", "message_type": "task_assignment", "priority": "high", "file": "builder/a.mime"},
)
FOUND = ("message_queued", {**QUEUED[1], "recovered": True})
CLAIMED = ("message_claimed", {"file": "builder/processed/a.mime"})
TOLD = ("message_told", {"attempt": 1, "proof": "child started"})
SEEN = ("message_seen", {"evidence": "child runs"})
ACKED = ("message_acked", {"by": "reply"})
DONE = ("message_completed", {"by": "exit 0", "file": "builder/archive/a.mime"})
RETRY = ("message_retry", {"reason": "exit 3", "next_retry_after": "2026-11-16T01:00:30Z", "retry_count": 1})
DEAD = ("message_dead", {"reason": "exit 3", "file": "builder/dead_letter/a.mime"})
WITHDRAWN = ("message_withdrawn", {"reason": "deleted"})
REQUEUED = ("message_requeued", {"file": "builder/a-1.mime"})
DUPLICATE = ("message_duplicate", {"of_state": "completed", "file": "builder/archive/a-1.mime"})
NOISE = ("message_warning", {"warning": "odd"})


def told(*facts: tuple[str, dict[str, Any]]) -> MessageHistory:
    return history_of(lines(*facts), ID)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([QUEUED], "queued"),
        ([QUEUED, CLAIMED], "processing"),
        ([QUEUED, CLAIMED, TOLD], "delivered"),
        ([QUEUED, CLAIMED, TOLD, SEEN], "delivered"),
        ([QUEUED, CLAIMED, TOLD, ACKED], "acked"),
        ([QUEUED, CLAIMED, ACKED, TOLD], "acked"),  # an ack is valid before "told" came back
        ([QUEUED, ACKED, CLAIMED], "acked"),
        ([QUEUED, CLAIMED, TOLD, ACKED, DONE], "completed"),
        ([QUEUED, DONE, TOLD, ACKED], "completed"),
        ([QUEUED, CLAIMED, TOLD, RETRY], "retrying"),
        ([QUEUED, CLAIMED, TOLD, RETRY, TOLD], "delivered"),
        ([QUEUED, CLAIMED, TOLD, ACKED, RETRY], "retrying"),
        ([QUEUED, CLAIMED, RETRY, DEAD], "dead"),
        ([QUEUED, DEAD, ACKED], "dead"),
        ([QUEUED, DEAD, DONE], "completed"),  # late
        ([QUEUED, DEAD, REQUEUED], "queued"),
        ([QUEUED, WITHDRAWN], "withdrawn"),
        ([QUEUED, NOISE], "queued"),
    ],
)
def test_the_last_word_decides_the_state_unless_it_comes_too_late(
    facts: list[tuple[str, dict[str, Any]]], state: str
) -> None:
    assert told(*facts).state == state


@pytest.mark.parametrize(
    ("before", "state"),
    [
        ([QUEUED], "queued"),
        ([QUEUED, CLAIMED], "queued"),  # offered again
        ([QUEUED, CLAIMED, TOLD], "delivered"),
        ([QUEUED, CLAIMED, TOLD, ACKED], "acked"),
        ([QUEUED, CLAIMED, RETRY], "retrying"),
        ([QUEUED, CLAIMED, DONE], "queued"),  # the move did not survive the power cut
    ],
)
def test_a_restart_that_finds_the_file_again_keeps_what_its_header_keeps(
    before: list[tuple[str, dict[str, Any]]], state: str
) -> None:
    assert told(*before, FOUND).state == state


def test_a_copy_that_came_again_leaves_the_message_where_it_was() -> None:
    known = told(QUEUED, CLAIMED, TOLD, DONE, QUEUED, DUPLICATE)
    assert known.state == "completed"
    assert known.recipients[0].file == "builder/archive/a.mime"
    assert [one.receipt for one in known.recipients[0].receipts] == ["queued", "claimed", "told", "completed"]


def test_each_receipt_has_its_time_and_proof_and_the_missing_ones_are_named() -> None:
    (one,) = told(QUEUED, CLAIMED, TOLD, DONE).recipients
    assert [(one.receipt, one.at[17:19], one.proof) for one in one.receipts] == [
        ("queued", "00", "builder/a.mime"),
        ("claimed", "01", "builder/processed/a.mime"),
        ("told", "02", "child started (attempt 1)"),
        ("completed", "03", "exit 0"),
    ]
    assert one.missing == ("seen", "acked")
    assert one.proof_of("seen") is None


def test_completed_does_not_prove_told() -> None:
    assert told(QUEUED, DONE).recipients[0].missing == ("claimed", "told", "seen", "acked")


def test_being_found_again_is_not_being_queued_again_and_the_newest_telling_counts() -> None:
    (one,) = told(
        QUEUED, CLAIMED, TOLD, RETRY, FOUND, ("message_told", {"attempt": 2, "proof": "child started"})
    ).recipients
    queued, newest = one.proof_of("queued"), one.proof_of("told")
    assert queued is not None
    assert newest is not None
    assert queued.at.endswith("00:00.000000Z")
    assert newest.proof == "child started (attempt 2)"


def test_a_requeued_message_has_nothing_proven_of_its_new_life() -> None:
    (one,) = told(QUEUED, CLAIMED, TOLD, ACKED, DEAD, REQUEUED).recipients
    assert [one.receipt for one in one.receipts] == ["queued"]
    assert one.file == "builder/a-1.mime"
    assert one.reason is None


def test_recipients_are_told_apart_and_the_least_finished_gives_the_state() -> None:
    other = [(type_, {**data, "agent": "tester"}) for type_, data in (QUEUED, CLAIMED, TOLD)]
    known = told(QUEUED, CLAIMED, DONE, *other)
    assert [(one.agent, one.state) for one in known.recipients] == [
        ("builder", "completed"),
        ("tester", "delivered"),
    ]
    assert known.state == "delivered"


def test_spellings_of_one_agent_are_one_recipient() -> None:
    known = told((QUEUED[0], {**QUEUED[1], "agent": "ignitian-1"}), (DONE[0], {**DONE[1], "agent": "ignitian_1"}))
    assert [(one.agent, one.state) for one in known.recipients] == [("ignitian-1", "completed")]


def test_answers_are_listed_and_their_lines_are_not_its_own() -> None:
    answer = ("message_queued", {"message_id": "answer@x", "in_reply_to": ID, "agent": "leader"})
    known = told(QUEUED, answer, answer)
    assert known.answers == ("answer@x",)
    assert len(known.events) == 1


def test_an_escalations_own_story_has_the_line_that_raised_it() -> None:
    raised = ("escalation", {"message_id": "cause@x", "escalation_id": ID, "cause": "dead", "to": "leader"})
    assert [line.type for line in told(raised, QUEUED).events] == ["escalation", "message_queued"]


def test_the_header_is_the_first_queued_lines() -> None:
    assert told(QUEUED, FOUND).header == {"from": "leader", "type": "task_assignment", "priority": "high"}


def test_a_warning_about_a_receipt_makes_up_no_recipient() -> None:
    assert (
        told(QUEUED, ("message_warning", {"agent": "stranger", "warning": "not open here"})).recipients[0].agent
        == "builder"
    )
    assert len(told(QUEUED, ("message_warning", {"agent": "stranger", "warning": "x"})).recipients) == 1
    assert told(("message_warning", {"warning": "x"})).state == "unknown"


ALL = [QUEUED, FOUND, CLAIMED, TOLD, SEEN, ACKED, DONE, RETRY, DEAD, WITHDRAWN, REQUEUED, DUPLICATE, NOISE]


@given(st.lists(st.sampled_from(ALL), max_size=12))
def test_no_order_of_lines_breaks_it(facts: list[tuple[str, dict[str, Any]]]) -> None:
    for one in told(*facts).recipients:
        assert one.state in STATES
        assert [one.receipt for one in one.receipts] == [name for name in RECEIPTS if name not in one.missing]
        next_step(one, ID, now=0, agent_state=None, daemon_runs=True)


# --- the disk ---------------------------------------------------------------------------------------------------------
def test_a_message_no_log_tells_of_is_where_its_file_lies() -> None:
    assert [
        from_disk_alone("a", folder).state for folder in (Folder.QUEUE, Folder.PROCESSED, Folder.DEAD, Folder.ARCHIVE)
    ] == [
        "queued",
        "processing",
        "dead",
        "completed",
    ]
    assert from_disk_alone("a", Folder.QUEUE).missing == RECEIPTS


def test_a_dead_letter_found_in_a_queue_was_dug_up() -> None:
    (dead,) = told(QUEUED, CLAIMED, DEAD).recipients
    assert corrected(dead, Folder.QUEUE).state == "queued"
    assert corrected(dead, Folder.QUEUE).receipts == ()
    assert corrected(dead, Folder.DEAD) is dead
    assert corrected(dead, None) is dead


# --- what comes next --------------------------------------------------------------------------------------------------
def step(state: str, *, agent_state: Line | None = None, daemon_runs: bool = True, **more: Any) -> str:
    one = RecipientHistory("builder", state=state, **more)
    return next_step(one, ID, now=NOW, agent_state=agent_state, daemon_runs=daemon_runs)


def test_every_state_has_its_next_step_or_none() -> None:
    assert step("queued") == "waits until builder can take it"
    assert step("processing") == "builder is being told"
    assert step("delivered") == "waiting for builder to ack it"
    assert (
        step("delivered", receipts=told(QUEUED, SEEN).recipients[0].receipts)
        == "builder has it: waiting for its result"
    )
    assert step("acked") == "waiting for builder to complete it"
    assert step("dead") == "nothing, unless somebody has it delivered again: `ackd dead requeue 1763.42.ab12`"
    assert step("completed") == step("withdrawn") == ""
    assert step("stray").startswith("Rename it")
    assert step("cancelled") == step("dead")
    assert step("cancelling") == "waiting for builder to let go of it"
    over = {"dead", "cancelled", "completed", "withdrawn"}
    assert set(STATES) == {"stray", "queued", "processing", "delivered", "acked", "retrying", "cancelling", *over}


def test_a_retry_says_when() -> None:
    assert step("retrying", next_retry_after="2026-11-16T01:00:30Z").endswith(":00:30, in 5 s")
    assert step("retrying", next_retry_after="2026-11-16T01:00:20Z").endswith(":00:20, which is now")
    assert step("retrying", next_retry_after="soon") == "tried again"


def test_what_hinders_the_agent_is_said() -> None:
    (parked,) = lines(("agent_state", {"state": "parked", "reason": "program \x1b missing"}))
    (free,) = lines(("agent_state", {"state": "available"}))
    assert (
        step("queued", agent_state=parked)
        == "waits until builder can take it; builder is parked: program \\x1b missing"
    )
    assert step("queued", agent_state=free) == "waits until builder can take it"
    assert step("acked", agent_state=parked) == "waiting for builder to complete it"


def test_without_a_daemon_that_is_said_where_something_is_to_come() -> None:
    assert step("queued", daemon_runs=False).endswith("; no daemon is running: start it with `ackd run`")
    assert step("completed", daemon_runs=False) == ""


def test_a_message_read_by_its_agent_is_proven_by_the_command_that_there_is() -> None:
    known = history_of(lines(QUEUED, TOLD, ("message_seen", {"evidence": "ackd seen"})), ID)
    proven = known.recipients[0].proof_of("seen")
    assert proven is not None
    assert proven.proof == "read through `ackd read`"
