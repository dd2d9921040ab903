"""`ackd check` names codex agents that act under each other's name, and the remedy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.panes import Panes, panes_in
from tests.acceptance.teams import Team

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def agent(name: str, how: str) -> str:
    return f'[agents.{name}]\nendpoint = "tmux"\nprofile = "codex"\n{how}\n'


def found(panes: Panes, *agents: str) -> list[dict[str, str]]:
    team = Team(panes.place, f"{panes.config()}\n{''.join(agents)}")
    said = team.ackd("check", "--json", env={"HOME": str(panes.place)})
    checks: list[dict[str, str]] = json.loads(said.stdout)["checks"]
    return [one for one in checks if one["subject"] == "codex"]


def test_two_codex_agents_on_one_codex_home_are_named_with_the_cure(panes: Panes) -> None:
    (one,) = found(panes, agent("a", 'start = "./codex.sh"'), agent("b", 'title = "b"'), agent("c", 'start = "codex"'))
    assert one["level"] == "warn"
    assert f"a and b share the app-server of CODEX_HOME {panes.place}/.codex" in one["words"]
    assert "codex features disable daemon_auto_start" in one["mend"]


def test_codex_agents_that_ackd_starts_or_that_have_a_home_each_are_well(panes: Panes) -> None:
    assert found(panes, agent("a", 'start = "codex"'), agent("b", 'start = "codex resume"')) == []
    homes = [agent(name, f'start = "./codex.sh"\nenv = {{ CODEX_HOME = "/h/{name}" }}') for name in "ab"]
    assert found(panes, *homes) == []
    (panes.place / ".codex").mkdir()
    (panes.place / ".codex/config.toml").write_text("[features]\ndaemon_auto_start = false\n")
    assert found(panes, agent("a", 'start = "./codex.sh"'), agent("b", 'title = "b"')) == []


def test_what_runs_in_a_pane_says_which_home_it_has(panes: Panes) -> None:
    """The environment of `ackd check` itself does not matter."""
    program = panes.place / "codex"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o700)
    for name, home in (("a", "/h/one"), ("b", "/h/one"), ("c", "/h/two")):
        pane = panes.run("new-session", "-d", "-P", "-F", "#{pane_id}", f"CODEX_HOME={home} {program}").strip()
        panes.run("select-pane", "-t", pane, "-T", name)
    (one,) = found(panes, *(agent(name, f'title = "{name}"') for name in "abc"))
    assert "a and b share the app-server of CODEX_HOME /h/one" in one["words"]
