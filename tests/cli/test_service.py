"""`ackd service` where there is nothing to speak with. What it does is tests/system_manager's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.service import systemctl

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture(autouse=True)
def no_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "_BOOTED", tmp_path / "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(systemctl, "_SYSTEM_UNITS", tmp_path / "system")


@pytest.mark.parametrize("words", [["install"], ["install", "--dry-run"], ["uninstall"]])
def test_without_systemd_it_says_what_else_can_run_ackd(team: Team, tmp_path: Path, words: list[str]) -> None:
    refused = team.ackd("service", *words)
    assert (refused.exit_code, refused.stdout) == (69, "")
    assert "let whatever starts your programs run `ackd run --quiet`" in refused.stderr
    as_json = team.ackd("service", *words, "--json")
    assert json.loads(as_json.stdout)["error"]["code"] == 69
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize("words", [["status"], ["logs"], ["restart"]])
def test_a_team_without_a_service_is_told_how_to_make_one(team: Team, words: list[str]) -> None:
    refused = team.ackd("service", *words)
    assert refused.exit_code == 66
    assert "`ackd service install` makes one" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["install", "--user", "--system"],
        ["install", "--account", "me"],
        ["install", "--workspace", ".", "--config", "ackd.toml"],
    ],
)
def test_what_excludes_each_other_is_wrong_usage(team: Team, words: list[str]) -> None:
    assert team.ackd("service", *words).exit_code == 2


def test_a_broken_config_does_not_keep_anybody_from_looking_at_the_service(team: Team) -> None:
    team.ackd("init")
    (team.home / "ackd.toml").write_text("no = [toml")
    assert team.ackd("service", "status").exit_code == 66
    assert team.ackd("service", "install").exit_code == 78
