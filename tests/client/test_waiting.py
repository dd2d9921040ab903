"""Waiting for a message: what is proven when the time is over, and how long a daemon may take to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.sending import Progress, Sent, Waited
from ackd.client.waiting import LogWaiter
from ackd.config.site import find_site
from ackd.core.escalations import stamp
from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "1794794802.29247.7c1f00d00001@ignite.local"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ackd").mkdir()
    return tmp_path / ".ackd"


@pytest.fixture
def log(root: Path) -> Iterator[SessionLog]:
    opened = SessionLog.open(root / "logs", started_at=time.time())
    yield opened
    opened.close()


@pytest.fixture
def held(root: Path) -> Iterator[None]:
    lock = root_lock.hold(root / "run")
    yield
    lock.release()


SENT = Sent(ID, ("slow",), (), daemon_running=True)


def wait(root: Path, log: SessionLog, *lines: tuple[str, dict[str, Any]], until: str = "completed") -> Waited:
    """The end of waiting 0.1 s for a message about which the log gets these lines."""
    waiter = LogWaiter(find_site(root), until, grace_s=30)
    for kind, data in lines:
        about = {} if kind == "agent_state" else {"message_id": ID}
        log.record(kind, {**about, "agent": "slow", **data}, time.time())
    log.flush()
    return waiter.wait(SENT, 0.1, Progress())


QUEUED: tuple[str, dict[str, Any]] = ("message_queued", {"file": "queue/slow/f.mime", "from": "user"})
CLAIMED: tuple[str, dict[str, Any]] = ("message_claimed", {"file": "queue/slow/processed/f.mime"})
TOLD: tuple[str, dict[str, Any]] = ("message_told", {"attempt": 1, "proof": "exec pid 42"})
SEEN: tuple[str, dict[str, Any]] = ("message_seen", {"evidence": "exec pid 42"})


def retry(**more: Any) -> tuple[str, dict[str, Any]]:
    due = stamp(time.time() + 7.6)
    data = {"reason": "exit 1: no hello", "counted": True, "retry_count": 2, "retry_limit": 3, "next_retry_after": due}
    return "message_retry", {**data, **more}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "slow has not taken it yet"),
        ([QUEUED, CLAIMED], "slow is being told"),
        ([QUEUED, CLAIMED, TOLD], "slow was told (exec pid 42) and has not acked it"),
        ([QUEUED, CLAIMED, TOLD, SEEN], "slow was told (exec pid 42) and has seen it"),
        (
            [QUEUED, ("message_told", {"attempt": 3, "proof": "exec pid 9"}), SEEN],
            "slow was told (exec pid 9, attempt 3) and has seen it",
        ),
        ([TOLD, ("message_acked", {"by": "ackd ack"})], "slow has acked it (ackd ack)"),
        (
            [QUEUED, ("agent_state", {"state": "parked", "reason": "no program x.sh"})],
            "slow has not taken it yet; slow is parked: no program x.sh",
        ),
    ],
)
@pytest.mark.usefixtures("held")
def test_the_last_proof_is_said_when_the_time_is_over(
    root: Path, log: SessionLog, lines: list[tuple[str, dict[str, Any]]], words: str
) -> None:
    waited = wait(root, log, *lines)
    assert (waited.outcome, waited.words) == ("timeout", f"not completed within 0.1 s: {words}")


@pytest.mark.usefixtures("held")
def test_a_retry_is_said_with_its_reason_its_count_and_its_time(root: Path, log: SessionLog) -> None:
    waited = wait(root, log, QUEUED, TOLD, retry())
    assert waited.outcome == "timeout"
    assert "slow: retrying after: exit 1: no hello (2 of 3), again in " in waited.words
    assert waited.words.endswith((" 6 s", " 7 s", " 8 s"))
    waited = wait(root, log, retry(counted=False, next_retry_after="2026-01-01T00:00:00Z"))
    assert waited.outcome == "timeout"
    assert "(not counted), again now" in waited.words


@pytest.mark.usefixtures("held")
def test_programs_get_the_state_the_receipts_and_the_reason(root: Path, log: SessionLog) -> None:
    waited = wait(root, log, QUEUED, CLAIMED, TOLD, SEEN)
    assert waited.outcome == "timeout"
    slow = waited.recipients["slow"]
    assert slow.state == "delivered"
    assert [receipt for receipt, _, _ in slow.receipts] == ["queued", "claimed", "told", "seen"]
    assert slow.receipts[3][2] == "exec pid 42"
    assert slow.reason is None
    slow = wait(root, log, QUEUED, retry()).recipients["slow"]
    assert (slow.state, slow.reason) == ("retrying", "exit 1: no hello")


def test_a_daemon_that_comes_within_the_grace_is_waited_for(root: Path, log: SessionLog) -> None:
    waiter = LogWaiter(find_site(root), "acked", grace_s=30)
    log.record("message_acked", {"message_id": ID, "agent": "slow", "by": "x"}, time.time())
    log.flush()
    assert waiter.wait(SENT, 30, Progress()).outcome == "done"  # nobody holds the root, and yet not "no daemon"


@pytest.mark.parametrize("grace_s", [0.02, 30])
def test_without_a_daemon_the_wait_ends_after_the_grace_or_the_timeout(root: Path, grace_s: float) -> None:
    waited = LogWaiter(find_site(root), "acked", grace_s).wait(SENT, 0.1, Progress())
    assert waited.outcome == "no daemon"
    assert "no daemon is running: the message stays queued" in waited.words
