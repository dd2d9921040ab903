"""`--wait`: what is proven when the time is over, and how long a daemon may take to come."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters import root_lock
from ackd.adapters.session_log import SessionLog
from ackd.core.escalations import stamp
from ackd.frontends.cli.errors import Ended
from ackd.frontends.cli.waiting import Waiter
from ackd.site import find_site

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


def wait(
    root: Path, log: SessionLog, *lines: tuple[str, dict[str, Any]], until: str = "completed", as_json: bool = False
) -> int:
    """The exit code of waiting 0.1 s for a message about which the log gets these lines."""
    waiter = Waiter(find_site(root), until, grace_s=30)
    for kind, data in lines:
        about = {} if kind == "agent_state" else {"message_id": ID}
        log.record(kind, {**about, "agent": "slow", **data}, time.time())
    log.flush()
    try:
        waiter.wait(ID, ["slow"], [], 0.1, as_json=as_json)
    except Ended as ended:
        return ended.exit_code
    return 0


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
    root: Path,
    log: SessionLog,
    lines: list[tuple[str, dict[str, Any]]],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert wait(root, log, *lines) == 75
    assert capsys.readouterr().err == f"not completed within 0.1 s: {words}\n"


@pytest.mark.usefixtures("held")
def test_a_retry_is_said_with_its_reason_its_count_and_its_time(
    root: Path, log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wait(root, log, QUEUED, TOLD, retry()) == 75
    said = capsys.readouterr().err
    assert "slow: retrying after: exit 1: no hello (2 of 3), again in " in said
    assert said.rstrip().endswith((" 6 s", " 7 s", " 8 s"))
    assert wait(root, log, retry(counted=False, next_retry_after="2026-01-01T00:00:00Z")) == 75
    assert "(not counted), again now" in capsys.readouterr().err


@pytest.mark.usefixtures("held")
def test_programs_get_the_state_the_receipts_and_the_reason(
    root: Path, log: SessionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wait(root, log, QUEUED, CLAIMED, TOLD, SEEN, as_json=True) == 75
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["daemon_running"]) == ("timeout", True)
    slow = told["recipients"]["slow"]
    assert slow["state"] == "delivered"
    assert [one["receipt"] for one in slow["receipts"]] == ["queued", "claimed", "told", "seen"]
    assert slow["receipts"][3]["proof"] == "exec pid 42"
    assert "reason" not in slow
    wait(root, log, QUEUED, retry(), as_json=True)
    slow = json.loads(capsys.readouterr().out)["recipients"]["slow"]
    assert (slow["state"], slow["reason"]) == ("retrying", "exit 1: no hello")


def test_a_daemon_that_comes_within_the_grace_is_waited_for(root: Path, log: SessionLog) -> None:
    waiter = Waiter(find_site(root), "acked", grace_s=30)
    log.record("message_acked", {"message_id": ID, "agent": "slow", "by": "x"}, time.time())
    log.flush()
    waiter.wait(ID, ["slow"], [], 30, as_json=False)  # nobody holds the root, and yet no exit 69


@pytest.mark.parametrize("grace_s", [0.02, 30])
def test_without_a_daemon_the_answer_is_69_after_the_grace_or_the_timeout(
    root: Path, grace_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Ended) as ended:
        Waiter(find_site(root), "acked", grace_s).wait(ID, ["slow"], [], 0.1, as_json=False)
    assert ended.value.exit_code == 69
    assert "no daemon is running: the message stays queued" in capsys.readouterr().err
