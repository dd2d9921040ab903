"""The config is changed while the real daemon runs: who comes, who goes, who becomes another, and who must not notice."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.panes import Panes, panes_in
from tests.acceptance.teams import Team, running
from tests.acceptance.test_lifecycle import heeding_a_hangup
from tests.acceptance.test_tmux_agents import done as says_done
from tests.acceptance.test_tmux_agents import started
from tests.acceptance.workers import agent as process
from tests.acceptance.workers import notes, sdk
from tests.faults.grip import alive
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Waits until the test lets it go, and writes down whom it served.
WAITER = 'echo "$1 begins" >>notes\nwhile [ ! -e "go-$1" ]; do sleep 0.02; done\necho "$1 ends" >>notes'
STEPS = """
def work(task):
    for step in task.steps("abcd"):
        note(step)
        until(f"{step}-may-end")
"""


def command(name: str, *words: str, more: str = "") -> str:
    return f'[agents.{name}]\nendpoint = "exec"\ncommand = {json.dumps(words)}\n{more}\n'


def reload(team: Team, agents: str) -> dict[str, Any]:
    """Change the config, have it read again, and return the answer."""
    team.write_config(agents)
    done = team.ackd("reload", "--json")
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)["reloaded"]
    return {key: value for key, value in said.items() if value}


def kind_of(team: Team, name: str) -> str:
    kind = team.status()["agents"][name]["endpoint"]
    assert isinstance(kind, str)
    return kind


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


# --- who comes, who goes ----------------------------------------------------------------------------------------------
def test_an_agent_that_is_added_is_served_and_the_others_go_on(tmp_path: Path) -> None:
    team = Team(tmp_path, process("worker"))
    sdk(team, "def work(task): note('done')")
    with running(team):
        pid = team.fact("child_started", agent="worker")["pid"]
        assert reload(team, process("worker") + command("new", "true")) == {"added": ["new"]}
        team.fact("message_completed", message=team.send("new"))
        team.fact("message_completed", message=team.send("worker"))
        assert [each["pid"] for each in team.facts("child_started", agent="worker")] == [pid]
        (said,) = team.facts("config_reloaded")
        assert (said["by"], said["added"]) == ("user", ["new"])
        assert team.status()["daemon"]["config_hash"] == said["config_hash"]


def test_a_run_of_a_command_that_is_removed_finishes_and_its_mail_stays_as_an_inboxs(tmp_path: Path) -> None:
    team = Team(tmp_path, command("worker", "./waiter", "old", more="max_in_flight = 1"))
    team.script("waiter", WAITER)
    with running(team):
        first = team.send("worker")
        team.until(lambda: notes(team)[:1])
        second = team.send("worker")
        team.fact("message_queued", message=second)
        assert reload(team, "") == {"removed": ["worker"], "waiting": ["worker"], "mail": {"worker": 2}}
        assert team.status()["daemon"]["config"]["removed"] == {"worker": 2}
        assert not team.facts("message_claimed", message=second)
        (team.place / "go-old").touch()
        team.fact("message_completed", message=first)
        assert "placed in the inbox" in team.fact("message_told", message=second)["proof"]
        assert kind_of(team, "worker") == "inbox"
        assert team.ackd("done", second, "--agent", "worker").returncode == 0
        team.fact("message_completed", message=second)
        team.until(lambda: "removed" not in team.status()["daemon"]["config"])
        assert notes(team) == ["old", "begins", "old", "ends"]


def test_a_process_that_is_removed_writes_down_where_it_stands_and_ends(tmp_path: Path) -> None:
    team = Team(tmp_path, process("worker"))
    sdk(team, STEPS)
    with running(team):
        message_id = team.send("worker")
        pid = team.fact("child_started", agent="worker")["pid"]
        team.until(lambda: notes(team) == ["a"])
        assert reload(team, "")["removed"] == ["worker"]
        (team.place / "a-may-end").touch()
        retry = team.fact("message_retry", message=message_id)
        assert not retry["counted"]
        team.fact("endpoint_replaced", agent="worker")
        assert not alive(pid)
        assert (
            "placed in the inbox" in team.until(lambda: team.facts("message_told", message=message_id)[1:])[0]["proof"]
        )
        assert [*(team.root / "state/checkpoints").iterdir()]
        assert not team.facts("escalation")
        # Back in the file, it goes on from there with what nobody has read meanwhile.
        assert reload(team, process("worker"))["added"] == ["worker"]
        for step in "bcd":
            (team.place / f"{step}-may-end").touch()
        team.fact("message_completed", message=message_id)
        assert notes(team) == [*"abcd"]


def serve_one(team: Team) -> None:
    """Have the agent in its pane told of a message, which it completes."""
    message_id = team.send("worker")
    team.fact("message_told", message=message_id)
    says_done(team, message_id)


def panes_there(panes: Panes) -> list[str]:
    return panes.run("list-panes", "-a", "-F", "#{pane_id} #{pane_pid}").splitlines()


def test_a_pane_that_is_removed_is_left_to_whoever_works_in_it(panes: Panes) -> None:
    team = Team(panes.place, f"{panes.config()}\n{started(panes, '--work-s', '0')}")
    with running(team):
        serve_one(team)
        before = panes_there(panes)
        assert reload(team, panes.config())["removed"] == ["worker"]
        team.fact("endpoint_replaced", agent="worker")
        waits = team.send("worker")
        assert "placed in the inbox" in team.fact("message_told", message=waits)["proof"]
        assert panes_there(panes) == before


# --- who becomes another ----------------------------------------------------------------------------------------------
def test_a_command_is_another_from_its_next_message_and_the_run_before_goes_on(tmp_path: Path) -> None:
    team = Team(tmp_path, command("worker", "./waiter", "old", more="max_in_flight = 2"))
    team.script("waiter", WAITER)
    with running(team):
        first = team.send("worker")
        team.until(lambda: notes(team)[:1])
        changed = command("worker", "./waiter", "new", more="max_in_flight = 2")
        assert reload(team, changed) == {"changed": ["worker"]}
        (team.place / "go-new").touch()
        team.fact("message_completed", message=team.send("worker"))
        (team.place / "go-old").touch()
        team.fact("message_completed", message=first)
        assert notes(team) == ["old", "begins", "new", "begins", "new", "ends", "old", "ends"]


def test_a_process_is_another_when_it_has_nothing_in_hand(tmp_path: Path) -> None:
    team = Team(tmp_path, process("worker", more='env = { WORD = "old" }'))
    sdk(team, "import os\ndef work(task):\n    until('go')\n    note(os.environ['WORD'])")
    with running(team):
        first = team.send("worker")
        team.fact("message_seen", message=first)
        said = reload(team, process("worker", more='env = { WORD = "new" }'))
        assert said == {"changed": ["worker"], "waiting": ["worker"]}
        assert team.status()["daemon"]["config"]["waiting"] == ["worker"]
        second = team.send("worker")
        (team.place / "go").touch()
        for message_id in (first, second):
            team.fact("message_completed", message=message_id)
        assert notes(team) == ["old", "new"]
        assert len(team.facts("child_started", agent="worker")) == 2
        assert not team.facts("message_retry", "escalation")


def test_numbers_hold_at_once_and_start_nothing_again(tmp_path: Path) -> None:
    team = Team(tmp_path, process("worker"))
    sdk(team, "def work(task): until('go')")
    with running(team):
        messages = [team.send("worker") for _ in range(2)]
        team.fact("message_seen", message=messages[0])
        assert not team.facts("message_claimed", message=messages[1])
        assert reload(team, process("worker", more="max_in_flight = 2")) == {"changed": ["worker"]}
        team.fact("message_told", message=messages[1])
        (team.place / "go").touch()
        for message_id in messages:
            team.fact("message_completed", message=message_id)
        assert len(team.facts("child_started", agent="worker")) == 1


def test_another_kind_of_endpoint_takes_over_what_nobody_has_read(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.worker]\n")
    with running(team):
        message_id = team.send("worker")
        team.fact("message_told", message=message_id)
        reload(team, command("worker", "true"))
        team.fact("message_completed", message=message_id)
        assert kind_of(team, "worker") == "exec"


def test_a_pane_that_ackd_started_is_opened_anew_with_another_command(panes: Panes) -> None:
    team = Team(panes.place, f"{panes.config()}\n{started(panes, '--work-s', '0')}")
    with running(team):
        serve_one(team)
        (before,) = panes_there(panes)
        reload(team, f"{panes.config()}\n{started(panes, '--work-s', '0.1')}")
        team.fact("endpoint_replaced", agent="worker")
        serve_one(team)
        (after,) = panes_there(panes)
        assert after != before


def test_a_paused_agent_stays_paused(tmp_path: Path) -> None:
    team = Team(tmp_path, command("worker", "true"))
    with running(team):
        assert team.ackd("agent", "pause", "worker").returncode == 0
        waits = team.send("worker")
        reload(team, process("worker"))
        sdk(team, "def work(task): note('done')")
        team.fact("endpoint_replaced", agent="worker")
        assert team.status()["agents"]["worker"]["state"] == "paused"
        assert not team.facts("message_claimed", message=waits)
        assert team.ackd("agent", "resume", "worker").returncode == 0
        team.fact("message_completed", message=waits)


def test_members_of_a_pool_come_and_go_and_what_one_had_is_handed_back(tmp_path: Path) -> None:
    old, new = command("old", "./waiter", "old"), command("new", "./waiter", "new")
    team = Team(tmp_path, f'{old}[pools.crew]\nmembers = ["old"]')
    team.script("waiter", f"{WAITER}\nexit $(cat code-$1 2>/dev/null || echo 0)")
    with running(team):
        message_id = team.send("crew")
        team.until(lambda: notes(team)[:1])
        (team.place / "code-old").write_text("75")
        said = reload(team, f'{old}{new}[pools.crew]\nmembers = ["new"]')
        assert said == {"added": ["new"], "changed": ["crew"]}
        (team.place / "go-new").touch()
        (team.place / "go-old").touch()
        team.fact("message_handed_back", message=message_id)
        assert team.fact("message_completed", message=message_id)["agent"] == "new"


def test_a_group_goes_by_its_new_members(tmp_path: Path) -> None:
    both = "[agents.a]\n[agents.b]\n"
    team = Team(tmp_path, f'{both}[groups]\nall = ["a"]')
    with running(team):
        assert reload(team, f'{both}[groups]\nall = ["a", "b"]') == {"changed": ["all"]}
        team.post("all")
        team.fact("message_queued", agent="b")
        assert reload(team, both) == {"removed": ["all"]}
        assert kind_of(team, "all") == "inbox"


# --- what is refused, what is not live --------------------------------------------------------------------------------
def test_a_config_that_is_not_right_changes_nothing_and_says_why(tmp_path: Path) -> None:
    good = command("worker", "true")
    team = Team(tmp_path, good)
    with running(team):
        before = team.status()["daemon"]["config_hash"]
        team.write_config(f'{good}[agents.clerk]\nendpoint = "handler"\nhandler = "no-such-handler"\n')
        done = team.ackd("reload")
        assert done.returncode == 78
        assert "no-such-handler" in done.stderr
        team.write_config(f"{good}[agents.worker]\n")
        done = team.ackd("reload")
        assert (done.returncode, done.stdout) == (78, "")
        assert "not TOML" in done.stderr
        assert len(team.facts("config_refused")) == 2
        assert "not TOML" in team.status()["daemon"]["config"]["refused"]["problems"][0]
        assert team.status()["daemon"]["config_hash"] == before
        team.fact("message_completed", message=team.post("worker"))
        assert reload(team, good) == {}
        assert "refused" not in team.status()["daemon"]["config"]


def test_what_is_not_live_is_named_and_keeps_its_value(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.worker]\n")
    with running(team):
        top = 'root = ".elsewhere"\narchive_days = 7\n[delivery]\ndurability = "process"\n[watch]\nmode = "polling"\n'
        team.write_config("[agents.worker]\n[bus]\n", common=top)
        done = team.ackd("reload", "--json", "--root", str(team.root))
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)["reloaded"]
        assert said["not_live"] == ["root", "delivery.durability", "watch.mode", "bus"]
        assert "archive_days" in said["settings"]
        assert team.status()["daemon"]["watch"] == "inotify"
        words = team.ackd("status", "--root", str(team.root)).stdout
        assert "delivery.durability" in words
        assert not (team.place / ".elsewhere").exists()


def test_while_the_file_differs_status_check_and_send_say_so(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.worker]\n")
    with running(team):
        assert "ackd reload" not in team.ackd("send", "worker", "--body", "x").stderr
        team.write_config("[agents.worker]\nmax_in_flight = 3\n")
        assert "ackd reload" in team.ackd("send", "worker", "--body", "x").stderr
        assert "ackd reload" in team.ackd("status").stdout
        assert "ackd reload" in team.ackd("check").stdout
        assert team.ackd("reload").returncode == 0
        for words in (["send", "worker", "--body", "x"], ["status"], ["check"]):
            done = team.ackd(*words)
            assert "ackd reload" not in done.stdout + done.stderr
        (team.place / "ackd.toml").touch()
        assert "ackd reload" not in team.ackd("status").stdout, "the same bytes are the same file"


def test_without_a_daemon_there_is_nothing_to_ask(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.worker]\n")
    assert team.ackd("reload").returncode == 69


# --- who asks ---------------------------------------------------------------------------------------------------------
def test_a_hangup_reloads_where_no_terminal_has_hung_up(tmp_path: Path) -> None:
    team = Team(tmp_path, "")
    with heeding_a_hangup(), running(team):
        team.write_config(command("new", "true"))
        assert team.process is not None
        team.process.send_signal(signal.SIGHUP)
        assert team.fact("config_reloaded")["by"] == "SIGHUP"
        team.fact("message_completed", message=team.send("new"))
        assert not team.facts("session_end")


def test_a_terminal_that_hangs_up_ends_it_and_one_that_is_there_does_not(tmp_path: Path) -> None:
    """The daemon in the foreground of a terminal: a HUP that somebody sends is a reload, its terminal's end its own."""
    team = Team(tmp_path, "")
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.chdir(team.place)
        os.execve(sys.executable, [sys.executable, "-m", "ackd", "run"], team.environment)
    try:
        team.until(lambda: team.status_pid() == pid)
        team.write_config(command("new", "true"))
        os.kill(pid, signal.SIGHUP)
        team.fact("config_reloaded")
        os.close(terminal)
        assert team.fact("session_end")["reason"] == "SIGHUP"
    finally:
        subprocess.run(["kill", "-TERM", str(pid)], check=False, capture_output=True)
        os.waitpid(pid, 0)


def test_the_file_is_read_again_by_itself_where_that_is_wanted(tmp_path: Path) -> None:
    watched = f"[delivery]\n{'backoff_base_s = 0.05'}\n[watch]\nsettle_s = 0.1\n[daemon]\nwatch_config = true\n"
    team = Team(tmp_path, "", quick="[watch]\nsettle_s = 0.1\n[daemon]\nwatch_config = true\n")
    with running(team):
        (team.place / "ackd.toml").touch()
        team.write_config(command("new", "true"), common=watched)
        assert team.fact("config_reloaded") == {**team.fact("config_reloaded"), "by": "the file has changed"}
        assert len(team.facts("config_reloaded")) == 1
        team.fact("message_completed", message=team.send("new"))
        half = (team.place / "ackd.toml").read_text() + "[agents.newer]\nendpoint = "
        (team.place / "ackd.toml").write_text(half)
        team.fact("config_refused")
        with (team.place / "ackd.toml").open("a") as writer:
            writer.write('"exec"\ncommand = ["true"]\n')
            writer.flush()
            waits = team.send("new")
            team.fact("message_completed", message=waits)
            writer.write("max_in_flight = 1\n")
        assert team.until(lambda: team.facts("config_reloaded")[1:])[0]["added"] == ["newer"]
        assert team.until(lambda: team.facts("config_reloaded"))[-1].get("not_live") is None


# --- crashes, storms --------------------------------------------------------------------------------------------------
def test_killed_right_after_a_reload_was_asked_for_the_next_start_serves_the_file(tmp_path: Path) -> None:
    team = Team(tmp_path, command("old", "./waiter", "old"))
    team.script("waiter", WAITER)
    with running(team):
        first = team.send("old")
        team.until(lambda: notes(team)[:1])
        waits = team.send("old")
        team.write_config(command("new", "true"))
        assert team.ackd("reload", "--no-wait").returncode == 0
        team.kill()
        (team.place / "go-old").touch()
        team.start()
        team.fact("message_completed", message=team.send("new"))
        team.until(lambda: kind_of(team, "old") == "inbox")
        for message_id in (first, waits):
            team.fact("message_told", "message_completed", message=message_id)
        team.until(lambda: not list((team.root / "receipts").iterdir()))


MESSAGES = 1000
RELOADS = 50


def storm_config(chance: random.Random, number: int) -> str:
    """One more config of the storm: one steady agent, one that changes its command, numbers or kind, some that come and
    go, and a pool whose members do."""
    tables = [command("steady", "true", more="max_in_flight = 4")]
    words = ("sh", "-c", f"exit 0 # {number}")
    tables.append(command("shifting", *words) if chance.random() < 0.7 else "[agents.shifting]\n")
    comers = [f"comer-{one}" for one in range(4) if chance.random() < 0.6]
    tables += [command(one, "true", more=f"retry_limit = {chance.randint(1, 5)}") for one in comers]
    members = ["steady", *comers[:2]]
    tables.append(f"[pools.crew]\nmembers = {json.dumps(members)}\n")
    return "".join(tables)


def test_a_storm_of_reloads_among_a_thousand_messages_loses_none(tmp_path: Path) -> None:
    """50 reloads that add, change and remove agents, two of them bad, while 1,000 messages flow: all accounted for."""
    chance = random.Random(21)
    everybody = "".join(command(f"comer-{one}", "true") for one in range(4))
    first = command("steady", "true", more="max_in_flight = 4") + command("shifting", "true") + everybody
    team = Team(tmp_path, f'{first}[pools.crew]\nmembers = ["steady"]\n', delivery='durability = "process"\n')
    names = ["steady", "steady", "shifting", "crew", *(f"comer-{one}" for one in range(4))]
    sent: list[str] = []
    with running(team):
        for number in range(RELOADS):
            for _ in range(MESSAGES // RELOADS):
                to = chance.choice(names)
                number_of = len(sent)
                sent.append(team.post(to, message_id=f"1770263544.{number_of}.abcdef@ignite.local"))
            if number in (13, 37):
                team.write_config("[agents.steady]\nendpoint = 7\n")
                assert team.ackd("reload").returncode == 78
                continue
            team.write_config(storm_config(chance, number))
            assert team.ackd("reload").returncode == 0
        assert len(team.facts("config_reloaded")) == RELOADS - 2
        assert len(team.facts("config_refused")) == 2
        # At last everybody is there, and whatever lies in an inbox is taken over by its command.
        reload(team, f'{first}[pools.crew]\nmembers = ["steady", "comer-1"]\n')
        team.until(lambda: len(team.facts("message_completed", "message_dead")) >= MESSAGES, 4 * PATIENCE_S)
        ended = [each["message_id"] for each in team.facts("message_completed")]
        assert sorted(ended) == sorted(sent), "each once"
        assert not team.facts("message_dead", "escalation")
        assert not [*(team.root / "queue").rglob("*.mime")]
