"""The journal of a service: its entries have priority and fields, so that journalctl finds what is about one message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.system_manager.conftest import ON_ONE_MACHINE, PERSON, Team

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system_manager.machine import Machine

pytestmark = ON_ONE_MACHINE

AGENTS = """
[agents.refuser]
endpoint = "exec"
command = ["sh", "-c", "exit 65"]
"""


@pytest.fixture
def team(machine: Machine) -> Iterator[Team]:
    made = Team(machine, f"{machine.home(PERSON)}/journal", AGENTS, user=PERSON)
    yield made
    made.gone()


def test_entries_of_a_message_are_found_by_its_id_and_trouble_by_its_priority(machine: Machine, team: Team) -> None:
    team.service("install")
    message = json.loads(team.send("refuser"))["message_id"]
    team.until(lambda: "message_dead" in types(machine, team), "its entry")
    entries = [one for one in machine.journal(team.unit, user=PERSON) if "ACKD_TYPE" in one]
    (dead,) = [one for one in entries if one["ACKD_TYPE"] == "message_dead"]
    assert (dead["ACKD_MESSAGE_ID"], dead["ACKD_AGENT"], dead["AGENT"]) == (message, "refuser", "refuser")
    assert json.loads(str(dead["ACKD_DATA"]))["reason"] == "exit 65"
    priorities = {str(one["ACKD_TYPE"]): int(str(one["PRIORITY"])) for one in entries}
    assert priorities["message_dead"] < priorities["session_start"], "less is worse"
    assert len({one["MESSAGE_ID"] for one in entries}) == len(priorities), "one for each type"


def types(machine: Machine, team: Team) -> set[str]:
    return {str(one.get("ACKD_TYPE")) for one in machine.journal(team.unit, user=PERSON)}
