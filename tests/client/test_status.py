"""How a team stands, as values: with a daemon, without one, and when its page says nothing useful."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import Client
from ackd.client.status import endpoint_of, status
from ackd.config.site import find_site
from ackd.core.words import Folder
from ackd.storage import root_lock
from ackd.storage.paused import Pause, Pauses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.site import Site

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def site(team: Team) -> Site:
    team.root.mkdir(exist_ok=True)
    return find_site(team.root, team.home / "ackd.toml")


@pytest.fixture
def held(team: Team) -> Iterator[None]:
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


def write_page(site: Site, **page: Any) -> None:
    (site.run / "status.json").write_text(json.dumps(page))


def test_without_a_daemon_the_directories_are_counted_and_states_are_unknown(team: Team, site: Site) -> None:
    team.send("leader", "worker_1", "--body", "x")
    for folder in (Folder.DEAD, Folder.CORRUPT):
        (site.queue / folder.value).mkdir()
        (site.queue / folder.value / "a.mime").touch()
    found = status(site)
    assert found.daemon[:4] == (False, None, None, None)
    worker = found.agents["worker_1"]
    assert (worker.endpoint, worker.state, worker.queued, worker.in_flight) == ("exec", "unknown", 1, 0)
    assert found.totals == {
        "queued": 2,
        "in_flight": 0,
        "retrying": 0,
        "unread": 0,
        "completed": 0,
        "dead": 1,
        "corrupt": 1,
    }
    assert (found.faults, found.escalations, found.strays, found.held) == ((), (), (), ())


@pytest.mark.usefixtures("held")
def test_a_running_daemons_page_is_believed_but_the_directories_are_counted(team: Team, site: Site) -> None:
    team.send("leader", "--body", "x")
    write_page(
        site,
        daemon={"pid": os.getpid(), "session_id": "20261116-010203", "watch": "inotify"},
        agents={"leader": {"endpoint": "inbox", "state": "parked", "queued": 7, "reason": "limit"}, "worker-1": {}},
        totals={"completed": 40},
        escalations=[{"agent": "leader", "cause": "silent"}],
        faults=[{"error": "No space left on device", "what": "log"}],
        held=[{"message_id": "1@x"}],
    )
    found = status(site)
    assert found.daemon[:4] == (True, os.getpid(), "20261116-010203", "inotify")
    leader = found.agents["leader"]
    assert (leader.state, leader.queued, leader.reason) == ("parked", 1, "limit")
    assert found.agents["worker_1"].state == "unknown"
    assert (found.totals["completed"], found.totals["queued"]) == (40, 1)
    assert [one["cause"] for one in found.escalations] == ["silent"]
    assert [one["what"] for one in found.faults] == ["log"]
    assert [one["message_id"] for one in found.held] == ["1@x"]


@pytest.mark.usefixtures("held")
def test_the_page_of_another_daemon_is_not_believed(site: Site) -> None:
    write_page(site, daemon={"pid": os.getpid() + 1}, agents={"leader": {"state": "parked"}})
    found = status(site)
    assert (found.daemon.running, found.daemon.pid) == (True, os.getpid())
    assert found.agents["leader"].state == "unknown"


def test_pauses_outlive_the_daemon_and_unreadable_ones_pause_everybody(site: Site) -> None:
    site.state.mkdir(parents=True)
    Pauses(site.state).add("leader", Pause("2026-11-16T01:00:00Z", "user"))
    found = status(site).agents
    assert (found["leader"].state, found["leader"].reason, found["worker_1"].state) == ("paused", "by hand", "unknown")
    (site.state / "paused.json").write_text("{")
    assert {name for name, agent in status(site).agents.items() if agent.state == "paused"} == {"leader", "worker_1"}


def test_held_messages_and_strays_are_listed_without_a_daemon(team: Team, site: Site) -> None:
    team.send("leader", "--body", "x")
    site.state.mkdir(parents=True)
    held = {"message_id": "1@x", "agent": "leader", "members": ["a", "b"], "rounds": 30}
    (site.state / "held.json").write_text(json.dumps({"held": [held]}))
    stray = site.queue / "leader" / "a.eml"
    stray.write_text("x")
    os.utime(stray, (1e9, 1e9))
    found = status(site)
    assert [(one["message_id"], one["agent"]) for one in found.held] == [("1@x", "leader")]
    assert [(one["file"], one["agent"]) for one in found.strays] == [(str(stray), "leader")]


def test_a_queue_that_cannot_be_read_is_no_empty_queue(site: Site) -> None:
    site.root.mkdir(exist_ok=True)
    site.queue.write_text("not a directory")
    with pytest.raises(NotADirectoryError):
        status(site)


def test_the_endpoint_is_that_of_the_config_and_ackds_own_agents_are_handlers(site: Site) -> None:
    assert [endpoint_of(site, name) for name in ("worker_1", "leader", "user", "system")] == [
        "exec",
        "inbox",
        "inbox",
        "handler",
    ]


# --- unread, retried, in flight -----------------------------------------------------------------------------------------
def in_processed(team: Team, site: Site, agent: str, *headers: str) -> str:
    """Have a message in an agent's hands, as a daemon that has ended left it. Returns its id."""
    message_id: str = team.send(agent, "--body", "x")
    (path,) = (site.queue / agent).glob("*.mime")
    head, _, body = path.read_text().partition("\n\n")
    (site.queue / agent / "processed").mkdir(exist_ok=True)
    path.unlink()
    (site.queue / agent / "processed" / path.name).write_text("\n".join([head, *headers]) + f"\n\n{body}")
    return message_id


def test_without_a_daemon_too_what_is_unread_or_retried_is_not_called_in_flight(team: Team, site: Site) -> None:
    delivered = "X-IGNITE-Status: delivered"
    in_processed(team, site, "leader", delivered)
    in_processed(team, site, "leader", delivered, "X-IGNITE-Seen: yes")
    in_processed(team, site, "leader", "X-IGNITE-Status: acked")
    read = in_processed(team, site, "leader", delivered)
    assert team.ackd("read", read, "--agent", "leader").exit_code == 0  # a receipt, which the next daemon hears
    in_processed(team, site, "worker_1", delivered)  # a command's run: nobody reads it
    in_processed(team, site, "worker_1", "X-IGNITE-Status: retrying")
    found = status(site)
    leader, worker = found.agents["leader"], found.agents["worker_1"]
    assert (leader.in_flight, leader.unread, leader.retrying) == (4, 1, 0)
    assert (worker.in_flight, worker.unread, worker.retrying) == (2, 0, 1)
    assert (found.totals["in_flight"], found.totals["unread"], found.totals["retrying"]) == (6, 1, 1)
    shown = team.ackd("status").stdout
    assert "0 queued  4 in flight  1 retrying  1 unread" in shown
    listed = [one.unread for one in Client.at(site).inbox("leader").messages]
    assert sorted(listed) == [False, False, False, True]
    assert [line.split()[5] for line in team.ackd("inbox", "leader").stdout.splitlines()[1:]].count("unread") == 1
