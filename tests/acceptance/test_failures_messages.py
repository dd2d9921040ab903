"""What broke for users of today's systems: messages lost or doubled. Each test bears the name of its case.

Against the real daemon, with real commands, and kill -9 where a crash is meant. What is better proven in the engine
(without disk or clock) is in tests/core; power cuts are in tests/faults.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running

if TYPE_CHECKING:
    from pathlib import Path


def exec_agent(name: str, script: str, more: str = "") -> str:
    return f'[agents.{name}]\nendpoint = "exec"\ncommand = ["sh", "-c", {json.dumps(script)}]\n{more}\n'


def inbox(name: str) -> str:
    return f"[agents.{name}]\n"


#: Waits for the file go, in steps of 20 ms: a run that a test holds as long as it likes.
HELD = 'echo "$ACKD_MESSAGE_ID" >>runs; until test -e go; do sleep 0.02; done'


def runs(team: Team) -> list[str]:
    path = team.place / "runs"
    return path.read_text().split() if path.exists() else []


def retries(team: Team, message: str, count: int) -> None:
    team.until(lambda: len(team.facts("message_retry", message=message)) >= count)


# --- counting ---------------------------------------------------------------------------------------------------------
def test_retry_count_read_from_one_place_and_written_to_another(tmp_path: Path) -> None:
    """[IGNITE queue_monitor] The limit was never reached. It is, also when we die after every single attempt."""
    each = 'echo "$ACKD_MESSAGE_ID" >>runs; n=$(wc -l <runs); until test -e fail$n; do sleep 0.02; done; exit 1'
    team = Team(tmp_path, exec_agent("worker", each, "retry_limit = 2"))
    with running(team):
        message = team.send("worker")
        for attempt in (1, 2):
            (tmp_path / f"fail{attempt}").touch()
            retries(team, message, attempt)
            (path,) = (team.root / "queue/worker/processed").glob("*.mime")
            assert team.header(path, "X-IGNITE-Retry-Count") == str(attempt)
            team.kill()
            team.start()
        (tmp_path / "fail3").touch()
        dead = team.fact("message_dead", message=message)
        assert dead["retry_count"] == 2
        assert len(runs(team)) == 3
        (grave,) = (team.root / "queue/dead_letter").glob("*.mime")
        assert team.header(grave, "X-IGNITE-Retry-Count") == "2"
        assert [fact["retry_count"] for fact in team.facts("message_retry", message=message)] == [1, 2]


def test_requeue_with_no_delay_and_no_cap_a_hot_loop(tmp_path: Path) -> None:
    """[relay #1300] Refused by its agent again and again: each time later, and an end to it."""
    team = Team(tmp_path, exec_agent("worker", "date +%s.%N >>runs; exit 75"), delivery="backoff_base_s = 0.2\n")
    with running(team):
        message = team.send("worker")
        team.fact("message_dead", message=message)
        delays = [fact["delay_s"] for fact in team.facts("message_retry", message=message)]
        assert len(delays) == 3
        assert all(0 <= delay <= 0.2 * 2**n for n, delay in enumerate(delays))
        assert len(runs(team)) == 4
        at = [float(line) for line in runs(team)]
        assert all(later - sooner >= delay - 0.01 for sooner, later, delay in zip(at, at[1:], delays, strict=False))


def test_retry_budget_against_workers_that_are_busy_silently_dropped(tmp_path: Path) -> None:
    """[relay #1339] Being busy is no failure: what waits is not retried, counted or dropped, however long it takes."""
    team = Team(
        tmp_path,
        exec_agent("worker", HELD, "retry_limit = 0"),
        delivery="processing_timeout_s = 0.2\nack_timeout_s = 0.2\n",
    )
    with running(team):
        ids = [team.send("worker") for _ in range(3)]
        team.until(lambda: len(runs(team)) == 1)
        over = time.monotonic() + 1.0  # five of its budgets
        team.until(lambda: time.monotonic() > over)
        assert not team.facts("message_retry", "message_dead", "escalation")
        (tmp_path / "go").touch()
        for message in ids:
            team.fact("message_completed", message=message)
        assert sorted(runs(team)) == sorted(ids)


def test_queue_bounded_at_50_older_entries_dropped(tmp_path: Path) -> None:
    """[gastown #4634] 200 wait behind a busy agent; then the critical one is served first, and every other after it."""
    team = Team(tmp_path, exec_agent("worker", HELD))
    with running(team):
        first = team.send("worker")
        team.until(lambda: len(runs(team)) == 1)
        names = [f"{n}.1.abcdef@ignite.local" for n in range(120)]
        for name in names:
            team.drop("worker", mime(to="worker", message_id=name), f"message_{name}.mime")
        team.drop("worker", mime(to="worker", message_id="p0.1.a@x", priority="critical"), "zzz.mime")
        team.until(lambda: len(team.facts("message_queued", agent="worker")) == 122)
        (tmp_path / "go").touch()
        team.until(lambda: len(runs(team)) == 122, patience_s=60)
        assert runs(team)[:2] == [first, "p0.1.a@x"]
        assert sorted(runs(team)[2:]) == sorted(names)


# --- restarts -----------------------------------------------------------------------------------------------------------
def test_messages_in_flight_at_a_restart_are_skipped_because_their_mtime_is_older(tmp_path: Path) -> None:
    """[IGNITE] Queued, being run, told: all of them years old when the daemon dies, all of them served."""
    team = Team(tmp_path, exec_agent("worker", HELD) + inbox("reader"))
    old = time.time() - 3 * 365 * 86_400
    with running(team):
        for n, agent in enumerate(("worker", "worker", "reader")):
            temp = tmp_path / "temp"
            temp.write_bytes(mime(to=agent, message_id=f"{n}.1.abcdef@ignite.local"))
            os.utime(temp, (old + n, old + n))
            temp.rename(team.root / "queue" / agent / f"message_{n}.mime")
            team.fact("message_queued", message=f"{n}.1.abcdef@ignite.local")
        team.fact("message_told", message="0.1.abcdef@ignite.local")
        team.fact("message_told", message="2.1.abcdef@ignite.local")
        team.kill()
        team.start()
        (tmp_path / "go").touch()
        team.fact("message_completed", message="0.1.abcdef@ignite.local")
        team.fact("message_completed", message="1.1.abcdef@ignite.local")
        assert team.ackd("done", "2.1.abcdef@ignite.local", "--agent", "reader").returncode == 0
        team.fact("message_completed", message="2.1.abcdef@ignite.local")
        assert sorted(runs(team)) == ["0.1.abcdef@ignite.local", "1.1.abcdef@ignite.local"]


def test_claimed_files_in_processing_never_reclaimed_after_a_crash(tmp_path: Path) -> None:
    """[Ensemble] Its run died with us: the claimed file is offered again, once."""
    team = Team(tmp_path, exec_agent("worker", HELD))
    with running(team):
        message = team.send("worker")
        child = team.fact("child_started", message=message)["pid"]
        team.until(lambda: runs(team) == [message])
        team.kill()
        os.killpg(child, 9)
        assert team.files("queue/worker/processed")
        (tmp_path / "go").touch()
        team.start()
        team.fact("message_completed", message=message)
        assert runs(team) == [message, message]
        assert not [name for name in team.files("queue/worker/processed") if name.endswith(".mime")]


def test_a_run_that_outlived_the_crash_is_not_run_twice(tmp_path: Path) -> None:
    team = Team(tmp_path, exec_agent("worker", HELD))
    with running(team):
        still, ended = team.send("worker"), team.send("worker")
        team.until(lambda: len(runs(team)) == 1)
        team.kill()
        team.start()
        (tmp_path / "go").touch()
        team.fact("message_completed", message=still)
        team.fact("message_completed", message=ended)
        assert sorted(runs(team)) == sorted([still, ended])


@pytest.mark.parametrize("endpoint", ["exec", "handler"])
def test_kill_9_again_and_again_loses_and_doubles_nothing(tmp_path: Path, endpoint: str) -> None:
    """Every message ends exactly once in the log, and in archive/; at-least-once for the work, exactly once for the end."""
    team = Team(tmp_path, exec_agent("worker", 'echo "$ACKD_MESSAGE_ID" >>runs'))
    agent = "worker" if endpoint == "exec" else "queue_monitor"
    count = 40 if endpoint == "exec" else 300
    ids = {f"{n}.1.abcdef@ignite.local" for n in range(count)}
    with running(team):
        for number in range(count):
            reply = "In-Reply-To: <1.1.a@x>\n"
            message = f"{number}.1.abcdef@ignite.local"
            team.drop(agent, mime(to=agent, message_id=message, extra=reply), f"message_{number}.mime")
            if number % (count // 4) == count // 4 - 1:
                team.kill()
                team.start()
        team.until(
            lambda: {f["message_id"] for f in team.facts("message_completed", agent=agent)} >= ids, patience_s=60
        )
        completed = [fact["message_id"] for fact in team.facts("message_completed", agent=agent)]
        assert sorted(completed) == sorted(ids)
        kept = [path.name for path in (team.root / "archive").rglob("message_*.mime")]
        assert len(kept) == count
        assert not team.facts("message_dead", "message_rejected", "message_withdrawn")


# --- escalations --------------------------------------------------------------------------------------------------------
def test_the_file_is_removed_before_the_escalation_that_quotes_it_is_written(tmp_path: Path) -> None:
    """[IGNITE move_to_dlq] The leader was told "unknown". While the escalation cannot be written, nothing is moved."""
    team = Team(tmp_path, exec_agent("worker", "exit 65") + inbox("leader"), top='escalate_to = "leader"')
    with running(team):
        leader = team.root / "queue" / "leader"
        leader.rename(team.root / "queue" / ".leader")
        leader.write_text("in the way")  # not a directory: no mail can be put there
        message = team.send("worker")
        team.until(lambda: [fact for fact in team.facts("io_error") if fact["what"] == "escalation to leader"])
        assert team.facts("child_ended", message=message)
        assert not team.facts("message_dead", message=message)
        assert not team.files("queue/dead_letter")
        assert len(team.files("queue/worker/processed")) == 1
        leader.unlink()
        (team.root / "queue" / ".leader").rename(leader)
        team.fact("message_dead", message=message)
        told = team.fact("escalation", message=message)["escalation_id"]
        team.fact("message_told", message=told)
        said = team.ackd("read", told).stdout
        assert message in said
        assert "exit 65" in said
        assert "unknown" not in said


def test_two_escalations_in_one_second_overwrite_each_other(tmp_path: Path) -> None:
    """[IGNITE] Second-granular names. Six agents fail in the same moment: six escalations, each of them the notice of its
    dead letter too, because the leader sent the messages."""
    names = [f"worker_{n}" for n in range(6)]
    agents = "".join(exec_agent(name, "exit 65") for name in names)
    team = Team(tmp_path, agents + inbox("leader"), top='escalate_to = "leader"')
    with running(team):
        for name in names:
            team.drop(name, mime(to=name, sender="leader", message_id=f"{name}.1.a@x"), "message_1.mime")
        team.until(lambda: len(team.facts("message_dead")) == 6)
        team.until(lambda: len(team.facts("message_told", agent="leader")) == 6)
        assert len(team.files("queue/dead_letter")) == 6
        bodies = "".join(p.read_text() for p in (team.root / "queue/leader/processed").glob("escalation_*.mime"))
        assert all(f"{name}.1.a@x" in bodies for name in names)


def test_a_death_that_a_crash_interrupted_is_told_once(tmp_path: Path) -> None:
    """Derived ids: the escalation written again after the crash is the same one."""
    team = Team(tmp_path, exec_agent("worker", "exit 65") + inbox("leader"), top='escalate_to = "leader"')
    with running(team):
        for n in range(3):
            team.drop("worker", mime(to="worker", message_id=f"{n}.1.a@x"), f"message_{n}.mime")
            team.fact("child_ended", message=f"{n}.1.a@x")
            team.kill()
            team.start()
        team.until(lambda: len(team.facts("message_dead", agent="worker")) >= 3)
        team.until(lambda: not list((team.root / "queue/worker/processed").glob("*.mime")))
        dead = [fact["message_id"] for fact in team.facts("message_dead", agent="worker")]
        assert sorted(set(dead)) == ["0.1.a@x", "1.1.a@x", "2.1.a@x"]
        assert len(team.files("queue/dead_letter")) == 3
        escalations = (team.root / "queue/leader/processed").glob("escalation_*.mime")
        headers = [team.header(path, "Message-ID") for path in escalations]
        assert len(set(headers)) == len(headers)


# --- told ---------------------------------------------------------------------------------------------------------------
def test_a_failed_delivered_write_is_ignored_so_the_message_is_delivered_again(tmp_path: Path) -> None:
    """[IGNITE db34bec] The status cannot be written: said, and not delivered again while we live."""
    team = Team(tmp_path, inbox("reader"))
    with running(team):
        processed = team.root / "queue/reader/processed"
        team.drop("reader", mime(to="reader", message_id="1.1.a@x"), "message_1.mime")
        team.fact("message_told", message="1.1.a@x")
        path = processed / "message_1.mime"
        team.until(lambda: team.header(path, "X-IGNITE-Status") == "delivered")
        path.write_bytes(path.read_bytes().replace(b"X-IGNITE-Status", b"X IGNITE Status"))  # cannot be rewritten now
        assert team.ackd("ack", "1.1.a@x", "--agent", "reader").returncode == 0
        team.fact("io_error")
        team.fact("message_acked", message="1.1.a@x")
        over = time.monotonic() + 1.5
        team.until(lambda: time.monotonic() > over)
        assert len(team.facts("message_told", message="1.1.a@x")) == 1
        assert team.ackd("done", str(path), "--agent", "reader").returncode in {0, 65, 66}
        path.unlink(missing_ok=True)
        team.fact("message_completed", message="1.1.a@x")


def test_marked_delivered_before_it_is_sent_on_failure_it_is_stuck_for_ever(tmp_path: Path) -> None:
    """[cli-agent-orchestrator #164, #80, #131, #708] The program is not there: never "told", and served once it is."""
    team = Team(tmp_path, '[agents.worker]\nendpoint = "exec"\ncommand = ["./tool"]\n')
    with running(team):
        message = team.send("worker")
        retry = team.fact("message_retry", message=message)
        assert retry["counted"] is False
        assert retry["retry_count"] == 0
        (path,) = (team.root / "queue/worker/processed").glob("*.mime")
        team.until(lambda: team.header(path, "X-IGNITE-Status") == "retrying")
        assert not team.facts("message_told", "message_seen", "message_completed", message=message)
        team.script("tool", "exit 0")
        team.fact("message_completed", message=message)


def test_a_task_stuck_in_progress_on_a_dead_worker_blocks_everything_behind_it(tmp_path: Path) -> None:
    """[zerg #102, 85df8e3] Its worker is killed: it fails, is offered again, and the next one is served."""
    once = 'echo "$ACKD_MESSAGE_ID" >>runs; test "$(wc -l <runs)" -gt 1 || kill -9 $$'
    team = Team(tmp_path, exec_agent("worker", once))
    with running(team):
        first = team.send("worker")
        second = team.send("worker")
        team.fact("message_completed", message=first)
        team.fact("message_completed", message=second)
        assert "SIGKILL" in team.facts("message_retry", message=first)[0]["reason"]
        assert runs(team).count(second) == 1


def test_complete_then_reported_failed(tmp_path: Path) -> None:
    """[zerg #111] It said done, then exits 1: done it is, once, and nobody is told otherwise."""
    script = 'ackd done "$ACKD_MESSAGE_ID"; until test -e go; do sleep 0.02; done; exit 1'
    team = Team(tmp_path, exec_agent("worker", script))
    with running(team):
        message = team.send("worker")
        team.fact("message_completed", message=message)
        (tmp_path / "go").touch()
        team.fact("child_ended", message=message)
        team.fact("message_completed", message=team.send("worker"))
        assert not team.facts("message_retry", "message_dead", "escalation", message=message)
        assert len(team.facts("message_completed", message=message)) == 1


# --- receipts -----------------------------------------------------------------------------------------------------------
def test_a_stale_ack_from_an_earlier_run_counts_as_an_instant_ack(tmp_path: Path) -> None:
    """[Ensemble] An ack given before the message was sent again is not an ack of the second telling."""
    once = 'if mkdir told; then ackd ack "$ACKD_MESSAGE_ID"; exit 75; fi'  # the second run never acks
    script = once + "; until test -e go; do sleep 0.02; done"
    team = Team(
        tmp_path,
        exec_agent("worker", script),
        delivery="backoff_base_s = 0.5\nbackoff_cap_s = 0.5\n",
    )
    with running(team):
        message = team.send("worker")
        team.fact("message_retry", message=message)
        team.until(lambda: not team.files("receipts"))
        team.kill()  # whatever of the ack was still lying about would be read at the start
        (tmp_path / "go").touch()
        team.start()
        team.fact("message_completed", message=message)
        types = team.types_of(message)
        assert "message_acked" not in types[types.index("message_retry") :]


def test_a_receipt_that_was_waiting_for_an_unknown_message_does_not_ack_the_next_one(tmp_path: Path) -> None:
    team = Team(tmp_path, inbox("reader"))
    receipt = {"kind": "ack", "message_id": "1.1.a@x", "agent": "reader", "reason": None, "at": "2026-11-16T00:00:00Z"}
    with running(team):
        path = team.root / "receipts" / "ack_0000000000000001-abcdef.json"
        path.write_text(json.dumps(receipt))
        team.until(lambda: not path.exists())
        team.fact("message_warning", message="1.1.a@x")
        team.drop("reader", mime(to="reader", message_id="1.1.a@x"), "message_1.mime")
        team.fact("message_told", message="1.1.a@x")
        assert not team.facts("message_acked")


def test_done_while_the_daemon_was_away_is_not_told_again(tmp_path: Path) -> None:
    team = Team(tmp_path, inbox("reader"))
    with running(team):
        by_receipt, by_deletion = team.send("reader"), team.send("reader")
        for message in (by_receipt, by_deletion):
            team.fact("message_told", message=message)
        team.kill()
        assert team.ackd("done", by_receipt, "--agent", "reader").returncode == 0
        for path in (team.root / "queue/reader/processed").glob("*.mime"):
            if by_deletion in path.read_text():
                path.unlink()
        team.start()
        team.fact("message_completed", message=by_receipt)
        assert team.fact("message_completed", message=by_deletion)["recovered"]
        assert all(len(team.facts("message_told", message=m)) == 1 for m in (by_receipt, by_deletion))


# --- addresses and graves -----------------------------------------------------------------------------------------------
def test_unknown_recipient_accepted_as_success(tmp_path: Path) -> None:
    """[munder-difflin #185]"""
    team = Team(tmp_path, inbox("reader"))
    with running(team):
        done = team.ackd("send", "raeder", "--body", "x", "--json")
        assert done.returncode == 67
        assert json.loads(done.stdout)["error"]["hint"] == "did you mean reader?"
        assert not (team.root / "queue" / "raeder").exists()
        assert team.ackd("send", "reader,nobody", "--body", "x").returncode != 0
        assert team.files("queue/reader") == ["processed"]


def test_dead_letters_pruned_after_an_hour_or_not_clearable_at_all(tmp_path: Path) -> None:
    """[gascity; agent-deck #2101] Kept through restarts and whatever their age; cleared by an operator's word only."""
    team = Team(tmp_path, exec_agent("worker", "test -e go || exit 65"))
    with running(team):
        kept, cleared = team.send("worker"), team.send("worker")
        for message in (kept, cleared):
            team.fact("message_dead", message=message)
        for path in (team.root / "queue/dead_letter").iterdir():
            os.utime(path, (1, 1))
        team.stop()
        team.start()
        listed = {
            entry["message_id"] for entry in json.loads(team.ackd("dead", "list", "--json").stdout)["dead_letters"]
        }
        assert listed == {kept, cleared}
        assert team.ackd("dead", "purge", cleared).returncode == 2  # without --yes
        assert team.ackd("dead", "purge", cleared, "--yes").returncode == 0
        (tmp_path / "go").touch()
        assert team.ackd("dead", "requeue", kept).returncode == 0
        team.fact("message_completed", message=kept)
        assert team.files("queue/dead_letter") == []
        team.until(lambda: team.status()["totals"]["dead"] == 0)


def test_purge_and_requeue_of_a_message_that_died_twice_mean_the_file_that_was_named(tmp_path: Path) -> None:
    """One Message-ID, two recipients, two dead letters: the other one must stay."""
    team = Team(tmp_path, "".join(exec_agent(name, "test -e go || exit 65") for name in ("a", "b", "c")))
    with running(team):
        for name in ("a", "b", "c"):
            team.drop(name, mime(to="a, b, c", message_id="1.1.a@x"), f"message_{name}.mime")
        team.until(lambda: len(team.facts("message_dead")) == 3)
        assert team.ackd("dead", "purge", "message_b.mime", "--yes").returncode == 0
        assert team.files("queue/dead_letter") == ["message_a.mime", "message_c.mime"]
        (tmp_path / "go").touch()
        assert team.ackd("dead", "requeue", "message_c.mime").returncode == 0
        assert team.fact("message_completed", message="1.1.a@x")["agent"] == "c"
        assert team.files("queue/dead_letter") == ["message_a.mime"]


def test_cannot_read_the_inbox_shown_as_inbox_empty(tmp_path: Path) -> None:
    """[cortextos PR 772] Three days deaf."""
    team = Team(tmp_path, inbox("reader"))
    with running(team):
        assert team.ackd("inbox", "reader").returncode == 0
        box = team.root / "queue" / "reader"
        team.kill()
        box.rename(team.root / "queue" / ".reader")
        box.write_text("no directory")
        blind = team.ackd("inbox", "reader")
        assert blind.returncode == 66
        assert "cannot read" in blind.stderr
        assert "no mail" not in blind.stdout


# --- order --------------------------------------------------------------------------------------------------------------
def test_order_by_file_name_puts_type_before_time_and_priority_is_parsed_and_never_used(tmp_path: Path) -> None:
    """[IGNITE]"""
    team = Team(tmp_path, exec_agent("worker", HELD))
    with running(team):
        first = team.send("worker")
        team.until(lambda: len(runs(team)) == 1)
        wanted = []
        for n, (name, priority) in enumerate(
            [
                ("user_goal_1.mime", "normal"),
                ("architecture_request_2.mime", "normal"),
                ("task_list_3.mime", "high"),
                ("a_4.mime", "low"),
                ("zz_5.mime", "critical"),
            ]
        ):
            message = f"{n}.{priority}.a@x"
            path = team.drop("worker", mime(to="worker", message_id=message, priority=priority), name)
            wanted.append(message)
            team.fact("message_queued", message=message)
            assert path.exists()
        (tmp_path / "go").touch()
        team.until(lambda: len(runs(team)) == 6)
        zero, one, two, three, four = wanted
        assert runs(team) == [first, four, two, zero, one, three]


# --- promises -----------------------------------------------------------------------------------------------------------
def test_acknowledged_before_flushed(tmp_path: Path) -> None:
    """[Jepsen, NATS] What `ackd send` said yes to was flushed before, file and directory; seen from outside."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    team = Team(tmp_path, inbox("reader"))
    traced = ["strace", "-f", "-e", "trace=fsync,fdatasync,rename,renameat2,write", "-o", str(tmp_path / "trace")]
    command = [*traced, sys.executable, "-m", "ackd", "send", "reader", "--body", "x"]
    done = subprocess.run(command, cwd=tmp_path, env=team.environment, capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"fsync|fdatasync|rename|write\(1,", (tmp_path / "trace").read_text())
    renamed, said = found.index("rename"), found.index("write(1,")
    flushes = {"fsync", "fdatasync"}
    assert flushes & set(found[:renamed])
    assert flushes & set(found[renamed:said])
