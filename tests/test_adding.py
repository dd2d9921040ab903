"""A part that people add needs its own folder or module, and at most one line of a registry.

Each test adds a throw-away part to a copy of the package, and uses it there with real processes.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.test_layers import PACKAGE
from tests.throwaway_parts import CAPABILITIES, COMMANDS, KINDS, PARTS, copy_with

if TYPE_CHECKING:
    from pathlib import Path

READER = '[agents.reader]\nendpoint = "inbox"\n'


def team_with(part: str, agents: str, place: Path) -> Team:
    """A team that the package with this part serves."""
    copy = copy_with(PARTS[part], PACKAGE, place / "copy")
    team = Team(place / "team", agents)
    team.extra_env["PYTHONPATH"] = str(copy)
    return team


def test_an_endpoint_kind_delivers(tmp_path: Path) -> None:
    team = team_with("endpoint kind", '[agents.clerk]\nendpoint = "drop"\nfile = "mail"', tmp_path)
    checked = team.ackd("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "writes into mail" in checked.stdout
    with running(team):
        message_id = team.send("clerk", body="hello")
        team.fact("message_completed", message=message_id)
    assert "hello" in (team.place / "mail").read_text()
    assert team.ackd("agent", "attach", "clerk").stderr.endswith("clerk: look at its file\n")
    assert "it is a file" in team.ackd("agent", "restart", "clerk").stderr


def test_a_capability_takes_in_what_others_wrote(tmp_path: Path) -> None:
    team = team_with("capability", f'{READER}[postcards]\nto = "reader"', tmp_path)
    postcards = team.place / "postcards"
    postcards.mkdir()
    with running(team):
        # Only now: while it starts, the team reads its log, and knows no types of lines but ours.
        (team.place / "written").write_text("from the sea")
        (team.place / "written").rename(postcards / "greeting")
        team.until(lambda: "from the sea" in team.ackd("inbox", "reader", "--json").stdout)
        team.until(lambda: "greeting for reader" in team.ackd("tail").stdout)


def test_a_command_runs(tmp_path: Path) -> None:
    team = team_with("command", READER, tmp_path)
    team.send("reader")
    assert team.ackd("count", "reader").stdout == "1\n"
    assert "Count an agent's mail." in team.ackd("--help").stdout


def test_a_front_door_sends_by_the_client(tmp_path: Path) -> None:
    team = team_with("front door", READER, tmp_path)
    words = [sys.executable, "-m", "ackd.web"]
    sent = subprocess.run(
        words, cwd=team.place, env=team.environment, input="reader hello\n", capture_output=True, text=True, check=False
    )
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout.strip() in team.ackd("inbox", "reader", "--json").stdout


@pytest.mark.parametrize(
    ("part", "changed"),
    [("endpoint kind", {KINDS}), ("capability", {CAPABILITIES}), ("command", {COMMANDS}), ("front door", set())],
)
def test_a_part_changes_no_more_than_its_registry(part: str, changed: set[str], tmp_path: Path) -> None:
    copy = copy_with(PARTS[part], PACKAGE, tmp_path) / "ackd"
    there = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    assert {name for name, path in there.items() if (copy / name).read_bytes() != path.read_bytes()} == changed
    new = {path.relative_to(copy).as_posix() for path in copy.rglob("*.py")} - there.keys()
    assert new == set(PARTS[part].files)
