"""Agents that are long-lived children, in front of the real daemon: what they do well, and every way to fail."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.acceptance.workers import LIVELY, agent, heard, notes, openings, raw, sdk, states
from tests.faults.grip import alive, descendants, ends, passed, pids_in

if TYPE_CHECKING:
    from pathlib import Path

LONG_S = 120.0
STEPS = """
def work(task):
    for step in task.steps("abcd"):
        {before}
        note(step)
"""


def crew(place: Path, more: str = "", *, liveness: str = "", **settings: str) -> Team:
    return Team(place, f"{liveness}\n{agent(more=more)}", **settings)


def pid_of(team: Team) -> int:
    pid = team.facts("child_started", agent="worker")[-1]["pid"]
    assert isinstance(pid, int)
    return pid


def kept_steps(team: Team) -> list[int]:
    """How many steps are done, by the checkpoints that the daemon has kept."""
    kept = (team.root / "state" / "checkpoints").glob("*.json")
    return [json.loads(path.read_bytes())["checkpoint"]["current_step"] for path in kept]


# --- well ---------------------------------------------------------------------------------------------------------------
def test_a_worker_is_told_and_seen_and_its_progress_and_end_are_there_to_see(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(team, STEPS.format(before="until('go')"))
    with running(team):
        message_id = team.send("worker", body="build it")
        told = team.fact("message_told", message=message_id)
        assert told["proof"].startswith("assign written to pid")
        team.fact("message_seen", message=message_id)
        team.until(lambda: team.status()["agents"]["worker"].get("worker_state") == "executing")
        shown = team.status()["agents"]["worker"]
        assert (shown["endpoint"], shown["state"], shown["liveness"]) == ("process", "busy", "alive")
        (team.place / "go").touch()
        team.fact("message_completed", message=message_id)
        assert notes(team) == [*"abcd"]
        assert states(team) == ["assigned", "executing", "verifying", "self_review", "complete", "idle"]
        stages = [fact["stage"] for fact in team.facts("progress", message=message_id)]
        assert stages[0] == "0 of 4"
        assert stages[-1] == "4 of 4"
        explained = team.ackd("explain", message_id).stdout
        for word in ("told", "seen", "completed"):
            assert word in explained
        assert team.facts("late_word", "bad_line", "escalation") == []


def test_two_hundred_messages_go_through_one_worker_one_at_a_time(tmp_path: Path) -> None:
    team = crew(tmp_path)
    raw(team, "def assign(a): note(a['payload']['message_id']); done(a)")
    with running(team):
        sent = [team.post("worker") for _ in range(200)]
        team.until(lambda: len(ends(team)) == len(sent), LONG_S)
        assert ends(team) == {message_id: ["completed"] for message_id in sent}
        assert sorted(notes(team)) == sorted(sent)
        assert len(team.facts("child_started")) == 1


# --- crashes ------------------------------------------------------------------------------------------------------------
def test_a_worker_that_crashes_at_work_is_started_again_and_goes_on(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(team, STEPS.format(before="if step == 'c' and once('crashed'): print('no luck', file=sys.stderr); os._exit(3)"))
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        assert notes(team) == [*"abcd"]
        (ended,) = team.facts("child_ended")
        assert ended["exit"] == 3
        (again,) = team.facts("child_restart")
        assert 0.5 <= again["in_s"] <= 1
        assert again["count"] == 1
        (retry,) = [fact for fact in team.facts("message_retry", message=message_id) if fact["counted"]]
        assert "its worker died: exit 3" in retry["reason"]
        assert [fact["generation"] for fact in team.facts("child_started")] == [1, 2]
        assert "failed" in states(team)
        assert "no luck" in (team.root / "logs" / "worker.stderr.log").read_text()
        assert team.facts("escalation") == []


@pytest.mark.timeout(240)
def test_a_worker_that_dies_again_and_again_is_down_told_of_once_and_brought_back_by_hand(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(team, "if os.path.exists('broken'): sys.exit('no API key')\n" + STEPS.format(before=""))
    (team.place / "broken").touch()
    with running(team):
        for _ in range(3):
            team.post("worker")
        team.until(lambda: team.status()["agents"]["worker"]["state"] == "down", 120)
        assert len(team.facts("child_restart")) == 5
        down = team.status()["agents"]["worker"]
        assert "no API key" in down["reason"]
        assert "restarted 5 times in 60 s" in down["reason"]
        (told,) = team.until(lambda: team.facts("escalation"))
        assert (told["cause"], told["to"]) == ("died", "user")
        team.until(lambda: len(team.files("queue/user/processed")) == 1)
        more = [team.post("worker") for _ in range(3)]
        for message_id in more:
            team.fact("message_queued", message=message_id)
        assert ends(team) == {}
        assert not any(fact["counted"] for fact in team.facts("message_retry"))
        (team.place / "broken").unlink()
        assert team.ackd("agent", "start", "worker").returncode == 0
        team.until(lambda: len(ends(team)) == 6, LONG_S)
        assert set(map(tuple, ends(team).values())) == {("completed",)}
        assert len(team.facts("escalation")) == 1


def test_a_dead_worker_leaves_27_messages_waiting_and_none_in_silence(tmp_path: Path) -> None:
    """A dead waker leaves 27 messages in silence [agent-message-queue #427]."""
    team = crew(tmp_path)
    raw(team, "def assign(a): os._exit(9) if once('crashed') else done(a)")
    with running(team):
        sent = [team.post("worker") for _ in range(27)]
        team.until(lambda: len(ends(team)) == 27, LONG_S)
        assert ends(team) == {message_id: ["completed"] for message_id in sent}
        assert [fact["reason"] for fact in team.facts("message_retry") if fact["counted"]] == [
            "its worker died: exit 9"
        ]
        assert team.facts("escalation") == []


def test_a_heartbeat_writer_that_outlives_its_worker_does_not_hide_its_death(tmp_path: Path) -> None:
    """[end-of-line #72]"""
    team = crew(tmp_path)
    raw(
        team,
        """
def assign(a):
    if not once("crashed"):
        return done(a)
    beat = "import time\\nwhile True: print('{\\"type\\": \\"heartbeat\\"}', flush=True); time.sleep(0.05)"
    writer = subprocess.Popen([sys.executable, "-S", "-c", beat], stdin=subprocess.DEVNULL, start_new_session=True)
    touch("writer", str(writer.pid))
    say("heartbeat", payload={"task_id": a["task_id"]})
    os._exit(1)
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        (writer,) = pids_in(team.place / "writer")
        team.until(lambda: not alive(writer))
        retries = team.facts("message_retry", message=message_id)  # on a slow machine it is not back at once, either
        assert [retry["reason"] for retry in retries if retry["counted"]] == ["its worker died: exit 1"]


# --- silence ------------------------------------------------------------------------------------------------------------
HANG = """
def assign(a):
    if once("hung"):
        say("heartbeat", payload={"task_id": a["task_id"]})
        %s
    done(a)
"""


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("time.sleep(3600)", id="asleep"),
        pytest.param("os.kill(0, signal.SIGSTOP)", id="stopped"),
        pytest.param("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)", id="deaf to TERM"),
    ],
)
def test_a_worker_that_hangs_is_asked_then_restarted_and_its_work_done(tmp_path: Path, how: str) -> None:
    """Silent hang [zerg #27]."""
    team = crew(tmp_path, liveness=LIVELY)
    raw(team, HANG % how)
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        (asked,) = team.facts("probe", message=message_id)
        assert asked["text"] == f"Status check: are you still working on {message_id}?"
        (checked,) = team.facts("probed", message=message_id)
        assert checked["done"].startswith("written to pid ")
        (retry,) = [fact for fact in team.facts("message_retry", message=message_id) if fact["counted"]]
        assert "nor an answer to a status check" in retry["reason"]
        assert [fact["liveness"] for fact in team.facts("liveness")][:2] == ["suspect", "unresponsive"]
        assert len(team.facts("child_started")) == 2
        assert team.facts("escalation", "nudge") == []


def test_a_worker_that_works_in_silence_is_not_asked(tmp_path: Path) -> None:
    """CPU time is a sign of life: supervision costs no turn."""
    team = crew(tmp_path, liveness="[liveness]\nheartbeat_timeout_s = 3\nprobe_timeout_s = 3\n")
    raw(
        team,
        """
def assign(a):
    say("heartbeat", payload={"task_id": a["task_id"]})
    end = time.monotonic() + 4
    while time.monotonic() < end:
        sum(range(20000))
    done(a)
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        assert team.facts("probe", "message_retry", "nudge") == []


@pytest.mark.parametrize("begins", ["", "def begin(): pass"], ids=["one heartbeat", "not a word"])
def test_a_worker_that_never_speaks_of_its_work_is_woken_rung_by_rung_and_then_down(
    tmp_path: Path, begins: str
) -> None:
    """A worker that never wrote a heartbeat counts as healthy [zerg monitor]; one that wrote one must not, either."""
    team = crew(tmp_path, delivery="ack_timeout_s = 1.5")  # longer than a worker without a word takes to be ready
    raw(team, f"{begins}\ndef assign(a):\n    if os.path.exists('well'): done(a)\nsignal.signal(signal.SIGINT, print)")
    with running(team):
        first = team.post("worker")
        team.fact("message_told", message=first)
        rest = [team.post("worker") for _ in range(50)]
        team.until(lambda: team.facts("message_dead", message=first), LONG_S)
        assert [fact["rung"] for fact in team.facts("nudge")] == [1, 2, 3]
        assert team.until(lambda: team.status()["agents"]["worker"]["state"] == "down")
        assert ends(team) == {first: ["dead"]}
        (told,) = team.until(lambda: team.facts("escalation"))
        assert (told["cause"], told["counted"]) == ("silent", 1)
        assert len(team.files("queue/worker")) == len([*rest, "processed"])
        assert team.facts("message_claimed", message=rest[0]) == []
        assert len(heard(team, "status_check")) == 2
        (team.place / "well").touch()
        assert team.ackd("agent", "restart", "worker").returncode == 0
        team.until(lambda: len(ends(team)) == 51, LONG_S)
        assert all(ends(team)[message_id] == ["completed"] for message_id in rest)
        assert len(team.facts("escalation")) == 1


def test_a_worker_that_prints_every_second_in_the_seeds_form_or_none_is_neither_silent_nor_dead(tmp_path: Path) -> None:
    """Progress with everything in its payload, and lines that nobody understands, for longer than is waited."""
    team = crew(tmp_path, delivery="ack_timeout_s = 1")
    raw(
        team,
        """
def assign(a):
    payload = {"task_id": a["task_id"], "step": 1, "description": "parsing"}
    spoken = os.path.exists("spoken")
    for _ in range(15):
        if spoken: say("progress", worker_id="w", timestamp="2026-11-16T12:00:00Z", payload=payload)
        else: print("Loading the model ...", flush=True)
        time.sleep(0.1)
    touch("spoken")
    done(a)
""",
    )
    with running(team):
        babbler = team.send("worker")
        team.fact("message_completed", message=babbler)
        seeds = team.send("worker")
        team.fact("message_completed", message=seeds)
        assert team.facts("nudge", "message_retry", "message_dead", "escalation", "probe") == []
        (seen,) = team.facts("message_seen", message=seeds)
        assert "progressed" in str(seen)
        assert {fact["message"] for fact in team.facts("progress", message=seeds)} == {"parsing"}


def test_one_slow_worker_delays_nobody_else(tmp_path: Path) -> None:
    """Dispatch of one slow agent blocks the loop for all [IGNITE 2e59b04]: this one takes its time to start, too."""
    team = Team(tmp_path, f"{agent('slow', program='slow.py')}{agent()}")
    raw(team, "def begin(): until('go')", "slow.py")
    raw(team, "")
    with running(team):
        slow = team.post("slow")
        quick = [team.post("worker") for _ in range(20)]
        team.until(lambda: len(ends(team)) == 20)
        assert set(ends(team)) == set(quick)
        (team.place / "go").touch()
        team.fact("message_completed", message=slow)


def test_two_workspaces_have_a_daemon_and_workers_each(tmp_path: Path) -> None:
    """One lock shared by two workspaces [IGNITE 9136f62]: the end of one daemon is not the other's business."""
    one, two = crew(tmp_path / "one"), crew(tmp_path / "two")
    for team in (one, two):
        raw(team, "def assign(a): note(a['payload']['message_id']); done(a)")
    with running(one), running(two):
        for team in (one, two):
            team.fact("message_completed", message=team.send("worker"))
        pid = pid_of(two)
        assert one.stop() == 0
        assert alive(pid)
        two.fact("message_completed", message=two.send("worker"))
        assert (len(notes(one)), len(notes(two))) == (1, 2)


def test_a_paused_worker_is_given_nothing_more(tmp_path: Path) -> None:
    """Workers run on through a pause [zerg #108]."""
    team = crew(tmp_path)
    raw(team, "def assign(a): note(a['payload']['message_id']); until('go'); done(a)")
    with running(team):
        first = team.post("worker")
        team.until(lambda: notes(team) == [first])
        assert team.ackd("agent", "pause", "worker").returncode == 0
        second = team.post("worker")
        (team.place / "go").touch()
        team.fact("message_completed", message=first)
        team.fact("message_queued", message=second)
        passed(team, 0.5)
        assert notes(team) == [first]
        assert team.ackd("agent", "resume", "worker").returncode == 0
        team.fact("message_completed", message=second)


# --- words --------------------------------------------------------------------------------------------------------------
def test_bad_lines_are_written_down_answered_and_survived(tmp_path: Path) -> None:
    team = crew(tmp_path)
    raw(
        team,
        r"""
def assign(a):
    print("Loading the model ...", flush=True)
    say("dance", task_id=a["task_id"])
    os.write(1, b'{"type": "heartbeat", "context_usage": "\xff\x1b[2J"}\n')
    done(a)
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        bad = team.facts("bad_line", agent="worker")
        assert bad[0]["text"] == "Loading the model ..."
        assert len(bad) == 3
        assert "\x1b" not in bad[2]["text"]
        team.until(lambda: len(heard(team, "error")) == 3)
        assert len(team.facts("child_started")) == 1
        assert team.facts("message_retry") == []


def test_a_flood_of_words_drowns_nobody(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{agent()}{agent('other', program='other.py')}")
    raw(team, "def assign(a):\n    for n in range(2000): print('la' * 100, n)\n    done(a)")  # six times a pipe's room
    raw(team, "", "other.py")
    with running(team):
        flooder = team.post("worker")
        team.fact("message_told", message=flooder)
        for _ in range(5):
            team.fact("message_completed", message=team.post("other"))
        team.until(lambda: flooder in ends(team), LONG_S)
        assert len(team.facts("bad_line")) <= 20


def test_a_blocked_worker_is_told_of_to_who_can_help(tmp_path: Path) -> None:
    team = Team(tmp_path, f"{LIVELY}{agent()}[agents.dba]\n")
    sdk(
        team,
        """
def work(task):
    if "schema" in task.body:
        task.blocked("no schema", by="dba")
    else:
        task.blocked("no key")
    until("go")
    task.progress("goes on")
""",
    )
    with running(team):
        first, second = team.send("worker", body="the schema"), team.send("worker", body="the key")
        (told,) = team.until(lambda: openings(team, "blocked"))
        assert (told["to"], told["message_id"]) == ("dba", first)
        assert team.fact("work_blocked", message=first)["reason"] == "no schema"
        team.until(lambda: team.status()["agents"]["worker"]["worker_state"] == "blocked")
        passed(team, 1.5)  # longer than is waited for a sign of life
        assert team.facts("probe") == []
        (team.place / "go").touch()
        team.fact("message_completed", message=first)
        team.fact("message_completed", message=second)
        assert team.fact("work_blocked", message=second)["reason"] == "no key"


# --- a full context -----------------------------------------------------------------------------------------------------
def test_work_is_handed_over_to_fresh_workers_and_no_step_runs_twice_or_is_skipped(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(
        team,
        """
def work(task):
    for number in task.steps(range(9)):
        note(f"{number}:{task.generation}")
        task.context(0.25 * (1 + number % 3))
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        assert notes(team) == [f"{number}:{1 + number // 3}" for number in range(9)]
        handed = team.facts("context_threshold", message=message_id)
        assert [fact["usage"] for fact in handed] == [0.75] * 3
        assert len(team.facts("checkpoint", message=message_id)) == 2
        assert [fact["counted"] for fact in team.facts("message_retry", message=message_id)] == [False, False]
        assert "waiting" in states(team)
        assert team.files("state/checkpoints") == []
        assert team.facts("escalation", "late_word") == []


def test_a_worker_that_only_says_how_full_it_is_is_asked_for_a_checkpoint(tmp_path: Path) -> None:
    team = crew(tmp_path)
    raw(
        team,
        """
def assign(a):
    global task
    task = a["task_id"]
    left = a["payload"].get("checkpoint")
    note(left["current_step"] if left else "anew")
    if left: done(a)
    else: say("heartbeat", context_usage=0.9, current_step="s", payload={"task_id": task})
def checkpoint_request(m):
    say("context_threshold", payload={"task_id": task, "current_step": 4, "checkpoint_ready": True, "context_usage": 0.9})
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.fact("message_completed", message=message_id)
        assert notes(team) == ["anew", "4"]
        assert len(heard(team, "checkpoint_request")) == 1


# --- the end of the daemon ----------------------------------------------------------------------------------------------
FAMILY = """
def work(task):
    for step in task.steps("abcd"):
        if step == "c" and once("begun"):
            kin = subprocess.Popen(["sleep", "600"], start_new_session=True)
            with open("kin~", "w") as file:
                file.write(f"{os.getpid()} {kin.pid}")
            os.rename("kin~", "kin")
            until("never")
        note(step)
"""


def test_after_kill_9_of_the_daemon_no_orphan_is_left_and_the_next_one_tells_again(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(team, FAMILY)
    with running(team):
        message_id = team.send("worker")
        worker, kin = team.until(lambda: pids_in(team.place / "kin"))
        team.until(lambda: kept_steps(team) == [2])
        team.kill()
        team.until(lambda: not alive(worker))
        team.start()
        team.until(lambda: not alive(kin))
        team.fact("message_completed", message=message_id)
        assert notes(team) == [*"abcd"]
        assert team.facts("message_retry", message=message_id) == []
        assert any("left behind by a daemon that was killed" in fact["why"] for fact in team.facts("child_ended"))
    assert descendants(team) == set()


def test_a_stop_ends_the_worker_cleanly_and_the_next_daemon_offers_its_work_uncounted(tmp_path: Path) -> None:
    team = crew(tmp_path)
    sdk(
        team,
        """
def work(task):
    for step in task.steps("abcd"):
        note(step)
        while step == "b" and not task._to_stop:  # the step ends when it is asked to
            time.sleep(0.01)
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.until(lambda: notes(team) == ["a", "b"])
        assert team.stop() == 0
        (ended,) = team.facts("child_ended")
        assert ended["exit"] == 0
        assert descendants(team) == set()
        (file,) = (team.root / "queue/worker/processed").glob("[!.]*")  # a header may be just being written
        assert team.header(file, "X-IGNITE-Retry-Count") in (None, "0")
        team.start()
        team.fact("message_completed", message=message_id)
        assert notes(team) == [*"abcd"]
        assert team.facts("escalation") == []


def test_a_stop_ends_a_worker_that_hears_nothing_with_all_it_started(tmp_path: Path) -> None:
    team = Team(
        tmp_path,
        agent(),
        quick="[watch]\nsettle_s = 0.1\n[daemon]\ndrain_timeout_s = 0.5\nstop_timeout_s = 0.5\n",
    )
    raw(
        team,
        """
def assign(a):
    if not once("hung"):
        return done(a)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("heartbeat", payload={"task_id": a["task_id"]})
    kin = subprocess.Popen(["sleep", "600"], start_new_session=True)
    touch("kin", str(kin.pid))
    time.sleep(3600)
""",
    )
    with running(team):
        message_id = team.send("worker")
        team.until(lambda: pids_in(team.place / "kin"))
        pid = pid_of(team)
        assert team.stop() == 0
        assert not alive(pid)
        assert descendants(team) == set()
        team.start()
        team.fact("message_completed", message=message_id)
        assert team.facts("message_dead", "escalation") == []


def test_a_worker_that_is_ended_by_another_hand_is_no_zombie(tmp_path: Path) -> None:
    team = crew(tmp_path)
    raw(team, "")
    with running(team):
        team.fact("message_completed", message=team.post("worker"))
        before = pid_of(team)
        os.kill(before, signal.SIGKILL)
        team.until(lambda: len(team.facts("child_started")) == 2)
        assert not (tmp_path / f"/proc/{before}").exists()
        team.fact("message_completed", message=team.post("worker"))


# --- what may be in a message -------------------------------------------------------------------------------------------
def test_a_message_may_name_its_spec_and_worktree_and_hostile_values_are_only_values(tmp_path: Path) -> None:
    team = crew(tmp_path)
    raw(team, "def assign(a): touch('spec', a['spec_path']); note(a['task_id']); done(a)")
    body = 'task_id: "$(reboot)"\nspec_path: "/etc/passwd; rm -rf /"\nworktree_path: "../.."\n'
    with running(team):
        message_id = "1770263544.7.abcdef@ignite.local"
        team.drop("worker", mime(to="worker", message_id=message_id, body=body), "message_1770263544000007.mime")
        team.fact("message_completed", message=message_id)
        assert (team.place / "spec").exists()
