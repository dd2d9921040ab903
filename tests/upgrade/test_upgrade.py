"""States that earlier versions have left, read by this one: nothing is lost, and nothing that was completed runs again.

``states/`` has two of each release, of a daemon that was stopped and of one that was killed; ``make_state`` made them.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ackd import __version__
from ackd.client import Client
from tests.acceptance.teams import Team, running
from tests.strays import end_strays
from tests.upgrade.make_state import ROUTES, STATES

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES = sorted(STATES.glob("*.tar.xz"))


class Kept(Team):
    """A team as an earlier version has left it. ``facts`` are those of this version only."""

    def __init__(self, place: Path, archive: Path) -> None:
        super().__init__(place / "team")
        shutil.rmtree(self.place)
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
        self.expected: dict[str, Any] = json.loads((self.place / "manifest.json").read_text())
        for log in (self.root / "logs").glob("session-*"):
            self._read[log] = (log.stat().st_size, [])
        self.client = Client(root=self.root)

    def state(self, message_id: str) -> str:
        return self.client.explain(message_id).state

    def ran(self) -> list[str]:
        return (self.place / "ran").read_text().splitlines()

    def said(self, *words: str) -> str:
        done = self.ackd(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def comes_to(self, message_id: str, state: str) -> None:
        self.until(lambda: self.state(message_id) == state)


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kept = Kept(tmp_path, request.param)
    yield kept
    end_strays(tmp_path)


def test_there_are_states_of_this_version() -> None:
    found = {path.name for path in ARCHIVES}
    missing = {f"{__version__}-{route}.tar.xz" for route in ROUTES} - found
    assert not missing, "make them with `python -m tests.upgrade.make_state` (CONTRIBUTING.md, Release)"


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_state_is_small_and_says_nothing_about_who_made_it(archive: Path) -> None:
    assert archive.stat().st_size < 100_000
    with tarfile.open(archive) as tar:
        for member in tar:
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            file = tar.extractfile(member) if member.isfile() else None
            told = re.findall(rb"/(?:home|root|work|Users|opt|usr)/[\w./-]*", file.read()) if file else []
            assert not told, member.name


def test_everything_is_where_it_was_and_comes_to_its_end(team: Kept) -> None:
    expected, messages = team.expected, team.expected["messages"]
    with running(team):
        for name, one in messages.items():
            if one["state"] == one["ends"]:
                assert team.state(one["id"]) == one["state"], name
        agents = json.loads(team.said("agent", "list", "--json"))["agents"]
        assert [name for name, agent in agents.items() if agent["state"] == "paused"] == expected["paused"]
        assert team.ran()[: len(expected["done"])] == expected["done"]

        (team.place / "go").touch()
        team.said("agent", "resume", "clerk")
        for one in messages.values():
            team.comes_to(one["id"], one["ends"])
        answer_what_waits(team)
        team.until(lambda: json.loads((team.root / "state/stories/PROJ-1.json").read_text())["state"] == "done")

        assert set(Counter(team.ran()).values()) == {1}, "nothing that was completed ran again"
        steps = [
            line.split()[1] for line in team.ran() if line.startswith(messages["in the middle of its steps"]["id"])
        ]
        assert steps == [*"abcd"]
        counted = {fact["agent"] for fact in team.facts("message_retry") if fact["counted"]}
        assert counted <= {"flaky"}, "which fails until `go` is there"
        assert not team.facts("message_dead", "spool_lost", "message_rejected", "io_error")
        completed = team.status()["totals"]["completed"]
        assert completed == expected["completed"] + len(team.facts("message_completed"))
        assert team.stop() == 0
        team.start()  # and what this version has written is read by it
        assert team.status()["totals"]["completed"] == completed
        assert team.stop() == 0


def answer_what_waits(team: Kept) -> None:
    """Complete what lies in inboxes. The pool's member, which is free then, gets what waits in the pool."""
    messages = team.expected["messages"]
    for one in messages.values():
        if one["ends"] in ("delivered", "acked"):
            team.said("done", one["id"], "--agent", one["agent"])
            team.comes_to(one["id"], "completed")
    waits = messages["waits in a pool"]["id"]
    assert team.fact("message_told", message=waits)["agent"] == "hand"
    team.said("done", waits, "--agent", "hand")
    team.comes_to(waits, "completed")


def test_what_commands_show_of_it_is_still_there(team: Kept) -> None:
    expected = team.expected
    thread = json.loads(team.said("thread", expected["thread"][0], "--json"))["messages"]
    assert [message["message_id"] for message in thread] == expected["thread"]
    dead = expected["messages"]["dead"]["id"]
    listed = json.loads(team.said("dead", "list", "--json"))["dead_letters"]
    assert {expected["corrupt"], dead} <= {value for row in listed for value in row.values() if isinstance(value, str)}
    with running(team):
        requeued = team.ackd("dead", "requeue", dead)
        assert dead.partition("@")[0] in requeued.stdout
        assert requeued.returncode in (0, 1), "1: it was refused so quickly that the command could say so"
        assert team.fact("message_dead", message=dead)["agent"] == "refuser", "it was told again, and refused again"
        meeting = json.loads(team.said("board", "show", expected["meeting"], "--track", "api", "--json"))
        assert "CA" in json.dumps(meeting)
        assert meeting["session_id"] == expected["meeting"]


def test_buses_and_leases_go_on_where_they_were(team: Kept) -> None:
    with running(team):
        team.said("bus", "post", "PROGRESS", "--source", "w9", "--task", "9.9", "progress_pct=1", "--track", "api")
        # A bus is known by its path and inode. A copy is another one, and is read from its beginning.
        team.until(lambda: "w9" in [fact["source"] for fact in team.facts("bus_message")])
        team.ackd("lock", "release", "src/a.py", "--agent", "reader")  # unless its time is over by now
        team.until(lambda: holder(team) == "leader")


def holder(team: Kept) -> str | None:
    locks = json.loads((team.place / "conductor/tracks/api/.message-bus/locks.json").read_text())
    found = locks.get("src/a.py", {}).get("worker_id")
    return found if isinstance(found, str) else None
