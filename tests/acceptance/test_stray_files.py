"""Messages under names that nobody reads: never called queued, always named, delivered once they are renamed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENTS = """
[agents.leader]
endpoint = "inbox"
[agents.worker]
endpoint = "exec"
command = ["true"]
"""
QUICK = "[watch]\nsettle_s = 0.1\nreconcile_interval_s = 0.2\n[daemon]\ndrain_timeout_s = 2\nstop_timeout_s = 1\n"
NAMES = ("a.eml", "noext", "a.mime~")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    team = Team(tmp_path_factory.mktemp("team"), AGENTS, top='escalate_to = "leader"', quick=QUICK)
    with running(team):
        yield team
        assert "Traceback" not in team.output()


def stray(team: Team, name: str, folder: str = "") -> Path:
    """Two minutes old; its id is told by its name and folder."""
    path = team.drop("worker", mime(sender="user", to="worker", message_id=id_of(name, folder)), f".{name}", folder)
    os.utime(path, (path.stat().st_mtime - 120,) * 2)
    return path.rename(path.with_name(name))


def id_of(name: str, folder: str) -> str:
    return f"1770263544.1.{folder or 'queue'}{len(name)}{name[:1]}@x"


@pytest.mark.parametrize("folder", ["", "processed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stray_is_named_everywhere_with_what_to_do_and_nowhere_called_queued(
    team: Team, name: str, folder: str
) -> None:
    path = stray(team, name, folder)
    file = str(path.relative_to(team.root))
    line = team.until(lambda: next((one for one in team.facts("stray_file") if one["file"] == file), None))
    assert "Rename it" in line["reason"]
    told = team.until(lambda: next((one for one in team.facts("notice") if one["about"] == file), None))
    assert (told["cause"], told["to"]) == ("stray", "user"), "its sender"
    status = json.loads(team.ackd("status", "--json").stdout)
    assert [one for one in status["strays"] if one["file"] == str(path) and "Rename it" in one["mend"]]
    assert (status["agents"]["worker"]["queued"], status["agents"]["worker"]["in_flight"]) == (0, 0)
    assert f"stray: {path}" in team.ackd("status").stdout.replace("\n", "")
    (row,) = (
        r for r in json.loads(team.ackd("inbox", "worker", "--json").stdout)["messages"] if r["file"] == str(path)
    )
    assert row["state"] == "stray"
    told = json.loads(team.ackd("explain", id_of(name, folder), "--json").stdout)
    assert told["state"] == "stray"
    assert told["recipients"][0]["path"] == str(path)
    assert "Rename it" in told["recipients"][0]["next"]
    found = json.loads(team.ackd("check", "--json").stdout)
    text = json.dumps(found)
    assert file in text
    assert "Rename it" in text
    path.rename(path.with_name(f"{len(name)}-{folder}.mime"))
    team.fact("message_completed", message=id_of(name, folder))


def test_notes_in_a_queue_are_named_and_nobody_is_written_to(team: Team) -> None:
    path = team.drop("worker", b"remember the milk\n", ".notes.txt")
    os.utime(path, (1, 1))
    path = path.rename(path.with_name("notes.txt"))
    team.until(lambda: [one for one in team.facts("stray_file") if one["file"] == "queue/worker/notes.txt"])
    assert not [one for one in team.facts("notice") if one["about"] == "queue/worker/notes.txt"]
    assert json.loads(team.ackd("inbox", "worker", "--json").stdout)["messages"] == []
    path.unlink()


def test_a_young_stray_is_left_to_its_writer(team: Team) -> None:
    path = team.drop("worker", mime(to="worker", message_id="1.1.young@x"), "young.eml")
    status = json.loads(team.ackd("status", "--json").stdout)
    assert "strays" not in status
    assert status["agents"]["worker"]["queued"] == 0
    path.unlink()


def test_two_spellings_of_one_agents_directory_are_both_shown(tmp_path: Path) -> None:
    team = Team(tmp_path, "")
    for box in ("ignitian-1", "ignitian_1"):
        team.drop(box, mime(to="ignitian_1", message_id=f"1.1.{box}@x"), "task_1.mime")
    status = json.loads(team.ackd("status", "--json").stdout)
    (agent,) = (said for name, said in status["agents"].items() if name.startswith("ignitian"))
    assert agent["queued"] == 2
    shown = json.loads(team.ackd("inbox", "ignitian-1", "--json").stdout)["messages"]
    assert {one["message_id"] for one in shown} == {"1.1.ignitian-1@x", "1.1.ignitian_1@x"}
    with running(team):
        for box in ("ignitian-1", "ignitian_1"):
            team.fact("message_told", message=f"1.1.{box}@x")
        shown = json.loads(team.ackd("inbox", "ignitian_1", "--json").stdout)["messages"]
        assert len(shown) == 2
