"""`ackd init`: a place to begin, and never a thing overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.config.model import Config, load

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def empty(team: Team) -> Team:
    (team.home / "ackd.toml").unlink()
    return team


def test_what_it_makes_is_private_and_valid(empty: Team) -> None:
    result = empty.ackd("init")
    assert result.exit_code == 0
    assert "Next:" in result.stdout
    assert load(empty.home / "ackd.toml").model_dump() == Config().model_dump()
    directories = [path for path in empty.root.rglob("*") if path.is_dir()]
    names = {str(path.relative_to(empty.root)) for path in directories}
    assert names == {
        "queue", "queue/dead_letter", "queue/corrupt", "queue/user", "queue/user/processed",
        "receipts", "archive", "logs", "state", "run",
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in [empty.root, *directories]} == {0o700}
    assert (empty.root / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in empty.home.iterdir()) == [".ackd", "ackd.toml"]


def test_what_is_there_is_kept(team: Team) -> None:
    before = (team.home / "ackd.toml").read_text()
    result = team.ackd("init")
    assert result.exit_code == 0
    assert f"kept {team.home / 'ackd.toml'}: it was there already" in result.stdout
    assert (team.home / "ackd.toml").read_text() == before
    assert (team.root / "queue" / "worker_1" / "processed").is_dir()


def test_again_changes_nothing(empty: Team) -> None:
    empty.ackd("init")
    (empty.root / ".gitignore").write_text("mine\n")
    assert empty.json("init")["created"] == []
    assert (empty.root / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["mail", 'odd "name"'])
def test_another_root(empty: Team, name: str) -> None:
    made = empty.json("init", "--root", name)
    assert made["root"] == str(empty.home / name)
    assert load(empty.home / "ackd.toml").root == name
    assert empty.ackd("send", "user", "--body", "x").exit_code == 0
    assert list((empty.home / name / "queue" / "user").glob("*.mime"))


def test_a_root_elsewhere_is_written_absolute(empty: Team, tmp_path: Path) -> None:
    empty.json("init", "--root", str(tmp_path / "elsewhere"))
    assert load(empty.home / "ackd.toml").root_dir == tmp_path / "elsewhere"


def test_where_nothing_can_be_made(empty: Team) -> None:
    (empty.home / ".ackd").write_text("a file")
    assert empty.ackd("init").exit_code == 73


def test_the_file_names_commands_that_print_what_is_installed(empty: Team) -> None:
    empty.ackd("init")
    text = (empty.home / "ackd.toml").read_text()
    for command in (["config", "reference"], ["example", "list"], ["check"]):
        assert f"`ackd {' '.join(command)}`" in text
        assert empty.ackd(*command).exit_code == 0
