"""Held messages: what the daemon saved of them, and asking for their release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import loops
from ackd.client.errors import NotHeld
from ackd.config.site import find_site
from ackd.core.errors import AmbiguousMessage
from ackd.core.state import Held

if TYPE_CHECKING:
    from ackd.config.site import Site

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def site(team: Team) -> Site:
    team.root.mkdir(exist_ok=True)
    return find_site(team.root, team.home / "ackd.toml")


def save(site: Site, *ids: str) -> None:
    site.state.mkdir(parents=True, exist_ok=True)
    held = [{"message_id": one, "agent": "leader", "members": ["leader", "worker"], "rounds": 30} for one in ids]
    (site.state / "held.json").write_text(json.dumps({"held": held}))


def test_what_the_daemon_saved_is_listed_with_its_reason(site: Site) -> None:
    assert loops.held_messages(site) == []
    save(site, "1.1.a@x")
    reason = "leader and worker answered each other for 30 rounds within an hour"
    assert loops.held_messages(site) == [("1.1.a@x", "leader", reason)]


@pytest.mark.parametrize("members", [("leader", "worker"), ("a", "b", "c"), ("leader",)])
def test_the_reason_is_worded_as_in_the_log(site: Site, members: tuple[str, ...]) -> None:
    site.state.mkdir(parents=True, exist_ok=True)
    held = {"message_id": "1.1.a@x", "agent": members[0], "members": list(members), "rounds": 30}
    (site.state / "held.json").write_text(json.dumps({"held": [held]}))
    (one,) = loops.held_messages(site)
    if len(members) > 1:
        assert one.reason == Held(members, 30, 0.0).words
    assert all(name in one.reason for name in members)


def test_members_that_were_edited_into_nonsense_are_left_out(site: Site) -> None:
    site.state.mkdir(parents=True, exist_ok=True)
    (site.state / "held.json").write_text('{"held": [{"message_id": "1.1.a@x", "agent": "leader", "members": 5}]}')
    assert [(one.message_id, one.agent) for one in loops.held_messages(site)] == [("1.1.a@x", "leader")]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"held": 3}', '{"held": [3]}'])
def test_a_file_that_makes_no_sense_names_nothing(site: Site, content: str) -> None:
    save(site)
    (site.state / "held.json").write_text(content)
    assert loops.held_messages(site) == []


def test_a_release_is_a_receipt_for_each_message(team: Team, site: Site) -> None:
    save(site, "1.1.a@x", "1.2.b@x")
    released = loops.release(site, ["<1.1.a@x>", "1.2"])
    assert [(one.message_id, one.agent) for one in released] == [("1.1.a@x", "leader"), ("1.2.b@x", "leader")]
    assert sorted(one.receipt for one in released) == team.files("receipts")
    assert {one["kind"] for one in team.receipts()} == {"release"}


def test_only_what_is_held_can_be_released_and_then_nothing_is_asked_for(team: Team, site: Site) -> None:
    save(site, "1.1.a@x", "1.2.b@x")
    with pytest.raises(NotHeld, match="9@x is not held"):
        loops.release(site, ["1.1.a@x", "9@x"])
    with pytest.raises(AmbiguousMessage):
        loops.release(site, ["1."])
    assert team.files("receipts") == []
