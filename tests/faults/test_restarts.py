"""A daemon that dies in the middle of things, and what the next one makes of them: runs, results, retries."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from ackd.core.message import ReceiptKind
from ackd.endpoints.exec.run_files import read_status
from ackd.storage import maildrop
from tests.acceptance.teams import Team, running
from tests.faults.grip import NOTE_RUN, WORKER, descendants, ends, runs
from tests.strays import UNTIL_GO
from tests.waiting import Stopwatch, crowd

if TYPE_CHECKING:
    from pathlib import Path


def worker(place: Path, script: str, keys: str = "", **more: str) -> Team:
    team = Team(place, f"{WORKER}{keys}", **more)
    team.script("work", script)
    return team


# --- retries ----------------------------------------------------------------------------------------------------------
FAILS_ONCE = """
echo "$ACKD_MESSAGE_ID $(date +%s.%N)" >>tries.txt
[ "$(grep -c "^$ACKD_MESSAGE_ID " tries.txt)" = 2 ]
"""


def tries(team: Team) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    path = team.place / "tries.txt"
    for line in path.read_text().splitlines() if path.exists() else ():
        message, at = line.split()
        found.setdefault(message, []).append(float(at))
    return found


def test_a_retry_that_waits_is_made_by_the_next_daemon_as_the_same_attempt_at_the_same_time(tmp_path: Path) -> None:
    team = worker(tmp_path, FAILS_ONCE, "max_in_flight = 8\n", delivery="backoff_base_s = 15\nbackoff_cap_s = 15")
    with running(team):
        ids = [team.post("worker") for _ in range(8)]
        due = {
            one: datetime.fromisoformat(team.fact("message_retry", message=one)["next_retry_after"]).timestamp()
            for one in ids
        }
        team.kill()
        killed_at = time.time()
        watch = Stopwatch()
        team.start()
        back_at = (team.root / "run/status.json").stat().st_mtime
        for one in ids:
            team.fact("message_completed", message=one)
        hindered_s = watch.hindered_s()
    waited = [one for one in ids if due[one] > back_at]
    assert waited  # all but surely: eight waits of up to fifteen seconds
    for one in ids:
        _, second = tries(team)[one]
        assert second >= due[one] - 1  # the header's time has whole seconds
        assert second < max(due[one], back_at) + 3 + hindered_s
        if due[one] > killed_at:  # else it may have died with the line that told of it
            assert [fact["attempt"] for fact in team.facts("message_told", message=one)] == [1, 2]
        assert [fact["retry_count"] for fact in team.facts("message_retry", message=one)] == [1]
    assert ends(team) == {one: ["completed"] for one in ids}


def test_the_attempts_before_a_restart_count_against_the_limit(tmp_path: Path) -> None:
    """One death of the daemon per attempt: three retries are three retries."""
    team = worker(tmp_path, f"{NOTE_RUN}\nexit 1")
    with running(team):
        one = team.post("worker")
        for count in (1, 2, 3):
            team.until(lambda count=count: len(runs(team)) >= count)  # type: ignore[misc]
            team.kill()
            team.start()
        assert team.fact("message_dead", message=one)["retry_count"] == 3
    assert runs(team) == [one] * 4
    assert ends(team)[one] == ["dead"]


DEFERS = f"""
echo begin >>turns.txt
if [ ! -e deferred ]; then
    touch deferred
    ackd defer "$ACKD_MESSAGE_ID" --reason "not yet"
    {UNTIL_GO}
fi
echo end >>turns.txt
"""


def test_a_run_that_deferred_and_lives_on_is_not_joined_by_its_retry(tmp_path: Path) -> None:
    quick = "[watch]\nsettle_s = 0.1\n[daemon]\ndrain_timeout_s = 5\nstop_timeout_s = 15\n"
    team = worker(tmp_path, DEFERS, quick=quick)
    with running(team):
        one = team.post("worker")
        team.fact("message_retry", message=one)
        team.kill()
        team.start()
        team.until(lambda: [fact for fact in team.facts("child_started", message=one) if fact.get("adopted")])
        team.until(lambda: team.status()["agents"]["worker"]["in_flight"] == 1)  # told again, and waiting
        (tmp_path / "go").touch()
        assert team.fact("message_completed", message=one)["by"] == "exit 0"
    assert (tmp_path / "turns.txt").read_text().split() == ["begin", "end"] * 2
    assert [fact["retry_count"] for fact in team.facts("message_retry", message=one)] == [1]


# --- runs -------------------------------------------------------------------------------------------------------------
TAKES_ITS_TIME = f"""
{NOTE_RUN}
case $(cat "$ACKD_BODY") in *slow*) {UNTIL_GO} ;; *) until [ -e soon ]; do sleep 0.01; done ;; esac
"""


def test_runs_that_end_while_it_is_dead_and_runs_that_do_not_are_each_run_once(tmp_path: Path) -> None:
    """Results are found, the living adopted, the waiting offered, over two deaths."""
    team = worker(tmp_path, TAKES_ITS_TIME, "max_in_flight = 6\n")
    with running(team):
        slow = [team.post("worker", body="content: slow\n") for _ in range(3)]
        quick = [team.post("worker", body="content: quick\n") for _ in range(3)]
        waiting = [team.post("worker", body="content: quick\n") for _ in range(6)]
        team.until(lambda: set(runs(team)) == {*slow, *quick})
        team.kill()
        (tmp_path / "soon").touch()
        team.until(lambda: sum(read_status(run) is not None for run in (team.root / "state/runs").glob("*/")) == 3)
        team.start()
        team.until(lambda: len([fact for fact in team.facts("child_started") if fact.get("adopted")]) == 3)
        team.kill()
        (tmp_path / "go").touch()
        team.start()
        ids = [*slow, *quick, *waiting]
        for one in ids:
            team.fact("message_completed", message=one)
        team.until(lambda: not team.files("state/runs"))
        team.until(lambda: not descendants(team))
    assert sorted(runs(team)) == sorted(ids)
    assert ends(team) == {one: ["completed"] for one in ids}
    assert not team.facts("message_retry", "message_dead", "escalation")


# --- written over -----------------------------------------------------------------------------------------------------
def test_a_file_that_was_written_over_while_it_was_dead_is_never_read_as_completed(tmp_path: Path) -> None:
    """Quarantined by the first start after it; the second finds nothing where a message was in hand."""
    team = Team(tmp_path, "[agents.reader]\n")
    with running(team):
        spoilt, kept = team.post("reader"), team.post("reader")
        for one in (spoilt, kept):
            team.fact("message_told", message=one)
        team.kill()
        (team.root / "queue/reader/processed/message_1770263544000001.mime").write_text("rubbish")
        team.start()
        assert "overwritten with what is no message" in team.fact("message_withdrawn", message=spoilt)["reason"]
        team.fact("message_rejected", agent="reader")
        assert len(team.files("queue/corrupt")) == 2  # byte for byte, beside its reason
        team.kill()
        team.start()
        assert team.ackd("done", kept, "--agent", "reader").returncode == 0
        team.fact("message_completed", message=kept)
    assert ends(team) == {spoilt: ["withdrawn"], kept: ["completed"]}


def test_what_was_answered_while_it_was_dead_is_heard_before_any_clock_rings(tmp_path: Path) -> None:
    """Told long ago by the header, acknowledged and read a moment before the start."""
    longer = crowd()
    team = Team(tmp_path, f"[agents.user]\nremind_after_s = {1.5 * longer:.1f}\ntask_timeout_s = {3 * longer:.1f}\n")
    with running(team):
        unread, taken = (team.post("user") for _ in range(2))
        for one in (unread, taken):
            team.fact("message_told", message=one)
        maildrop.drop_receipt(team.root / "receipts", ReceiptKind.ACK, taken, "user", fsync=False)  # in a moment
        team.fact("message_acked", message=taken)
        team.until(lambda: "acked" in _status(team, taken) and "delivered" in _status(team, unread))
        assert not team.facts("reminder", "message_overdue")
        team.kill()
        over = time.monotonic() + 3.2 * longer
        team.until(lambda: time.monotonic() > over)
        assert team.ackd("ack", unread, "--agent", "user").returncode == 0
        assert team.ackd("done", taken, "--agent", "user").returncode == 0
        team.start()
        team.fact("message_acked", message=unread)
        team.fact("message_completed", message=taken)
        assert not team.facts("reminder", "message_overdue")


def _status(team: Team, message: str) -> str:
    processed = team.root / "queue/user/processed"
    (path,) = [
        processed / name for name in team.files("queue/user/processed") if message in (processed / name).read_text()
    ]
    return team.header(path, "X-IGNITE-Status") or ""
