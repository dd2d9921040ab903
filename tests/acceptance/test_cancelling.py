"""Cancelling, expiry, deadlines and sending once, in front of the real daemon and real agents of each kind."""

from __future__ import annotations

import json
import math
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.panes import Panes, panes_in
from tests.acceptance.teams import QUICK, Team, running
from tests.acceptance.test_handlers import installed
from tests.acceptance.workers import agent, heard, notes, raw, sdk
from tests.faults.grip import alive
from tests.waiting import crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEADER = '[agents.leader]\nendpoint = "inbox"\n'
WORKER = '[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n'
#: A command that says that it runs, notes a TERM, and goes on.
STUBBORN = "trap 'echo TERM >>heard' TERM\necho $$ >pid.tmp\nmv pid.tmp pid\nwhile :; do sleep 0.1; done"
FOUND = '[agents.worker]\nendpoint = "tmux"\nprofile = "fake"\ntitle = "worker"\n'


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def cancel(team: Team, message_id: str, *words: str, by: str = "leader") -> str:
    done = team.ackd("cancel", message_id, "--agent", by, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_cancelled(team: Team, message_id: str, reason: str = "cancelled by leader") -> dict[str, object]:
    """Wait until it lies among the dead letters, and its sender has the notice."""
    dead = team.fact("message_dead", message=message_id)
    assert (dead["end"], dead["reason"]) == ("cancelled", reason)
    (letter,) = (team.root / "queue/dead_letter").glob("*.mime")
    assert team.header(letter, "X-ACKD-Ended") == "cancelled"
    assert json.loads(team.ackd("explain", message_id, "--json").stdout)["state"] == "cancelled"
    notice = team.until(lambda: [one for one in team.facts("message_queued") if one["message_type"] == "dead_letter"])
    assert (notice[0]["agent"], notice[0]["in_reply_to"]) == ("leader", message_id)
    assert not team.facts("escalation", "message_retry")
    return dead


# --- by kind of endpoint ------------------------------------------------------------------------------------------------
def test_a_command_that_ignores_term_is_killed_and_never_run_again(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", STUBBORN)
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        pid = int(team.written(tmp_path / "pid"))
        cancel(team, message_id, "--reason", "the plan changed")
        is_cancelled(team, message_id, "cancelled by leader: the plan changed")
        assert team.fact("message_let_go", message=message_id)["how"] == "its command was ended"
        team.until(lambda: not alive(pid))
        assert (tmp_path / "heard").read_text().splitlines()[0] == "TERM"
        assert len(team.facts("child_started")) == 1
        team.script("work", "exit 0")
        team.fact("message_completed", message=team.send("worker", "--from", "leader"))  # its window is free
        assert len(team.facts("message_told", message=message_id)) == 1


def test_a_worker_that_obeys_says_so_and_goes_on_with_the_next(tmp_path: Path) -> None:
    unhurried = QUICK.replace("stop_timeout_s = 1", "stop_timeout_s = 600")
    team = Team(tmp_path, LEADER + agent(), delivery="cancel_timeout_s = 600\n", quick=unhurried)
    sdk(
        team,
        "def work(task):\n    for step in task.steps('ab'):\n        note(step)\n"
        "        while once('first') or (not task.is_cancelled and not os.path.exists('second')): time.sleep(0.01)\n",
    )
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.until(lambda: notes(team) == ["a"])
        cancel(team, message_id)
        is_cancelled(team, message_id)
        assert team.fact("message_let_go", message=message_id)["how"] == "cancelled"
        assert notes(team) == ["a"]
        (team.place / "second").touch()
        team.fact("message_completed", message=team.send("worker", "--from", "leader"))
        assert len(team.facts("child_started")) == 1


def test_a_worker_that_completes_instead_has_completed_it(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + agent())
    raw(team, "def assign(a):\n    global held\n    held = a\n    touch('has')\ndef cancel(m): done(held)")
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.until((team.place / "has").exists)
        cancel(team, message_id)
        team.fact("message_completed", message=message_id)
        assert not team.facts("message_dead", "message_let_go")
        assert json.loads(team.ackd("explain", message_id, "--json").stdout)["state"] == "completed"


def test_a_worker_that_does_not_obey_is_restarted(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + agent())
    raw(team, "def assign(a):\n    if once('told'): return\n    done(a)\ndef cancel(m): pass")
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.fact("message_told", message=message_id)
        cancel(team, message_id, "--reason", "too slow")
        is_cancelled(team, message_id, "cancelled by leader: too slow")
        (line,) = heard(team, "cancel")
        assert line["payload"] == {
            "reason": "cancelled by leader: too slow",
            "message_id": message_id,
            "let_go_within_s": 1.0,
            "task_id": message_id,
        }
        assert "was restarted" in team.fact("message_let_go", message=message_id)["how"]
        team.until(lambda: len(team.facts("child_started")) == 2)
        team.fact("message_completed", message=team.send("worker", "--from", "leader"))
        assert len(team.facts("message_told", message=message_id)) == 1


def test_a_worker_is_restarted_when_its_answer_is_waited_for_no_longer(tmp_path: Path) -> None:
    """Its own time to answer, stop_timeout_s, is longer than cancel_timeout_s."""
    unhurried = QUICK.replace("stop_timeout_s = 1", "stop_timeout_s = 600")
    team = Team(tmp_path, LEADER + agent(), delivery="cancel_timeout_s = 1\n", quick=unhurried)
    raw(team, "def assign(a):\n    if once('told'): return\n    done(a)\ndef cancel(m): pass")
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.fact("message_told", message=message_id)
        cancel(team, message_id)
        is_cancelled(team, message_id)
        assert team.fact("message_let_go", message=message_id)["how"] == "not proven within 1 s"
        team.until(lambda: len(team.facts("child_started")) == 2)
        team.fact("message_completed", message=team.send("worker", "--from", "leader"))
        assert not team.facts("message_retry")


def test_a_pane_is_told_by_a_line_that_names_the_message_and_nothing_of_it(panes: Panes) -> None:
    team = Team(panes.place, f"{panes.config()}\n{LEADER}{FOUND}")
    panes.open("worker", "--work-s", "0.5")
    with running(team):
        message_id = team.send("worker", "--from", "leader", body="rm -rf secret")
        team.fact("message_told", message=message_id)
        cancel(team, message_id, "--reason", "secret; rm -rf x")
        is_cancelled(team, message_id, "cancelled by leader: secret; rm -rf x")
        line = team.until(lambda: [one for one in panes.submitted() if "was cancelled" in one])[0]
        said = f"ackd: message {message_id} from leader of type message was cancelled: stop working on it. "
        assert line == f"{said}Nothing is to be answered"


def test_a_busy_pane_is_told_when_it_is_ready_and_what_it_says_by_then_is_a_line_of_the_log(panes: Panes) -> None:
    team = Team(panes.place, f"{panes.config()}\n{LEADER}{FOUND}", delivery="cancel_timeout_s = 1\n")
    panes.open("worker", "--work-s", "1000000")
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.fact("message_seen", message=message_id)
        cancel(team, message_id)
        is_cancelled(team, message_id)
        assert team.fact("message_let_go", message=message_id)["how"] == "not proven within 1 s"
        assert not [one for one in panes.submitted() if "was cancelled" in one]
        assert team.ackd("done", message_id, "--agent", "worker").returncode == 0
        assert team.fact("message_late", message=message_id)["by"] == "ackd done"
        assert json.loads(team.ackd("explain", message_id, "--json").stdout)["state"] == "cancelled"
        panes.control("idle")
        team.until(lambda: [one for one in panes.submitted() if "was cancelled" in one])
        assert not team.facts("message_completed", message=message_id)


def test_a_handler_is_cancelled(tmp_path: Path) -> None:
    team = Team(tmp_path / "team", f'{LEADER}[agents.greeter]\nendpoint = "handler"\nhandler = "greeter"\n')
    module = (
        "import asyncio, pathlib\nasync def greet(mail, ctx):\n    pathlib.Path('begun').touch()\n"
        "    try:\n        await asyncio.sleep(86400)\n    finally:\n        pathlib.Path('ended').touch()\n"
    )
    team.start(env=installed(tmp_path / "lib", module))
    try:
        message_id = team.send("greeter", "--from", "leader")
        team.until((team.place / "begun").exists)
        cancel(team, message_id)
        is_cancelled(team, message_id)
        assert (team.place / "ended").exists()
    finally:
        team.stop()


def test_an_inbox_gets_a_notice(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + '[agents.worker]\nendpoint = "inbox"\n')
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.fact("message_told", message=message_id)
        cancel(team, message_id)
        is_cancelled(team, message_id)
        notice = team.until(lambda: [one for one in team.facts("message_queued", agent="worker") if _is_notice(one)])
        assert notice[0]["in_reply_to"] == message_id


def _is_notice(line: dict[str, object]) -> bool:
    return line["message_type"] == "notification"


# --- who, when, what --------------------------------------------------------------------------------------------------
def test_what_waits_is_withdrawn_without_a_daemon_too_and_only_its_sender_and_a_person_may(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", "echo ran >>ran")
    one, other = team.send("worker", "--from", "leader"), team.send("worker", "--from", "leader")
    refused = team.ackd("cancel", one, "--agent", "worker")
    assert (refused.returncode, "only leader, who sent it, and user may cancel it" in refused.stderr) == (1, True)
    assert "waits: no daemon is running" in cancel(team, one, "--reason", "no need")
    cancel(team, other, by="user")
    with running(team):
        reason = team.fact("message_withdrawn", message=one)["reason"]
        assert reason == "cancelled by leader: no need"
        assert team.fact("message_withdrawn", message=other)["reason"] == "cancelled by user"
        told = team.until(lambda: [mail for mail in team.facts("message_queued", agent="leader") if _is_notice(mail)])
        assert [mail["in_reply_to"] for mail in told] == [other], "its own wish is no news to a sender"
        team.fact("message_completed", message=team.send("worker", "--from", "leader"))
        assert (tmp_path / "ran").read_text() == "ran\n"
        over = team.ackd("cancel", one, "--agent", "leader")
        assert (over.returncode, "nothing is left to cancel" in over.stderr) == (1, True)
        assert not list((team.root / "receipts").glob("*.json"))


def test_a_tree_is_cancelled_with_all_that_came_of_it(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER + '[agents.helper]\nendpoint = "inbox"\n')
    team.script("work", 'ackd send helper --in-reply-to "$ACKD_MESSAGE_ID" --body part; while :; do sleep 0.1; done')
    with running(team):
        root = team.send("worker", "--from", "leader")
        child = team.until(lambda: [one for one in team.facts("message_told") if one["agent"] == "helper"])[0]
        bystander = team.send("helper", "--from", "leader")
        cancel(team, root, "--tree")
        assert team.fact("message_dead", message=root)["end"] == "cancelled"
        dead = team.fact("message_dead", message=child["message_id"])
        assert dead["reason"] == f"cancelled by leader with {root}"
        team.fact("message_told", message=bystander)
        assert not team.facts("message_cancel", message=bystander)


def test_a_person_may_requeue_what_was_cancelled(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", STUBBORN)
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        team.until((tmp_path / "pid").exists)
        cancel(team, message_id)
        is_cancelled(team, message_id)
        team.script("work", "exit 0")
        assert team.ackd("dead", "requeue", message_id).returncode == 0
        team.fact("message_completed", message=message_id)


def test_a_crash_in_the_midst_of_a_cancellation_ends_the_command_that_went_on(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", STUBBORN)
    with running(team):
        message_id = team.send("worker", "--from", "leader")
        pid = int(team.written(tmp_path / "pid"))
        team.fact("message_told", message=message_id)  # else it is told anew after the crash
        os.kill(team.pid, signal.SIGSTOP)
        cancel(team, message_id)
        team.kill()
        assert alive(pid)
        team.start()
        is_cancelled(team, message_id)
        team.until(lambda: not alive(pid))
        assert len(team.facts("message_told", message=message_id)) == 1


# --- expiry and deadlines ---------------------------------------------------------------------------------------------
def test_what_nobody_has_in_hand_expires_and_its_sender_is_told(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + '[agents.worker]\nendpoint = "exec"\ncommand = ["./not-there"]\n')
    with running(team):
        message_id = team.send("worker", "--from", "leader", "--expires", "2s")
        dead = team.fact("message_dead", message=message_id)
        assert (dead["end"], dead["reason"].startswith("expired at ")) == ("expired", True)
        told = team.until(lambda: [one for one in team.facts("message_queued") if one["message_type"] == "dead_letter"])
        assert (told[0]["agent"], told[0]["in_reply_to"]) == ("leader", message_id)
        team.script("not-there", "exit 0")
        assert team.ackd("dead", "requeue", message_id).returncode == 0  # whoever requeues wants it delivered now
        team.fact("message_completed", message=message_id)


def test_what_expired_while_no_daemon_ran_is_never_delivered(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", "echo ran >>ran")
    past = team.post("worker", sender="leader", extra="X-ACKD-Expires: 2020-01-01T00:00:00Z\n")
    odd = team.post(
        "worker", sender="leader", extra="X-ACKD-Expires: tomorrow\nX-ACKD-Deadline: 2020-13-01T00:00:00Z\n"
    )
    with running(team):
        assert team.fact("message_dead", message=past)["end"] == "expired"
        team.fact("message_completed", message=odd)
        assert (tmp_path / "ran").read_text() == "ran\n"
        assert not team.facts("message_told", message=past)


def test_a_time_that_makes_no_sense_delays_nothing_and_is_said(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", "exit 0")
    with running(team):
        odd = team.post("worker", sender="leader", extra="X-ACKD-Deadline: soon\n")
        team.fact("message_completed", message=odd)
        warning = team.fact("message_warning", message=odd)["warning"]
        assert warning == "X-ACKD-Deadline is no time of RFC 3339 (2026-11-19T02:00:00Z): 'soon' is ignored"


@pytest.mark.parametrize("then", ["tell", "cancel"])
def test_a_missed_deadline_is_told_to_the_holder_before_and_to_a_leader_after(tmp_path: Path, then: str) -> None:
    agents = LEADER + '[agents.chief]\nendpoint = "inbox"\n[agents.worker]\nendpoint = "inbox"\n'
    team = Team(tmp_path, agents, top='escalate_to = "chief"\n', delivery=f'on_deadline = "{then}"\n')
    with running(team):
        limit_s = 5 * math.ceil(crowd())  # it must have been told before most of that is over
        message_id = team.send("worker", "--from", "leader", "--deadline", f"{limit_s}s")
        near = team.fact("deadline_near", message=message_id)
        assert near["how"] == "by mail"
        passed = team.fact("deadline_passed", message=message_id)
        assert (passed["then"], passed["state"]) == (then, "delivered")
        escalation = team.fact("escalation", message=message_id)
        assert (escalation["cause"], escalation["to"]) == ("deadline", "chief")
        if then == "cancel":
            dead = team.fact("message_dead", message=message_id)
            assert dead["end"] == "cancelled"
            assert str(dead["reason"]).startswith("cancelled by queue_monitor: its deadline, ")
        else:
            listed = json.loads(team.ackd("inbox", "worker", "--json").stdout)["messages"]
            assert [one["deadline"] for one in listed if one["message_id"] == message_id] != [None]
            assert team.ackd("done", message_id, "--agent", "worker").returncode == 0
            team.fact("message_completed", message=message_id)
            team.until(lambda: [one for one in team.facts("escalation_closed") if one["cause"] == "deadline"])
        team.stop()
        team.start()
        assert len(team.facts("escalation", message=message_id)) == 1


def test_deadlines_are_there_to_see(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER)
    with running(team):
        message_id = team.send("leader", "--deadline", "2h", "--expires", "3h")
        team.fact("message_told", message=message_id)
        (shown,) = team.status()["deadlines"]
        assert (shown["message_id"], shown["agent"], shown["state"]) == (message_id, "leader", "delivered")
        seen = f"due {shown['deadline']} and expires {shown['expires']}: {message_id} for leader, delivered\n"
        assert seen in team.ackd("status").stdout
        assert f"due {shown['deadline']}" in team.ackd("explain", message_id).stdout
        assert "X-ACKD-Deadline: " in team.ackd("read", message_id).stdout
        assert "in 1h" in team.ackd("inbox", "leader").stdout


# --- once ---------------------------------------------------------------------------------------------------------------
def test_the_same_key_and_content_is_one_message_wherever_it_has_come(tmp_path: Path) -> None:
    team = Team(tmp_path, LEADER + WORKER)
    team.script("work", "echo ran >>ran")
    first = team.send("worker", "--once", "deploy-7")
    assert team.send("worker", "--once", "deploy-7") == first  # in the queue
    said = team.ackd("send", "worker", "--once", "deploy-7", "--body", "hello")
    assert said.stdout == f"sent before: {first} for worker; nothing was sent again\n"
    with running(team):
        team.fact("message_completed", message=first)
        assert team.send("worker", "--once", "deploy-7") == first  # in the archive
        (archived,) = (team.root / "archive").rglob("*.mime")
        archived.unlink()
        assert team.send("worker", "--once", "deploy-7") == first  # nowhere: the daemon knows it by its id
        team.fact("message_duplicate", message=first)
        other = team.ackd("send", "worker", "--once", "deploy-7", "--body", "other")
        assert (other.returncode, "the key was used before for another message" in other.stderr) == (0, True)
        team.until(lambda: len(team.facts("message_completed")) == 2)
        assert (tmp_path / "ran").read_text() == "ran\nran\n"
