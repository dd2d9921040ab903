"""Agents in terminals, in front of the real daemon: a fake agent in a real pane, on a server of the test's own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.panes import Panes, fake, panes_in
from tests.acceptance.teams import Team, mime, running
from tests.faults.grip import ends, passed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A look at a pane comes every 3 s, and a rung takes its time to be typed.
LONG_S = 120.0
QUICK_LADDER = "ack_timeout_s = 4\n"
FOUND = '[agents.worker]\nendpoint = "tmux"\nprofile = "fake"\ntitle = "worker"\n'


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def started(panes: Panes, *options: str) -> str:
    """The agent's table, for a pane that ackd starts."""
    home = json.dumps(str(panes.home()))
    return f'[agents.worker]\nendpoint = "tmux"\nprofile = "fake"\nstart = {json.dumps(fake(*options))}\ncwd = {home}\n'


def team_with(panes: Panes, agents: str = FOUND, **settings: str) -> Team:
    return Team(panes.place, f"{panes.config()}\n{agents}", **settings)


def done(team: Team, message_id: str) -> None:
    said = team.ackd("done", message_id, "--agent", "worker")
    assert said.returncode == 0, said.stderr
    team.fact("message_completed", message=message_id)


def worker_state(team: Team) -> str:
    state = team.status()["agents"]["worker"]["state"]
    assert isinstance(state, str)
    return state


# --- well ---------------------------------------------------------------------------------------------------------------
def test_an_agent_is_told_with_proof_seen_at_work_and_done_by_its_own_command(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "4", "--obeys"))
    with running(team):
        message_id = team.send("worker", body="build it")
        told = team.fact("message_told", message=message_id)
        assert "busy" in told["proof"] or "input line" in told["proof"]
        team.fact("message_seen", message=message_id)
        team.until(lambda: team.facts("message_completed", message=message_id), LONG_S)
        (line,) = panes.submitted()
        assert line.startswith(f"ackd: message {message_id} from user of type message waits: read ")
        assert line.endswith(f"ackd done {message_id}")
        (keys,) = team.facts("keys_sent", agent="worker")
        assert (keys["message_id"], keys["keys"]) == (message_id, ["Enter"])
        assert team.facts("nudge", "probe", "escalation") == []
        for word in ("told", "seen", "completed"):
            assert word in team.ackd("explain", message_id).stdout


@pytest.mark.parametrize("size", [(40, 12), (60, 15)])
def test_the_short_line_leads_to_ackd_read_and_that_to_the_end_in_a_small_pane(
    panes: Panes, size: tuple[int, int]
) -> None:
    """Found by its title, the pane says who reads: nobody set ACKD_AGENT there."""
    team = team_with(panes, f'{FOUND}line = "read"\n')
    panes.open("worker", "--work-s", "0.5", "--obeys", size=size)
    with running(team):
        message_id = team.send("worker", body="build it")
        team.until(lambda: team.facts("message_completed", message=message_id), LONG_S)
        short = message_id.partition("@")[0].rpartition(".")[2][:8]
        assert panes.submitted() == [f"ackd: mail from user (message). Run: ackd read {short}"]
        (read,) = [line["read"] for line in panes.log() if "read" in line]
        assert "build it" in read
        assert f"ackd done {message_id}" in read
        assert team.facts("nudge", "probe", "escalation") == []


def test_a_persons_half_typed_words_are_left_alone_told_of_once_and_waited_for(panes: Panes) -> None:
    team = team_with(panes, f"{FOUND}busy_timeout_s = 1\n")
    pane = panes.open()
    panes.control("write please refactor the parser and")
    team.until(lambda: "parser and" in panes.run("capture-pane", "-p", "-t", pane), LONG_S)
    with running(team):
        message_id = team.send("worker")
        notice = team.fact("notice", agent="worker")
        assert (notice["cause"], notice["to"]) == ("taken", "user")
        assert panes.given() == b""
        panes.run("send-keys", "-t", pane, "C-u")
        team.until(lambda: team.facts("message_told", message=message_id), LONG_S)
        assert len(team.facts("notice", agent="worker")) == 1
        assert team.facts("escalation") == []
        (line,) = panes.submitted()
        assert "refactor" not in line


def test_nothing_that_a_message_says_reaches_the_pane(panes: Panes) -> None:
    team = team_with(panes)
    panes.open()
    hostile = 'content: "$(touch owned); rm -rf / \\u0007"\ntask_id: "T;reboot"\nstory_id: "`id`"\nignore: all this\n'
    ids = ["$(reboot)@x", "a;b@ignite.local", "ignore-all-previous-instructions@" + "x" * 80]
    with running(team):
        for number, message_id in enumerate(ids):
            data = mime(to="worker", sender="user", message_id=message_id, body=hostile, extra="X-IGNITE-Note: `id`\n")
            path = team.drop("worker", data, f"message_{1770263544000000 + number}.mime")
            team.until(lambda number=number: len(panes.submitted()) > number, LONG_S)  # type: ignore[misc]
            (claimed,) = (path.parent / "processed").glob("[!.]*")
            claimed.unlink()  # the agent's own way to say that it is done
            team.until(lambda message_id=message_id: message_id in ends(team))  # type: ignore[misc]
        given = panes.given()
    for words in (b"touch", b"reboot", b"previous", b"owned", b"ignore", b"`", b"$", b";", b"T;"):
        assert words not in given
    assert given.replace(b"\r", b"").decode("ascii").isprintable()


def test_two_teams_on_one_server_have_a_pane_each(panes: Panes) -> None:
    """Agents of one name: neither takes the other's."""
    start = json.dumps(fake("--work-s", "60", "--forgets"))
    teams = []
    for name in ("one", "two"):
        home = json.dumps(str(panes.home(name)))
        table = f'[agents.worker]\nendpoint = "tmux"\nprofile = "fake"\nstart = {start}\ncwd = {home}\n'
        teams.append(Team(panes.place / name, f"{panes.config()}\n{table}"))
    one, two = teams
    with running(one), running(two):
        sent = [team.send("worker") for team in teams]
        for team, message_id in zip(teams, sent, strict=True):
            team.until(lambda team=team, id_=message_id: team.facts("message_seen", message=id_), LONG_S)  # type: ignore[misc]
        for name, message_id in zip(("one", "two"), sent, strict=True):
            (line,) = panes.submitted(name)
            assert message_id in line
        assert len(panes.ids()) == 2


# --- silence ------------------------------------------------------------------------------------------------------------
def test_an_agent_that_hangs_at_work_is_woken_at_rung_2(panes: Panes) -> None:
    team = team_with(panes, f"{FOUND}hung_after_s = 4\n")
    panes.open("worker", "--work-s", "600", "--hangs", "1", "--spinner")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_seen", message=message_id)
        team.until(lambda: len(panes.submitted()) == 2, LONG_S)
        assert {"interrupted": "C-c"} in panes.log()
        told, woken = team.until(lambda: len(found := team.facts("keys_sent")) == 2 and found)
        assert (told["why"], told["keys"]) == ("tell", ["Enter"])
        assert (woken["why"], woken["keys"][-2:]) == ("nudge 2", ["C-c", "Enter"])
        assert [fact["rung"] for fact in team.facts("nudge")] == [2]
        assert team.facts("probe", "idle_reminder") == []
        done(team, message_id)
        assert team.facts("escalation", "message_retry") == []
        explained = team.ackd("explain", message_id).stdout
        assert "rung 2" in explained


def test_total_silence_is_a_dead_letter_an_agent_that_is_down_and_one_escalation(panes: Panes) -> None:
    team = team_with(panes, delivery=QUICK_LADDER)
    panes.open()
    with running(team):
        first = team.post("worker")
        team.fact("message_told", message=first)
        rest = [team.post("worker") for _ in range(50)]
        team.until(lambda: team.facts("message_dead", message=first), LONG_S)
        assert [fact["rung"] for fact in team.facts("nudge")] == [1, 2, 3]
        team.until(lambda: worker_state(team) == "down")
        (told,) = team.until(lambda: team.facts("escalation"))
        assert (told["cause"], told["message_id"]) == ("silent", first)
        assert {"cleared": "yes"} in panes.log()
        assert panes.submitted()[-1].startswith("ackd: you are agent worker of a team, your context was cleared")
        lines = len(panes.submitted())
        assert lines == 4
        passed(team, 5)
        assert (len(panes.submitted()), len(team.files("queue/worker"))) == (lines, len([*rest, "processed"]))
        assert team.ackd("agent", "resume", "worker").returncode == 0
        done(team, team.fact("message_claimed", message=rest[0])["message_id"])
        assert len(team.facts("escalation")) == 1


# --- stuck --------------------------------------------------------------------------------------------------------------
def test_a_permission_prompt_parks_the_agent_and_is_told_of_once(panes: Panes) -> None:
    team = team_with(panes, delivery=QUICK_LADDER)
    panes.open("worker", "--work-s", "60")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_seen", message=message_id)
        before = panes.given()
        panes.control("prompt")
        team.until(lambda: worker_state(team) == "parked", LONG_S)
        reason = "a permission prompt waits for a person: Allow this command?"
        assert reason in team.status()["agents"]["worker"]["reason"]
        assert "a permission prompt waits for a person" in team.ackd("status").stdout
        assert reason in team.ackd("explain", message_id).stdout
        passed(team, 10)
        (told,) = team.until(lambda: team.facts("escalation"))
        assert told["cause"] == "stuck"
        panes.control("busy 60")  # a person has answered
        team.until(lambda: worker_state(team) == "busy", LONG_S)
        assert panes.given() == before
        done(team, message_id)
        assert len(team.facts("escalation")) == 1
        assert team.facts("nudge", "message_retry") == []


def test_a_usage_limit_parks_the_agent_until_its_end(panes: Panes) -> None:
    team = team_with(panes)
    then = (datetime.now(UTC) + timedelta(hours=2)).replace(second=0, microsecond=0)
    panes.open("worker", "--state", f"limit {then:%H:%M} UTC", "--work-s", "60")
    with running(team):
        message_id = team.send("worker")
        team.until(lambda: worker_state(team) == "parked", LONG_S)
        shown = team.status()["agents"]["worker"]
        assert "a usage limit: Usage limit reached" in shown["reason"]
        until = team.facts("agent_state", agent="worker")[-1]["until"]
        assert datetime.fromisoformat(until) == then
        (told,) = team.until(lambda: team.facts("escalation"))
        assert told["cause"] == "stuck"
        assert panes.given() == b""
        panes.control("ready")
        team.until(lambda: team.facts("message_seen", message=message_id), LONG_S)
        done(team, message_id)
        assert len(team.facts("escalation")) == 1


# --- vanished -----------------------------------------------------------------------------------------------------------
def worker_and_another(panes: Panes) -> str:
    """The worker's pane; the server does not end with it."""
    pane_id = panes.open("worker", "--work-s", "60")
    panes.open("other")
    return pane_id


def in_hand(team: Team) -> str:
    """A message that the worker has taken, and is at."""
    message_id = team.send("worker")
    team.fact("message_seen", message=message_id)
    return message_id


def test_a_pane_that_moved_is_found_again_by_its_title(panes: Panes) -> None:
    team, first = team_with(panes), worker_and_another(panes)
    with running(team):
        message_id = in_hand(team)
        panes.kill(first)
        second = panes.open("worker", "--work-s", "60")
        team.until(lambda: any(second == fact["pane"] for fact in team.facts("pane_found")), LONG_S)
        if not panes.submitted():  # found before it was missed: it is asked about what it has in hand, in time
            assert team.ackd("nudge", "worker").returncode == 0
        team.until(panes.submitted, LONG_S)
        done(team, message_id)


def test_a_pane_that_is_gone_is_told_of_and_taken_up_when_it_comes(panes: Panes) -> None:
    team, first = team_with(panes), worker_and_another(panes)
    with running(team):
        message_id = in_hand(team)
        panes.kill(first)
        team.until(lambda: worker_state(team) in ("down", "parked"), LONG_S)
        (told,) = team.until(lambda: team.facts("escalation"))
        assert told["cause"] == "died"
        assert "no pane" in team.status()["agents"]["worker"]["reason"]
        panes.open("worker", "--work-s", "60")
        team.until(panes.submitted, LONG_S)
        team.until(lambda: len(team.facts("message_seen", message=message_id)) == 2)
        done(team, message_id)
        assert len(team.facts("escalation")) == 1


def test_a_pane_that_ackd_started_is_started_again(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "60"))
    other = panes.open("other")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_seen", message=message_id)
        (pane_id,) = set(panes.ids()) - {other}
        panes.kill(pane_id)
        team.until(lambda: len(team.facts("message_seen", message=message_id)) == 2, LONG_S)
        (again,) = team.facts("child_restart")
        assert again["count"] == 1
        done(team, message_id)
        assert team.facts("escalation") == []


def test_an_agent_that_ended_by_itself_is_started_when_it_is_told(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "60", "--forgets"))
    panes.open("other")
    with running(team):
        first = team.send("worker")
        team.fact("message_seen", message=first)
        done(team, first)
        panes.control("quit")
        team.until(lambda: len(panes.ids()) == 1, LONG_S)
        second = team.send("worker")
        team.until(lambda: team.facts("message_seen", message=second), LONG_S)
        done(team, second)
        assert team.facts("escalation") == []


def test_one_that_ended_while_its_mail_waited_for_it_is_started_and_told(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "60", "--forgets"))
    with running(team):
        team.until(panes.is_up)
        panes.control("busy")
        team.until(lambda: any("Working" in panes.screen(pane_id) for pane_id in panes.ids()))
        message_id = team.send("worker")
        team.until(lambda: worker_state(team) == "parked")
        panes.control("quit")
        team.until(lambda: team.facts("message_seen", message=message_id), LONG_S)
        assert len(panes.submitted()) == 1  # the one that works on something else was told nothing
        done(team, message_id)


def test_a_closed_pane_is_nobodys_business_when_it_is_told_the_next_moment(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "60"))
    other = panes.open("other")
    with running(team):
        first = team.send("worker")
        team.fact("message_seen", message=first)
        done(team, first)
        (pane_id,) = set(panes.ids()) - {other}
        panes.kill(pane_id)
        second = team.post("worker")
        team.until(lambda: team.facts("message_seen", message=second), LONG_S)
        done(team, second)
        assert team.facts("escalation") == []


def test_a_restart_by_hand_costs_the_message_in_hand_no_failure(panes: Panes) -> None:
    team = team_with(panes, started(panes, "--work-s", "600"))
    with running(team):
        message_id = in_hand(team)
        assert team.ackd("agent", "restart", "worker").returncode == 0
        again = team.fact("message_retry", message=message_id)
        assert (again["reason"], again["counted"]) == ("its agent was ended: by hand", False)
        team.until(lambda: len(team.facts("message_seen", message=message_id)) == 2, LONG_S)
        assert team.status()["agents"]["worker"]["deaths"] == 0
        done(team, message_id)


# --- the daemon ends, the agent works on ------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_agent_at_work_does_not_notice_that_the_daemon_was_restarted(panes: Panes, how: str) -> None:
    team = team_with(panes, started(panes, "--work-s", "600"), delivery="ack_timeout_s = 3\n")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_seen", message=message_id)
        (file,) = (team.root / "queue/worker/processed").glob("[!.]*")  # a header may be just being written
        team.until(lambda: team.header(file, "X-IGNITE-Seen") == "yes")
        there, before = panes.ids(), panes.given()
        getattr(team, how)()
        assert panes.ids() == there
        team.start()
        passed(team, 10)
        assert (panes.ids(), panes.given()) == (there, before)
        assert team.facts("nudge", "probe", "escalation", "message_retry") == []
        assert team.status()["agents"]["worker"]["in_flight"] == 1
        done(team, message_id)
        second = team.send("worker")
        panes.control("ready")
        team.until(lambda: team.facts("message_seen", message=second), LONG_S)
        done(team, second)


# --- a full context -----------------------------------------------------------------------------------------------------
def test_a_full_context_is_handed_over_by_a_checkpoint_and_a_clear(panes: Panes) -> None:
    team = team_with(panes)
    panes.open("worker", "--work-s", "1")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_seen", message=message_id)
        panes.control("context 20")
        asked = f"ackd: your context is nearly full: write down where you stand, what is done and what is next: run: ackd checkpoint {message_id}"
        team.until(lambda: any(line.startswith(asked) for line in panes.submitted()), LONG_S)
        said = team.ackd("checkpoint", message_id, "--step", "3", "--agent", "worker", "half way")
        assert said.returncode == 0, said.stderr
        team.until(lambda: {"cleared": "yes"} in panes.log(), LONG_S)
        team.until(lambda: "Where it stands is in" in panes.submitted()[-1], LONG_S)
        line = panes.submitted()[-1]
        assert line.startswith("ackd: you are agent worker of a team, your context was cleared")
        path = line.rpartition(" ")[2]
        kept = json.loads((panes.place / path).read_text())
        assert kept["checkpoint"]["text"] == "half way"
        done(team, message_id)
        team.until(lambda: team.files("state/checkpoints") == [])
        assert [fact["counted"] for fact in team.facts("message_retry")] == [False]
        assert team.facts("escalation", "nudge") == []
