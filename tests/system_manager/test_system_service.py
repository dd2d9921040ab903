"""The hardened unit of the system: how exposed it is, and that agents of every kind work under it all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.system_manager.conftest import ACCOUNT, ACKD, ON_ONE_MACHINE, Team
from tests.system_manager.exposure import MOST_EXPOSED, exposure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system_manager.machine import Machine

pytestmark = ON_ONE_MACHINE

#: ``runner`` makes a sandbox, as agents' own programs do, and tries to write where everybody else may.
AGENTS: Final = """
[agents.runner]
endpoint = "exec"
command = ["sh", "run.sh"]

[agents.builder]
endpoint = "process"
command = ["/opt/ackd/bin/python", "worker.py"]

[agents.helper]
endpoint = "tmux"
start = "sh"
profile = "shell"
"""
RUN: Final = """
set -e
unshare --user --map-root-user --mount --pid --fork sh -c 'mount -t tmpfs t /mnt'
if touch /srv/open/outside; then exit 3; fi
touch /tmp/ackd-was-here made
"""
WORKER: Final = """
from ackd.worker import Task, run
def work(task: Task) -> None:
    with open("built", "a") as file:
        file.write("built\\n")
run(work)
"""


def panes(machine: Machine) -> str:
    return machine.run("tmux", "list-panes", "-a", "-F", "#{pane_id} #{pane_pid}", user=ACCOUNT).stdout


@pytest.fixture
def team(machine: Machine) -> Iterator[Team]:
    made = Team(machine, "/srv/team", AGENTS, user=ACCOUNT, scope="system")
    made.write("worker.py", WORKER)
    made.write("run.sh", RUN)
    machine.run("install", "-d", "-m", "1777", "/srv/open")
    yield made
    made.gone()
    machine.run("runuser", "-u", ACCOUNT, "--", "tmux", "kill-server", check=False)


def test_agents_of_every_kind_are_served_under_it_and_panes_outlive_its_restart(machine: Machine, team: Team) -> None:
    said = team.service("install").stdout
    assert f"ran systemctl start {team.unit}" in said
    assert "linger" not in said
    assert team.shown("User", "UMask", "NoNewPrivileges", "ProtectSystem") == {
        "User": ACCOUNT,
        "UMask": "0077",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
    }
    security = machine.run("systemd-analyze", "security", "--no-pager", team.unit).stdout
    assert exposure(security) <= MOST_EXPOSED

    team.send("runner", "--wait", "completed")
    assert machine.path(f"{team.place}/made").stat().st_mode & 0o777 == 0o600
    team.send("builder", "--wait", "completed")
    assert team.read("built") == "built\n"
    team.send("helper", "--wait", "told")
    team.ackd("done", "--all", "--agent", "helper")
    pane = panes(machine)
    assert pane.strip()
    daemon = team.pid

    team.service("restart")
    assert team.pid != daemon
    assert panes(machine) == pane
    team.send("helper", "--wait", "told")
    machine.run("kill", "-KILL", str(team.pid))
    killed = team.pid
    team.until(
        lambda: team.pid not in (0, killed) and team.shown("ActiveState")["ActiveState"] == "active", "a restart"
    )
    assert panes(machine) == pane
    for agent in ("runner", "builder"):
        team.send(agent, "--wait", "completed")

    assert team.unit in team.ackd("stop").stdout
    team.service("uninstall")
    assert not machine.path(f"/etc/systemd/system/{team.unit}").exists()


def test_what_an_account_cannot_do_is_refused_before_anything_is_written(machine: Machine, team: Team) -> None:
    machine.run("chown", "root", team.place)
    refused = team.service("install", check=False)
    assert refused.returncode == 65
    assert "agents should not run as root" in refused.stderr
    unknown = team.service("install", "--account", "nosuch", check=False)
    assert unknown.returncode == 65
    machine.run("chown", ACCOUNT, team.place)
    machine.run("chmod", "0700", "/opt/ackd")
    try:
        closed = team.service("install", check=False)
    finally:
        machine.run("chmod", "0755", "/opt/ackd")
    assert closed.returncode == 65
    assert "/opt/ackd is closed" in closed.stderr
    assert machine.run(ACKD, "service", "install", "--account", "team", cwd=team.place, check=False).returncode == 2
