"""`systemctl reload` of the service: a good config counts at once, a bad one changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system_manager.conftest import ON_ONE_MACHINE, PERSON, QUICK, Team

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system_manager.machine import Machine

pytestmark = ON_ONE_MACHINE

AGENT = '\n[agents.{name}]\nendpoint = "exec"\ncommand = ["true"]\n'


@pytest.fixture
def team(machine: Machine) -> Iterator[Team]:
    made = Team(machine, f"{machine.home(PERSON)}/reloaded", AGENT.format(name="first"), user=PERSON)
    yield made
    made.gone()


def test_an_agent_comes_by_a_reload_and_a_bad_config_keeps_what_there_is(team: Team) -> None:
    team.service("install")
    pid, good = team.pid, QUICK + AGENT.format(name="first") + AGENT.format(name="second")
    team.write("ackd.toml", good)
    team.systemctl("reload", team.unit)
    team.until(lambda: team.lines("config_reloaded"), "the reload")
    team.until(lambda: "2 agents, 0 queued" in team.shown("StatusText")["StatusText"], "its status")
    team.send("second", "--wait", "completed")

    team.write("ackd.toml", good + "\n[agents.third]\nendpoint = 'nothing'\n")
    team.systemctl("reload", team.unit, check=False)
    team.until(lambda: team.lines("config_refused"), "the refusal")
    team.until(lambda: "2 agents, 0 queued" in team.shown("StatusText")["StatusText"], "its status")
    assert team.shown("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}
    assert team.pid == pid
    team.write("ackd.toml", good)
    team.send("first", "--wait", "completed")
