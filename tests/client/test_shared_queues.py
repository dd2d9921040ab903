"""Groups and pools in the client: how they stand, and what reaches their queues, without a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.status import status
from ackd.config.site import find_site
from ackd.core.words import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.config.site import Site

Team = Any  # conftest.py's: test files do not import each other

TABLES = """
[groups]
crew = ["leader", "worker_1"]
[pools.hands]
members = ["worker_1", "extra"]
[pools.none]
members = []
[agents.extra]
"""


@pytest.fixture
def site(team: Team) -> Site:
    config = team.home / "ackd.toml"
    config.write_text(config.read_text() + TABLES)
    return find_site(config=config, env={})


def moved(site: Site, box: str, into: Path) -> Path:
    """The one message that waits for somebody, moved elsewhere."""
    (path,) = (site.queue / box).glob("[!.]*.mime")
    into.mkdir(parents=True, exist_ok=True)
    return path.rename(into / path.name)


def test_what_waits_and_what_members_took_is_counted(team: Team, site: Site) -> None:
    team.send("hands", "--body", "one")
    moved(site, "hands", site.queue / "worker_1" / "processed")
    team.send("hands", "--body", "two")
    team.send("worker_1", "--body", "its own")
    moved(site, "worker_1", site.queue / "worker_1" / "processed")
    found = status(site)
    hands, crew = found.pools["hands"], found.groups["crew"]
    assert (hands.members, hands.queued, dict(hands.at_work)) == (("worker_1", "extra"), 1, {"worker_1": 1})
    assert (crew.members, crew.queued) == (("leader", "worker_1"), 0)
    assert not {"crew", "hands", "none"} & found.agents.keys()
    assert found.totals["queued"] == 1
    assert found.totals["in_flight"] == 2
    shown = team.ackd("status").stdout
    assert "pool hands: 1 wait, 1 at work: worker_1 unknown (1), extra unknown" in shown
    assert "pool none: 0 wait, 0 at work: nobody serves it" in shown
    assert "group crew: leader, worker_1" in shown
    assert team.json("status")["pools"]["hands"] == {
        "members": ["worker_1", "extra"],
        "queued": 1,
        "in_hand": 1,
        "at_work": {"worker_1": 1},
    }


def test_a_pool_gets_one_file_and_a_group_one_for_each(team: Team, site: Site) -> None:
    sent = team.json("send", "hands", "crew", "--from", "user", "--body", "x")
    assert len(sent["files"]) == 3
    assert sent["groups"] == {"crew": ["leader", "worker_1"]}
    assert [one.name for one in sorted(site.queue.iterdir())] == ["hands", "leader", "worker_1"]


def test_the_queue_of_a_pool_is_listed_by_its_name(team: Team, site: Site) -> None:
    message_id = team.send("hands", "--body", "x")
    listed = team.json("inbox", "hands")
    assert (listed["agent"], [one["message_id"] for one in listed["messages"]]) == ("hands", [message_id])
    assert team.json("inbox", "crew")["messages"] == []


@pytest.mark.parametrize("address", ["hands", "crew"])
def test_a_dead_letter_goes_back_to_the_queue_that_it_was_for(team: Team, site: Site, address: str) -> None:
    message_id = team.send("hands", "--body", "x")
    path = moved(site, "hands", site.dead_letter)
    lines = path.read_text().split("\n\n", 1)
    path.write_text(f"{lines[0]}\nX-IGNITE-Recipient: {address}\n\n{lines[1]}")
    assert team.ackd("dead", "requeue", message_id).exit_code == 0
    assert len(list((site.queue / address).glob("*.mime"))) == 1


def test_its_sender_cancels_what_lies_in_a_pools_queue(team: Team, site: Site) -> None:
    message_id = team.send("hands", "--from", "leader", "--body", "x")
    assert team.ackd("cancel", message_id, "--agent", "leader").exit_code == 0
    assert [one["agent"] for one in team.receipts()] == ["hands"]


def test_what_is_addressed_is_offered_and_where_an_agent_is_needed_agents_only(team: Team, site: Site) -> None:
    from ackd.cli.completion_values import values
    from ackd.cli.send import send

    argument = next(one for one in send.arguments if "to" in one.names)
    offered = dict(values("addresses", argument, [], ""))
    assert offered["crew"] == "group of leader, worker_1"
    assert offered["none"] == "empty pool"
    assert "leader" in offered
    assert not {"crew", "hands"} & {name for name, _ in values("agents", argument, [], "")}


def test_the_folders_of_groups_are_no_agents_of_a_bare_look(site: Site) -> None:
    (site.queue / "crew" / Folder.PROCESSED.value).mkdir(parents=True)
    assert "crew" not in site.known_agents()
    assert site.boxes_by_agent()["crew"] == ["crew"]
