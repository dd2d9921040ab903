"""SIGSTOP and SIGCONT (a debugger, a laptop's lid, a frozen cgroup): time passes, and the daemon does not notice.

What happened meanwhile is heard before what time alone would say.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ackd.core.message import ReceiptKind
from ackd.storage import maildrop
from tests.acceptance.teams import Team, running
from tests.faults.grip import NOTE_RUN, WORKER, ends, frozen, passed, runs
from tests.strays import UNTIL_GO

if TYPE_CHECKING:
    from pathlib import Path


def wait(seconds: float) -> None:
    """Time has to pass for a daemon that does not run: nothing could be looked at instead."""
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        time.sleep(0.05)


def test_what_came_while_it_was_frozen_is_served_when_it_goes_on(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{WORKER}[agents.reader]\n")
    team.script("work", NOTE_RUN)
    with running(team):
        deleted = team.post("reader")
        team.fact("message_told", message=deleted)
        with frozen(team):
            ids = [team.post("worker") for _ in range(10)]
            next((team.root / "queue/reader/processed").glob("*.mime")).unlink()
            new = team.post("newcomer")
            wait(2)  # longer than a scan's period
        for one in (*ids, deleted):
            team.fact("message_completed", message=one)
        team.fact("message_told", message=new)
        passed(team, 0.5)
    assert sorted(runs(team)) == sorted(ids)
    assert ends(team) == {one: ["completed"] for one in (*ids, deleted)}
    assert not team.facts("io_error", "spool_lost", "escalation", "message_retry")


def test_a_run_that_ended_in_time_while_it_was_frozen_has_not_timed_out(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{WORKER}timeout_s = 4\n")
    team.script("work", f"{NOTE_RUN}\n{UNTIL_GO}")
    with running(team):
        one = team.post("worker")
        team.until(lambda: runs(team) == [one])
        with frozen(team):
            (tmp_path / "go").touch()
            wait(4.5)
        assert team.fact("message_completed", message=one)["by"] == "exit 0"
    assert runs(team) == [one]
    assert not team.facts("message_retry")


def test_a_run_that_is_too_long_because_it_was_frozen_is_ended_when_it_goes_on(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{WORKER}timeout_s = 0.5\nretry_limit = 0\n")
    team.script("work", f"{NOTE_RUN}\n{UNTIL_GO}")
    with running(team):
        one = team.post("worker")
        team.until(lambda: runs(team) == [one])
        with frozen(team):
            wait(1)
        assert team.fact("message_dead", message=one)["reason"] == "timed out after 0.5 s"
    assert runs(team) == [one]


def test_what_was_done_while_it_was_frozen_is_not_overdue(tmp_path: Path) -> None:
    """The receipt lies there before the clock is asked."""
    team = Team(tmp_path, "[agents.reader]\n", delivery="task_timeout_s = 2")
    with running(team):
        ids = [team.post("reader") for _ in range(5)]
        for one in ids:
            assert team.ackd("ack", one, "--agent", "reader").returncode == 0
            team.fact("message_acked", message=one)
            with frozen(team):
                assert team.ackd("done", one, "--agent", "reader").returncode == 0
                wait(2.2)
            team.fact("message_completed", message=one)
    assert not team.facts("message_overdue", "escalation")
    assert ends(team) == {one: ["completed"] for one in ids}


def test_what_was_deleted_while_it_was_frozen_is_not_overdue_and_the_sleep_is_said_once(tmp_path: Path) -> None:
    """A deletion needs its proof; the clocks wait for that, too."""
    team = Team(tmp_path, "[agents.reader]\n", delivery="task_timeout_s = 4")
    with running(team):
        ids = [team.post("reader") for _ in range(3)]
        for one in ids:
            team.fact("message_told", message=one)
        for one in ids:  # in a moment, however long a command takes here: their clocks run
            maildrop.drop_receipt(team.root / "receipts", ReceiptKind.ACK, one, "reader", fsync=False)
        team.until(lambda: len(team.facts("message_acked")) == len(ids))
        with frozen(team):
            for path in (team.root / "queue/reader/processed").glob("*.mime"):
                path.unlink()
            wait(6.5)
        for one in ids:
            team.fact("message_completed", message=one)
    assert len(team.facts("overslept")) == 1
    assert not team.facts("message_overdue", "escalation")
    assert ends(team) == {one: ["completed"] for one in ids}


def test_a_retry_that_fell_due_while_it_was_frozen_is_made_once(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{WORKER}", delivery="backoff_base_s = 1\nbackoff_cap_s = 1")
    team.script("work", f"{NOTE_RUN}\n[ -e go ]")
    with running(team):
        one = team.post("worker")
        team.fact("message_retry", message=one)
        with frozen(team):
            (tmp_path / "go").touch()
            wait(1.5)
        team.fact("message_completed", message=one)
    assert 2 <= len(runs(team)) == 1 + len(team.facts("message_retry"))
    assert ends(team) == {one: ["completed"]}
