"""The daemon's life: starting, stopping, dying, and coming back to what it had in hand. Real processes, real signals."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.storage import root_lock
from tests.acceptance.teams import Team, mime, running
from tests.strays import UNTIL_GO

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Does its work (a line in runs.txt) and waits until `go` exists.
WAITER = f'echo "$ACKD_MESSAGE_ID" >>runs.txt\n{UNTIL_GO}\necho "$ACKD_MESSAGE_ID" >>ended.txt'
#: A retry comes after a time by chance, from none to this: within seconds of a test it comes once in a hundred thousand.
NOT_IN_THIS_TEST = "backoff_base_s = 1_000_000\nbackoff_cap_s = 1_000_000"
#: Ignores TERM.
STUBBORN = "trap '' TERM\n" + WAITER


def exec_team(place: Path, script: str = WAITER, *, agents: str = "", quick: str | None = None, **more: str) -> Team:
    config = f'[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n{agents}'
    team = Team(place, config, **more) if quick is None else Team(place, config, quick=quick, **more)
    team.script("work", script)
    return team


def runs(team: Team) -> list[str]:
    try:
        return (team.place / "runs.txt").read_text().split()
    except FileNotFoundError:
        return []


def message(number: int, *, to: str = "worker") -> tuple[str, bytes, str]:
    """Its id, its bytes, its file's name."""
    message_id = f"1770263544.{number}.abcdef@ignite.local"
    return message_id, mime(to=to, message_id=message_id), f"message_{1770263544000000 + number:016}.mime"


def drop(team: Team, number: int, *, to: str = "worker") -> str:
    message_id, data, name = message(number, to=to)
    team.drop(to, data, name)
    return message_id


@contextlib.contextmanager
def heeding_a_hangup() -> Iterator[None]:
    """What is started inside does so, though the tests run under nohup, which a daemon rightly respects."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


# --- stopping ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGPWR, signal.SIGXCPU])
def test_a_signal_lets_what_runs_finish_claims_nothing_more_and_ends_with_the_totals(
    tmp_path: Path, by: signal.Signals
) -> None:
    team = exec_team(tmp_path)
    with running(team):
        first = drop(team, 1)
        team.until(lambda: runs(team) == [first])
        assert team.process is not None
        team.process.send_signal(by)
        second = drop(team, 2)
        assert team.fact("session_stopping") == {"agents": ["worker"], "seconds": 5}
        (team.place / "go").touch()
        assert team.ended() == 0
    assert team.facts("message_completed", message=first)
    assert not team.facts("message_claimed", "message_retry", message=second)
    assert not team.facts("escalation", "agent_state")
    assert team.files("queue/worker") == [message(2)[2], "processed"]
    last = team.lines()[-1]
    assert last["type"] == "session_end"
    assert last["data"]["reason"] == by.name
    assert last["data"]["totals"]["completed"] == 1


def test_what_does_not_finish_in_time_is_ended_and_offered_again_uncounted(tmp_path: Path) -> None:
    quick = "[watch]\nsettle_s = 0.1\n[daemon]\ndrain_timeout_s = 0.2\nstop_timeout_s = 0.2\n"
    team = exec_team(tmp_path, STUBBORN, quick=quick)
    with running(team):
        one = drop(team, 1)
        team.until(lambda: runs(team) == [one])
        pid = team.fact("child_started", message=one)["pid"]
        assert team.stop() == 0
        assert not Path(f"/proc/{pid}").exists()
        (retry,) = team.facts("message_retry", message=one)
        assert retry["counted"] is False
        kept = team.root / "queue/worker/processed" / message(1)[2]
        assert team.header(kept, "X-IGNITE-Retry-Count") == "0"
        (team.place / "go").touch()
        team.start()
        team.fact("message_completed", message=one)
    assert runs(team) == [one, one]
    assert [fact["retry_count"] for fact in team.facts("message_retry", message=one)] == [0]
    assert not team.facts("escalation", "agent_state")


def test_mail_that_comes_while_it_drains_is_neither_lost_nor_escalated(tmp_path: Path) -> None:
    """A telling under way meets an endpoint that is stopping: no absence, and nobody is told of one."""
    team = Team(tmp_path, '[agents.worker]\nendpoint = "exec"\ncommand = ["true"]\nmax_in_flight = 4\n')
    with running(team):
        ids = {drop(team, number) for number in range(60)}
        team.until(lambda: team.facts("message_completed"))
        assert team.stop() == 0
        assert not team.facts("escalation", "agent_state")
        assert all(not fact["counted"] for fact in team.facts("message_retry"))
        team.start()
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed")} == ids)
    assert not team.facts("escalation", "agent_state", "message_dead")


def test_a_second_signal_leaves_at_once_and_the_run_to_the_next_start(tmp_path: Path) -> None:
    team = exec_team(tmp_path)
    with running(team):
        one = drop(team, 1)
        team.until(lambda: runs(team) == [one])
        assert team.process is not None
        team.process.send_signal(signal.SIGTERM)
        two = drop(team, 2)
        team.fact("session_stopping")
        team.fact("message_queued", message=two)  # it has heard the first signal, and drains
        team.process.send_signal(signal.SIGINT)
        assert team.ended() == 128 + signal.SIGINT
        team.start()
        team.until(lambda: any(fact.get("adopted") for fact in team.facts("child_started", message=one)))
        (team.place / "go").touch()
        team.fact("message_completed", message=one)
    assert runs(team).count(one) == 1
    assert len(team.facts("session_end")) == 1


def test_a_plain_handler_that_never_returns_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    info = tmp_path / "lib/stuck-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ackd.handlers]\nstuck = stuck:wait\n")
    (tmp_path / "lib/stuck.py").write_text("import time\n\ndef wait(mail, ctx):\n    time.sleep(3600)\n")
    quick = "[watch]\nsettle_s = 0.1\n[daemon]\ndrain_timeout_s = 0.2\nstop_timeout_s = 0.2\n"
    team = Team(tmp_path / "team", '[agents.worker]\nendpoint = "handler"\nhandler = "stuck"\n', quick=quick)
    team.start(env={"PYTHONPATH": os.pathsep.join([str(tmp_path / "lib"), os.environ.get("PYTHONPATH", "")])})
    one = drop(team, 1)
    team.fact("message_told", message=one)
    assert team.stop() == 0
    assert [fact["counted"] for fact in team.facts("message_retry", message=one)] == [False]


def test_where_nothing_is_in_hand_nothing_is_said_of_a_wait(tmp_path: Path) -> None:
    agents = '[agents.reader]\n[agents.child]\nendpoint = "process"\ncommand = ["cat"]\n'
    team = Team(tmp_path, agents)
    with running(team):
        team.fact("message_told", message=drop(team, 1, to="reader"))
        assert team.stop() == 0
    assert not team.facts("session_stopping")


# --- other signals ------------------------------------------------------------------------------------------------------
def test_a_signal_that_means_nothing_is_written_down_and_ends_nothing(tmp_path: Path) -> None:
    team = exec_team(tmp_path, "grep ^Sig[IB]gn: /proc/self/status >ignored.txt; true")
    meaningless = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGSTKFLT", "SIGPIPE", "SIGXFSZ"]
    with running(team):
        for name in meaningless * 2:
            os.kill(team.pid, signal.Signals[name])
        one = drop(team, 1)
        team.fact("message_completed", message=one)
        said = [fact["signal"] for fact in team.facts("signal_ignored")]
        assert sorted(said) == sorted(meaningless[:-2])  # Python ignores the last two by itself
        ignored = int((team.place / "ignored.txt").read_text().split()[1], 16)
        assert not any(ignored >> (signal.Signals[name] - 1) & 1 for name in meaningless[:-2])
        assert team.stop() == 0
    assert team.lines()[-1]["type"] == "session_end"


# --- one per root -----------------------------------------------------------------------------------------------------
def test_a_second_daemon_says_who_serves_the_root_and_exits_75(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        second = team.ackd("run")
        assert second.returncode == 75
        assert f"pid {team.pid}" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert len(team.files("logs")) == 1


def test_a_lock_that_was_removed_frees_nothing_and_is_put_back(tmp_path: Path) -> None:
    team = exec_team(tmp_path, "echo $ACKD_MESSAGE_ID >>runs.txt", quick="[watch]\nsettle_s = 0.1\n")
    lock = team.root / "run/ackd.lock"
    with running(team):
        lock.unlink()  # and nothing looks after it for half a minute
        ids = [drop(team, number) for number in range(12)]
        second = team.ackd("run")
        assert second.returncode == 75
        assert f"pid {team.pid}" in second.stderr
        assert team.ackd("status", "--json").returncode == 0
        for one in ids:
            team.fact("message_completed", message=one)
        assert sorted(runs(team)) == sorted(ids)
        assert len(team.facts("session_start")) == 1
        # A command that would act for itself without a daemon asks this one instead.
        asked = team.ackd("agent", "pause", "worker")
        assert (asked.returncode, "no daemon" in asked.stdout) == (0, False)


def test_a_root_that_was_replaced_and_that_another_holds_ends_it(tmp_path: Path) -> None:
    team = Team(tmp_path, quick="[watch]\nreconcile_interval_s = 0.1\n")
    lock = team.root / "run/ackd.lock"
    with running(team):
        lock.unlink()
        team.until(lambda: lock.exists() and root_lock.holder(lock.parent) == team.pid)
        new = tmp_path / "new"
        (new / "queue").mkdir(parents=True)
        other = root_lock.hold(new / "run")
        team.root.rename(tmp_path / "away")
        new.rename(team.root)
        try:
            assert team.ended() == 75
        finally:
            other.release()
    assert "the root was removed or replaced" in team.output().splitlines()[-1]


# --- dying ------------------------------------------------------------------------------------------------------------
def test_killed_while_idle_it_comes_back_to_what_waited_meanwhile(tmp_path: Path) -> None:
    team = exec_team(tmp_path, "true")
    with running(team):
        team.kill()
        one = drop(team, 1)
        for file in (team.root / "queue/worker").glob("*.mime"):
            os.utime(file, (0, 0))  # what is being written when it starts is met a moment later, as any other
        team.start()
        assert team.fact("message_queued", message=one)["recovered"] is True
        team.fact("message_completed", message=one)
        assert len({line["session_id"] for line in team.lines()}) == 2


def test_killed_while_a_command_runs_it_adopts_the_run_and_takes_its_result(tmp_path: Path) -> None:
    team = exec_team(tmp_path)
    with running(team):
        one = drop(team, 1)
        team.until(lambda: runs(team) == [one])
        team.kill()
        team.start()
        adopted = team.until(lambda: [fact for fact in team.facts("child_started") if fact.get("adopted")])
        assert adopted[0]["message_id"] == one
        (team.place / "go").touch()
        team.fact("message_completed", message=one)
        team.until(lambda: not team.files("state/runs"))
    assert runs(team) == [one]


@pytest.mark.parametrize(("code", "fact"), [(0, "message_completed"), (65, "message_dead"), (1, "message_retry")])
def test_what_a_command_came_to_while_nobody_looked_is_found(tmp_path: Path, code: int, fact: str) -> None:
    team = exec_team(tmp_path, f"{WAITER}\nexit {code}", delivery=NOT_IN_THIS_TEST)
    with running(team):
        one = drop(team, 1)
        team.until(lambda: runs(team) == [one])
        team.kill()
        (team.place / "go").touch()
        (status,) = (team.root / "state/runs").glob("*/")
        team.until((status / "status").exists)
        team.start()
        team.fact(fact, message=one)
    assert runs(team) == [one]


def test_a_command_that_died_with_us_without_a_word_is_run_again(tmp_path: Path) -> None:
    team = exec_team(tmp_path)
    with running(team):
        one = drop(team, 1)
        pid = team.fact("child_started", message=one)["pid"]
        team.until(lambda: runs(team) == [one])
        team.kill()
        os.killpg(pid, signal.SIGKILL)
        (team.place / "go").touch()
        team.until(lambda: not _alive(pid))
        team.start()
        team.fact("message_completed", message=one)
    assert runs(team) == [one, one]
    assert not team.facts("message_retry")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_killed_ten_times_under_load_it_loses_nothing_and_completes_nothing_twice(tmp_path: Path) -> None:
    config = '[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\nmax_in_flight = 8\n'
    team = Team(tmp_path, config, delivery='durability = "process"')
    team.script("work", 'echo "$ACKD_MESSAGE_ID" >>done.txt')
    ids = set()
    with running(team):
        for round_ in range(10):
            ids |= {drop(team, round_ * 20 + number) for number in range(20)}
            some = min(len(team.facts("message_completed")) + 3, len(ids))
            team.until(lambda some=some: len(team.facts("message_completed")) >= some)  # type: ignore[misc]
            team.kill()
            team.start()
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed")} >= ids, 60)
        team.until(lambda: team.status()["totals"]["completed"] == 200)
    completed = Counter(fact["message_id"] for fact in team.facts("message_completed"))
    assert completed == Counter(dict.fromkeys(ids, 1))
    assert set((team.place / "done.txt").read_text().split()) == ids
    assert not team.facts("message_dead", "message_withdrawn", "message_duplicate")
    assert [
        name for name in team.files("queue/worker/processed") if name[0] != "."
    ] == []  # half a header is swept later
    assert len(list((team.root / "archive").rglob("[!.]*.mime"))) == 200


# --- in the middle of things ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_in_the_middle_of_a_retry_keeps_its_count_and_its_time(tmp_path: Path, how: str) -> None:
    team = exec_team(tmp_path, "echo x >>runs.txt\nexit 1", delivery=NOT_IN_THIS_TEST)
    kept = team.root / "queue/worker/processed" / message(1)[2]
    with running(team):
        one = drop(team, 1)
        team.fact("message_retry", message=one)
        before = kept.read_bytes()
        due = team.header(kept, "X-IGNITE-Next-Retry-After")
        assert team.header(kept, "X-IGNITE-Retry-Count") == "1"
        if how == "stopped":
            team.stop()
        else:
            team.kill()
        team.start()
        team.until(lambda: team.status()["agents"]["worker"]["retrying"] == 1)
        drop(team, 2)  # a whole round of the engine later
        team.fact("message_retry", message=message(2)[0])
        assert kept.read_bytes() == before
        assert team.header(kept, "X-IGNITE-Next-Retry-After") == due
    assert len(team.facts("message_retry", message=one)) == 1
    assert runs(team) == ["x", "x"]


def test_a_retry_that_fell_due_while_it_was_away_is_made_at_once(tmp_path: Path) -> None:
    team = exec_team(tmp_path, "[ -e go ]")
    with running(team):
        one = drop(team, 1)
        team.fact("message_retry", message=one)
        team.kill()
        (team.place / "go").touch()
        team.start()
        team.fact("message_completed", message=one)
    assert max(fact["retry_count"] for fact in team.facts("message_retry")) <= 3


def test_a_slow_agent_delays_nobody_else(tmp_path: Path) -> None:
    quick_agent = '[agents.quick]\nendpoint = "exec"\ncommand = ["true"]\n'
    team = exec_team(tmp_path, agents=quick_agent)
    with running(team):
        slow = drop(team, 0)
        team.until(lambda: runs(team) == [slow])
        ids = {drop(team, number, to="quick") for number in range(1, 21)}
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed", agent="quick")} == ids)
        assert not team.facts("message_completed", message=slow)
        (team.place / "go").touch()
        team.fact("message_completed", message=slow)


# --- lines that a crash swallowed -------------------------------------------------------------------------------------
def test_a_completion_whose_line_was_lost_is_written_by_the_next_start(tmp_path: Path) -> None:
    """As after a kill between the move to archive/ and the line: the journal has it, the archive too, the log not."""
    team = Team(tmp_path)
    with running(team):
        one = drop(team, 1, to="user")
        team.fact("message_told", message=one)
        team.kill()
    day = team.root / "archive" / time.strftime("%Y%m%d", time.gmtime()) / "user"
    day.mkdir(parents=True)
    (team.root / "queue/user/processed" / message(1)[2]).rename(day / message(1)[2])
    with running(team):
        found = team.fact("message_completed", message=one)
        assert found["recovered"] is True
        assert found["file"].endswith(message(1)[2])
        team.until(lambda: team.status()["totals"]["completed"] == 1)
        team.kill()
    with running(team):
        team.until(lambda: team.status()["totals"]["completed"] == 1)
        drop(team, 1, to="user")
        team.fact("message_duplicate", message=one)
    assert len(team.facts("message_completed", message=one)) == 1


def test_killed_between_link_and_unlink_it_tells_nothing_again(tmp_path: Path) -> None:
    """Where the file system has no renameat2 (NFS, 9p) a move is two steps: the file lies in archive/ and in processed/,
    and the log has no line."""
    team = Team(tmp_path)
    with running(team):
        one = drop(team, 1, to="user")
        team.fact("message_told", message=one)
        team.kill()
    day = team.root / "archive" / time.strftime("%Y%m%d", time.gmtime()) / "user"
    day.mkdir(parents=True)
    os.link(team.root / "queue/user/processed" / message(1)[2], day / message(1)[2])
    with running(team):
        found = team.fact("message_completed", message=one)
        assert found["by"] == "found in the archive"
        assert team.files("queue/user/processed") == []
        drop(team, 1, to="user")
        team.fact("message_duplicate", message=one)
    assert len(team.facts("message_told", message=one)) == 1


def test_what_its_agent_deleted_while_it_was_away_is_completed(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        one = drop(team, 1, to="user")
        team.fact("message_told", message=one)
        team.stop()
    (team.root / "queue/user/processed" / message(1)[2]).unlink()
    with running(team):
        found = team.fact("message_completed", message=one)
    assert found["recovered"] is True
    assert "deleted by its agent" in found["by"]


@pytest.mark.parametrize("how", ["archived", "deleted"])
def test_of_two_files_of_one_name_the_one_that_ended_as_it_was_killed_is_completed(tmp_path: Path, how: str) -> None:
    """The second was claimed under the next free name, beside the first, which is still in hand."""
    team = Team(tmp_path)
    (first, data, name), (second, its_data, _) = message(1, to="user"), message(2, to="user")
    with running(team):
        team.drop("user", data, name)
        team.fact("message_told", message=first)
        team.drop("user", its_data, name)
        team.fact("message_told", message=second)
        team.kill()
    claimed = team.root / "queue/user/processed" / name.replace(".mime", "-1.mime")
    if how == "archived":
        day = team.root / "archive" / time.strftime("%Y%m%d", time.gmtime()) / "user"
        day.mkdir(parents=True)
        claimed.rename(day / claimed.name)
    else:
        claimed.unlink()
    with running(team):
        assert team.fact("message_completed", message=second)["recovered"] is True
        team.drop("user", its_data, name)
        team.fact("message_duplicate", message=second)
        assert not team.facts("message_withdrawn")
        assert not team.facts("message_completed", message=first)


def test_a_queue_that_was_removed_while_it_was_away_is_lost_loudly_and_completes_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.helper]\n")
    with running(team):
        one = drop(team, 1, to="helper")
        team.fact("message_told", message=one)
        team.stop()
    shutil.rmtree(team.root / "queue/helper")
    with running(team):
        withdrawn = team.fact("message_withdrawn", message=one)
        assert "spool_lost" in withdrawn["reason"]
        assert team.fact("escalation", agent="helper")["cause"] == "spool_lost"
        assert team.fact("spool_lost")["files"] == [f"queue/helper/processed/{message(1)[2]}"]
    assert not team.facts("message_completed", message=one)


def test_one_id_for_two_recipients_is_two_messages_to_recovery(tmp_path: Path) -> None:
    """One of them is dead, the other was deleted by its agent while nobody looked: not dead too."""
    team = Team(tmp_path, "[agents.one]\n[agents.two]\n")
    message_id, data, name = message(1, to="one, two")
    with running(team):
        for box in ("one", "two"):
            team.drop(box, data, name)  # both, before either is met: who is named and has none is given a copy
        for box in ("one", "two"):
            team.fact("message_told", message=message_id, agent=box)
        assert team.ackd("refuse", message_id, "--agent", "one", "--reason", "not mine").returncode == 0
        team.fact("message_dead", message=message_id, agent="one")
        team.stop()
    (team.root / "queue/two/processed" / name).unlink()
    with running(team):
        team.fact("message_completed", message=message_id, agent="two")
    assert not team.facts("message_dead", agent="two")


def test_killed_between_journal_and_claim_it_does_not_take_a_fresh_file_for_completed(tmp_path: Path) -> None:
    """The file is still in queue/, too fresh to be read at once; the journal says we had it in hand."""
    team = exec_team(tmp_path, WAITER, quick="[watch]\nsettle_s = 2.5\n")
    with running(team):
        one = drop(team, 1)
        team.until(lambda: runs(team) == [one])
        team.kill()
    (run,) = (team.root / "state/runs").iterdir()
    (team.place / "go").touch()
    team.until((run / "status").exists)
    shutil.rmtree(run)
    (team.place / "runs.txt").unlink()
    (team.root / "queue/worker/processed" / message(1)[2]).unlink()
    drop(team, 1)
    with running(team):
        assert "recovered" not in team.fact("message_completed", message=one)
    assert runs(team) == [one]


def test_a_config_that_spells_an_agent_otherwise_finds_its_mail_and_its_run(tmp_path: Path) -> None:
    team = Team(tmp_path, '[agents.ignitian-1]\nendpoint = "exec"\ncommand = ["./work"]\n')
    team.script("work", WAITER)
    with running(team):
        one = drop(team, 1, to="ignitian-1")
        team.until(lambda: runs(team) == [one])
        team.kill()
    config = team.place / "ackd.toml"
    config.write_text(config.read_text().replace("ignitian-1", "ignitian_1"))
    with running(team):
        team.until(lambda: any(fact.get("adopted") for fact in team.facts("child_started")))
        (team.place / "go").touch()
        assert "recovered" not in team.fact("message_completed", message=one)
    assert runs(team) == [one]
    assert len(team.facts("message_completed", message=one)) == 1


# --- starting ---------------------------------------------------------------------------------------------------------
def test_a_bare_root_of_ignite_is_served_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".ignite/queue/leader").mkdir(parents=True)
    (tmp_path / ".ignite/queue/leader" / message(1)[2]).write_bytes(message(1, to="leader")[1])
    daemon = subprocess.Popen([sys.executable, "-m", "ackd", "run"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None
        seen = []
        for line in daemon.stdout:
            seen.append(json.loads(line)["event"])
            if seen[-1] == "message_told":
                break
        assert seen[0] == "session_start"
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    assert (tmp_path / ".ignite/queue/leader/processed" / message(1)[2]).exists()


# --- the version of the state -----------------------------------------------------------------------------------------
def test_a_state_of_a_newer_ackd_is_refused_by_name_and_not_touched(tmp_path: Path) -> None:
    team = exec_team(tmp_path, "true")
    with running(team):
        assert json.loads((team.root / "state/version").read_text())["version"] == 1
        team.stop()
    one = drop(team, 1)
    (team.root / "queue/dead_letter/message_1770263544000009.mime").write_bytes(message(9)[1])
    (team.root / "state/version").write_text('{"version": 2, "ackd": "9.0.0"}\n')
    lock = team.root / "run/ackd.lock"
    before = {path: path.read_bytes() for path in team.root.rglob("*") if path.is_file() and path != lock}
    for words in (["run"], ["dead", "purge", "--all", "--yes"], ["agent", "pause", "worker"]):
        refused = team.ackd(*words)
        assert refused.returncode == 78, (words, refused.stderr)
        assert "version 2, written by ackd 9.0.0" in refused.stderr
    assert {path: path.read_bytes() for path in team.root.rglob("*") if path.is_file() and path != lock} == before
    assert team.ackd("check").returncode == 1
    (team.root / "state/version").write_text('{"version": 1, "first_start": "2026-11-18T00:00:00Z"}\n')
    with running(team):
        team.fact("message_completed", message=one)


# --- a message that a person gives to another agent -------------------------------------------------------------------
@pytest.mark.parametrize("away", [False, True], ids=["while it serves", "while it is away"])
def test_what_is_moved_into_anothers_queue_is_served_there_and_completed_by_nobody_before(
    tmp_path: Path, away: bool
) -> None:
    team = exec_team(tmp_path, 'echo "$ACKD_MESSAGE_ID" >>runs.txt', agents="[agents.clerk]\n")
    with running(team):
        one = drop(team, 1, to="clerk")
        team.fact("message_told", message=one)
        (name,) = team.files("queue/clerk/processed")
        file = team.root / "queue/clerk/processed" / name
        if away:
            team.stop()
        file.rename(team.root / "queue/worker" / file.name)
        if away:
            team.start()
        withdrawn = team.fact("message_withdrawn", message=one)
        assert withdrawn["agent"] == "clerk"
        assert "moved by hand to queue/worker/" in withdrawn["reason"]
        completed = team.fact("message_completed", message=one)
        assert completed["agent"] == "worker"
        assert runs(team) == [one]
        assert [fact["agent"] for fact in team.facts("message_completed", message=one)] == ["worker"]
        assert team.facts("spool_lost") == []


def test_one_of_two_recipients_who_deletes_its_file_has_completed_it(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.clerk]\n[agents.other]\n")
    with running(team):
        message_id = team.send("clerk", "other")
        team.until(lambda: len(team.facts("message_told", message=message_id)) == 2)
        (name,) = team.files("queue/clerk/processed")
        file = team.root / "queue/clerk/processed" / name
        file.unlink()
        assert team.fact("message_completed", message=message_id)["agent"] == "clerk"
        assert team.facts("message_withdrawn") == []
