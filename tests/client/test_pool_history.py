"""The history of a message to a pool: one recipient, the pool, and the member that has it."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.client.message_history import RecipientHistory, history_of, next_step
from ackd.client.standing import standing
from ackd.storage.log_index import LineQuery
from ackd.storage.session_log import Line

ID = "1763.42.ab12@ignite.local"
QUEUED = ("message_queued", {"agent": "workers", "from": "lead", "message_type": "message", "file": "queue/workers/a"})
W1, W2 = ({"agent": name, "pool": "workers"} for name in ("w1", "w2"))
CLAIMED = ("message_claimed", {**W1, "file": "queue/w1/processed/a"})
TOLD = ("message_told", {**W1, "proof": "child started", "attempt": 1})
RETRY = ("message_retry", {**W1, "reason": "exit 3", "retry_count": 1})
BACK = ("message_handed_back", {**W1, "reason": "exit 3", "file": "queue/workers/a"})
CLAIMED_2 = ("message_claimed", {**W2, "file": "queue/w2/processed/a"})
ACKED_2 = ("message_acked", {**W2, "by": "reply"})
DONE_2 = ("message_completed", {**W2, "by": "exit 0", "file": "archive/x/w2/a"})
DEAD_2 = ("message_dead", {**W2, "reason": "exit 3", "file": "queue/dead_letter/a"})
REQUEUED = ("message_requeued", {"agent": "workers", "file": "queue/workers/a"})
EXPIRED = ("message_dead", {"agent": "workers", "reason": "expired", "file": "queue/dead_letter/a"})


def told(*facts: tuple[str, dict[str, Any]]) -> RecipientHistory:
    lines = [
        Line(f"2026-11-16T01:00:{n:02d}.000000Z", "s", n, "daemon", kind, {"message_id": ID, **data}, b"")
        for n, (kind, data) in enumerate(facts)
    ]
    (one,) = history_of(lines, ID).recipients
    return one


@pytest.mark.parametrize(
    ("facts", "state", "holder", "name"),
    [
        ((QUEUED,), "queued", "", "workers"),
        ((QUEUED, CLAIMED), "processing", "w1", "workers (w1)"),
        ((QUEUED, CLAIMED, TOLD), "delivered", "w1", "workers (w1)"),
        ((QUEUED, CLAIMED, TOLD, RETRY), "retrying", "w1", "workers (w1)"),
        ((QUEUED, CLAIMED, TOLD, RETRY, BACK), "queued", "", "workers"),
        ((QUEUED, CLAIMED, TOLD, BACK, CLAIMED_2, ACKED_2), "acked", "w2", "workers (w2)"),
        ((QUEUED, CLAIMED, TOLD, BACK, CLAIMED_2, DONE_2), "completed", "w2", "workers (w2)"),
        ((QUEUED, CLAIMED_2, DEAD_2), "dead", "w2", "workers (w2)"),
        ((QUEUED, CLAIMED_2, DEAD_2, REQUEUED), "queued", "", "workers"),
        ((QUEUED, CLAIMED, BACK, EXPIRED), "dead", "", "workers"),
        ((QUEUED, CLAIMED_2, DONE_2, BACK), "completed", "", "workers"),
    ],
)
def test_the_pool_is_the_recipient_and_its_holder_changes(
    facts: tuple[tuple[str, dict[str, Any]], ...], state: str, holder: str, name: str
) -> None:
    one = told(*facts)
    assert (one.agent, one.state, one.holder, one.name, one.whose) == (
        "workers",
        state,
        holder,
        name,
        holder or "workers",
    )


def test_who_gave_it_back_proves_nothing_for_the_next_one() -> None:
    one = told(QUEUED, CLAIMED, TOLD, BACK)
    assert [proof.receipt for proof in one.receipts] == ["queued"]
    assert one.reason == "exit 3"
    later = told(QUEUED, CLAIMED, TOLD, BACK, CLAIMED_2, ACKED_2)
    assert [(proof.receipt, proof.agent) for proof in later.receipts] == [
        ("queued", "workers"),
        ("claimed", "w2"),
        ("acked", "w2"),
    ]


def test_what_is_said_names_the_member() -> None:
    one = told(QUEUED, CLAIMED, TOLD)
    assert next_step(one, ID, now=0, agent_state=None, daemon_runs=True) == "waiting for w1 to ack it"
    assert standing(one).startswith("workers (w1) was told")
    assert standing(told(QUEUED)) == "workers has not taken it yet"


def test_lines_of_members_are_about_the_pool_too() -> None:
    kind, data = CLAIMED
    line = Line("2026-11-16T01:00:00.000000Z", "s", 1, "daemon", kind, {"message_id": ID, **data}, b"")
    assert LineQuery(agent="workers").takes(line)
    assert LineQuery(agent="w1").takes(line)
    assert not LineQuery(agent="w2").takes(line)
