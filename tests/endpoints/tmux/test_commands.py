"""`ackd profile` shows profiles, so that nobody has to look for files of the package."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from ackd.endpoints.tmux.screen import SHIPPED, load_profile

Team = Any  # conftest.py's: test files do not import each other


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_is_shown_as_its_file_which_makes_the_same_profile(team: Team, name: str) -> None:
    shown = team.ackd("profile", "show", name)
    assert shown.exit_code == 0
    assert load_profile("copy", {"copy": tomllib.loads(shown.stdout)}) == load_profile(name).model_copy(
        update={"name": "copy"}
    )


def test_a_teams_own_profile_is_shown_with_what_it_takes_over(team: Team) -> None:
    config = team.home / "ackd.toml"
    config.write_text(config.read_text() + '[profiles.mine]\nlike = "claude"\nline = "path"\n')
    shown = json.loads(team.ackd("profile", "show", "mine").stdout)
    assert (shown["line"], shown["submit"]) == ("path", team.json("profile", "show", "claude")["submit"])
    assert "mine  from ackd.toml" in team.ackd("profile", "list").stdout


def test_a_profile_that_there_is_not_is_said_with_those_that_there_are(team: Team) -> None:
    answer = team.ackd("profile", "show", "cluade")
    assert answer.exit_code == 66
    assert "claude" in answer.stderr
