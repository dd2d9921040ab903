"""Files that come with ackd, printed. tests/test_packages.py reads them from an installed wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ackd.config.model import Config

if TYPE_CHECKING:
    from tests.cli.runner import Result

Team = Any  # conftest.py's: test files do not import each other

SOURCE: Final = Path(__file__).parents[2]


def printed(result: Result) -> str:
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_the_reference_is_a_config_that_changes_nothing(team: Team) -> None:
    text = printed(team.ackd("config", "reference"))
    assert Config.model_validate(tomllib.loads(text)) == Config()
    assert text == (SOURCE / "config" / "ackd.toml").read_text()
    assert team.json("config", "reference") == {"name": "ackd.toml", "text": text}


def test_every_example_is_listed_with_what_it_is_and_printed_as_it_is(team: Team) -> None:
    folders = (SOURCE / "config" / "examples", SOURCE / "systemd")
    files = {
        str(path.relative_to(folder)): path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name != "README.md" and "__pycache__" not in path.parts
    }
    listed = {one["name"]: one["about"] for one in team.json("example", "list")["examples"]}
    assert sorted(listed) == sorted(files)
    assert all(len(about) > 15 for about in listed.values())
    assert [line.split()[0] for line in printed(team.ackd("example", "list")).splitlines()] == sorted(listed)
    for name, path in files.items():
        assert printed(team.ackd("example", "show", name)) == path.read_text()


@pytest.mark.parametrize("name", ["nosuch", "../ackd.toml", "config/ackd.toml", ""])
def test_what_is_no_example_is_refused_with_what_there_is(team: Team, name: str) -> None:
    result = team.ackd("example", "show", name)
    assert result.exit_code == 66
    assert "workers.toml" in result.stderr


def test_a_broken_config_does_not_keep_anybody_from_the_reference(team: Team) -> None:
    (team.home / "ackd.toml").write_text("no = [toml")
    assert printed(team.ackd("config", "reference"))
