"""`ackd service` and `ackd stop` under a real systemd, as a service of a person's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.system_manager.conftest import ACKD, ON_ONE_MACHINE, PERSON, VISITOR, Team

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system_manager.machine import Machine

pytestmark = ON_ONE_MACHINE

#: An agent whose run lasts until the test lets it end, and that writes down each of its runs.
HELD = """
[agents.worker]
endpoint = "exec"
command = ["sh", "-c", "echo run >> runs; until [ -e go ]; do sleep 0.1; done"]
"""
PLAIN = '\n[agents.worker]\nendpoint = "exec"\ncommand = ["sh", "-c", "cat >> got"]\n'


@pytest.fixture
def team(machine: Machine) -> Iterator[Callable[..., Team]]:
    made: list[Team] = []

    def make(name: str, agents: str = PLAIN) -> Team:
        made.append(Team(machine, f"{machine.home(PERSON)}/{name}", agents, user=PERSON))
        return made[-1]

    yield make
    for one in made:
        one.gone()


def files_of(machine: Machine, user: str) -> set[str]:
    """All paths in a home, except the journals and sockets of running programs."""
    return set(machine.run("find", machine.home(user), user=user).stdout.splitlines())


def test_install_says_each_thing_and_uninstall_leaves_nothing(machine: Machine, team: Callable[..., Team]) -> None:
    one, two = team("one project"), team("two%20")
    before = files_of(machine, PERSON)

    planned = one.service("install", "--dry-run").stdout
    assert f"would write {machine.home(PERSON)}/.config/systemd/user/{one.unit}" in planned
    assert files_of(machine, PERSON) == before

    said = one.service("install").stdout
    assert said.replace("wrote", "would write").replace("ran", "would run") == planned
    assert f"ran systemctl --user start {one.unit}" in said
    # `systemctl start` has returned: it watches now.
    status = one.status()
    assert (status["daemon"]["pid"], status["daemon"]["watch"]) == (one.pid, "inotify")
    assert one.shown("ActiveState", "StatusText") == {
        "ActiveState": "active",
        "StatusText": "1 agent, 0 queued, 0 dead; watching by inotify",
    }
    shown = json.loads(one.service("status", "--json").stdout)
    assert (shown["runs"], shown["enabled"], shown["scope"], shown["pid"]) == (True, True, "user", one.pid)
    assert "1 agent, 0 queued, 0 dead" in one.service("status").stdout
    one.send("worker", "--wait", "completed")
    assert "hello" in one.read("got")

    one.ackd("agent", "pause", "worker")
    one.send("worker")
    one.until(lambda: "1 agent, 1 queued, 0 dead" in one.shown("StatusText")["StatusText"], "the queued message")
    one.ackd("agent", "resume", "worker")
    one.until(lambda: "1 agent, 0 queued, 0 dead" in one.shown("StatusText")["StatusText"], "its delivery")
    assert f"started, pid {one.pid}, on" in one.service("logs").stdout

    pid = one.pid
    again = one.service("install").stdout
    assert "wrote" not in again
    assert "ran " not in again
    assert one.pid == pid
    pages = machine.run("man", "--where", "--manpath", f"{machine.home(PERSON)}/.local/share/man", "ackd", user=PERSON)
    assert pages.stdout.strip().endswith("/.local/share/man/man1/ackd.1")
    completing = "source ~/.local/share/bash-completion/completions/ackd; complete -p ackd"
    assert "ackd" in machine.run("bash", "-c", completing, user=PERSON).stdout

    # Another team of the same person: neither knows of the other.
    two.service("install")
    two.send("worker", "--wait", "completed")
    assert two.pid != one.pid
    two.service("uninstall")
    assert one.pid == pid
    one.send("worker", "--wait", "completed")
    assert two.service("status", check=False).returncode == 66

    removed = one.service("uninstall", "--json")
    assert {step["what"] for step in json.loads(removed.stdout)["steps"]} == {"ran", "removed"}
    left = files_of(machine, PERSON) - before
    own = (f"{one.place}/", f"{two.place}/")
    assert {path for path in left if not path.startswith(own)} == set()
    assert (
        machine.run("systemctl", "--user", "list-units", "--all", "--plain", "ackd*", user=PERSON).stdout.count("ackd@")
        == 0
    )
    assert "is not installed" in one.service("uninstall").stdout


def test_an_edited_unit_is_not_overwritten_without_being_told(machine: Machine, team: Callable[..., Team]) -> None:
    one = team("edited")
    one.service("install", "--no-start")
    assert one.shown("ActiveState", "UnitFileState") == {"ActiveState": "inactive", "UnitFileState": "enabled"}
    path = f"{machine.home(PERSON)}/.config/systemd/user/{one.unit}"
    mine = machine.path(path).read_text().replace("RestartSec=1", "RestartSec=7")
    machine.write(path, mine, user=PERSON)

    for words in (["install"], ["uninstall"]):
        refused = one.service(*words, check=False)
        assert refused.returncode == 1
        assert "has been edited" in refused.stderr
        assert machine.path(path).read_text() == mine
    forced = one.service("install", "--no-start", "--force").stdout
    assert f"{path}.bak" in forced
    assert machine.path(f"{path}.bak").read_text() == mine
    assert "RestartSec=1" in machine.path(path).read_text()


def test_a_daemon_that_hangs_or_is_killed_is_started_again_and_goes_on(
    machine: Machine, team: Callable[..., Team]
) -> None:
    one = team("killed", HELD)
    one.service("install")
    # Sooner than after a minute; a drop-in is how a person changes a unit.
    drop_in = f"{machine.home(PERSON)}/.config/systemd/user/{one.unit}.d/sooner.conf"
    machine.write(drop_in, "[Service]\nWatchdogSec=10\nTimeoutAbortSec=1\n", user=PERSON)
    one.systemctl("daemon-reload")
    one.service("restart")
    one.send("worker")
    one.until(lambda: one.read("runs") == "run\n", "the run")
    one.until(lambda: one.status()["totals"]["in_flight"] == 1, "the page")

    first = one.pid
    machine.run("kill", "-KILL", str(first))
    one.until(lambda: one.pid not in (0, first) and one.shown("ActiveState")["ActiveState"] == "active", "a restart")
    second = one.pid
    assert one.lines("session_start")[-1]["data"]["recovered"]["runs"] == 1
    machine.run("kill", "-STOP", str(second))
    one.until(
        lambda: one.pid not in (0, second) and one.shown("ActiveState")["ActiveState"] == "active", "the watchdog"
    )
    assert (
        "watchdog"
        in machine.run("journalctl", "--no-pager", f"_UID={machine.uid(PERSON)}", "-g", "atchdog").stdout.lower()
    )

    one.write("go", "")
    one.until(lambda: one.lines("message_completed"), "the end of the adopted run")
    assert one.read("runs") == "run\n"
    assert one.shown("NRestarts")["NRestarts"] == "2"
    one.service("uninstall")


def test_stop_lets_runs_finish_says_whose_and_systemd_does_not_start_it_again(
    machine: Machine, team: Callable[..., Team]
) -> None:
    one = team("stopped", HELD)
    one.service("install")
    one.send("worker")
    one.until(lambda: one.read("runs") == "run\n", "the run")
    late = one.ackd("stop", "--timeout", "0.5", check=False)
    assert late.returncode == 75
    assert "is still stopping" in late.stderr
    one.until(lambda: one.lines("session_stopping"), "the line")
    assert one.shown("ActiveState", "StatusText") == {
        "ActiveState": "deactivating",
        "StatusText": "stopping: letting running deliveries finish",
    }
    one.write("go", "")
    one.until(lambda: one.shown("ActiveState")["ActiveState"] == "inactive", "the end")
    assert one.shown("Result", "NRestarts") == {"Result": "success", "NRestarts": "0"}
    assert one.lines("message_completed")

    machine.run("rm", f"{one.place}/go")
    one.service("restart")
    one.send("worker")
    one.until(lambda: one.read("runs") == "run\nrun\n", "the second run")
    stopped = one.ackd("stop", "--now", "--json")
    found = json.loads(stopped.stdout)
    assert (found["unit"], found["is_users"]) == (one.unit, True)
    one.until(lambda: one.shown("ActiveState")["ActiveState"] == "inactive", "the end")
    assert one.shown("Result", "NRestarts") == {"Result": "success", "NRestarts": "0"}
    one.write("go", "")
    one.service("restart")
    one.until(lambda: len(one.lines("message_completed")) == 2, "the run that went on")
    assert one.read("runs") == "run\nrun\n"
    assert one.ackd("stop").returncode == 0
    assert one.ackd("stop", check=False).returncode == 69


def test_a_service_is_ready_only_when_it_serves_the_root_itself(machine: Machine, team: Callable[..., Team]) -> None:
    one = team("by hand")
    by_hand = machine.start(ACKD, "run", "--quiet", user=PERSON, cwd=one.place)
    try:
        one.until(lambda: one.status()["daemon"]["running"], "the daemon")
        refused = one.service("install", check=False)
        assert refused.returncode == 75
        assert "`ackd stop` ends it" in refused.stderr

        one.service("install", "--no-start")
        one.systemctl("start", "--no-block", one.unit)
        states = set[str]()

        def tried_twice() -> bool:
            shown = one.shown("ActiveState", "NRestarts")
            states.add(shown["ActiveState"])
            return int(shown["NRestarts"]) >= 2

        one.until(tried_twice, "a second attempt")
        assert states <= {"activating", "inactive"}
        said = one.ackd("stop").stdout
        assert "has ended" in said
        assert "systemctl" not in said
    finally:
        by_hand.terminate()
        by_hand.wait(60)
    one.until(lambda: one.shown("ActiveState")["ActiveState"] == "active", "the service's turn")
    assert one.status()["daemon"]["pid"] == one.pid
    one.send("worker", "--wait", "completed")


def test_who_has_no_systemd_or_no_right_to_it_is_told_what_to_do(machine: Machine, team: Callable[..., Team]) -> None:
    theirs = Team(machine, f"{machine.home(VISITOR)}/theirs", PLAIN, user=VISITOR)
    nobody = theirs.service("install", check=False)
    assert nobody.returncode == 69
    assert f"loginctl enable-linger {VISITOR}" in nobody.stderr
    system = theirs.ackd("service", "install", "--system", check=False)
    assert system.returncode == 73
    assert "root" in system.stderr
    assert theirs.service("status", check=False).returncode == 66
