"""`ackd backup` and `ackd restore`: what is refused, with which exit code, and that nothing is left then."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.storage import root_lock

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def packed(team: Team) -> Path:
    assert team.ackd("init").exit_code == 0
    file: Path = team.home / "b.tar.gz"
    assert team.ackd("backup", str(file)).exit_code == 0
    return file


def refused(team: Team, code: int, words: str, *command: str) -> None:
    result = team.ackd(*command)
    assert (result.exit_code, words in result.stderr) == (code, True), result.output


def test_a_backup_replaces_nothing_and_does_not_lie_in_its_root(team: Team, packed: Path) -> None:
    before = packed.read_bytes()
    refused(team, 73, "exists: a backup replaces nothing", "backup", str(packed))
    assert packed.read_bytes() == before
    refused(team, 73, "lies in the root itself", "backup", str(team.root / "logs/b.tar"))
    refused(team, 73, "is no directory: make it first", "backup", str(team.home / "absent/b.tar"))
    assert os.listdir(team.root / "run") == ["ackd.lock"]  # noqa: PTH208


def test_a_holder_that_does_not_answer_is_exit_75_and_leaves_nothing(team: Team) -> None:
    assert team.ackd("init").exit_code == 0
    lock = root_lock.hold(team.root / "run")
    try:
        refused(team, 75, "took no snapshot within 0 s", "backup", str(team.home / "b.tar"), "--timeout", "0")
    finally:
        lock.release()
    assert not (team.home / "b.tar").exists()
    assert list((team.root / "receipts").iterdir()) == []
    assert [path.name for path in (team.root / "run").iterdir()] == ["ackd.lock"]


def test_a_state_of_a_newer_ackd_is_neither_packed_nor_restored(team: Team, packed: Path) -> None:
    (team.root / "state/version").write_text('{"version": 99, "ackd": "9.1"}')
    refused(team, 78, "ackd 9.1", "backup", str(team.home / "c.tar"))
    assert packed.exists()


def test_a_root_that_is_not_empty_is_exit_73(team: Team, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "file").touch()
    refused(team, 73, "is not empty", "restore", str(packed), "--root", str(tmp_path / "full"))
    refused(team, 73, "no directory", "restore", str(packed), "--root", str(tmp_path / "file"))
    refused(team, 73, "is not empty", "restore", str(packed), "--root", str(team.root))
    refused(team, 2, "Missing option '--root DIR'", "restore", str(packed))
    refused(team, 66, "absent", "restore", str(tmp_path / "absent"), "--root", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    assert team.ackd("restore", str(packed), "--root", str(tmp_path / "empty")).exit_code == 0


def test_a_damaged_backup_is_exit_65_and_writes_nothing(team: Team, packed: Path, tmp_path: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-200])
    for more in ([], ["--dry-run"]):
        refused(team, 65, "nothing was restored", "restore", str(packed), "--root", str(tmp_path / "new"), *more)
    assert not (tmp_path / "new").exists()


def test_a_dry_run_says_what_is_in_it(team: Team, packed: Path) -> None:
    assert f"of {team.root}, taken " in team.ackd("restore", str(packed), "--dry-run").stdout
    said = json.loads(team.ackd("restore", str(packed), "--dry-run", "--json").stdout)
    assert (said["ok"], said["root"], said["has_config"]) == (True, str(team.root), True)


def test_the_config_comes_back_only_where_that_is_said(team: Team, packed: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    result = team.ackd("restore", str(packed), "--root", str(new / ".ackd"), "--config-to", str(new / "ackd.toml"))
    assert result.exit_code == 0, result.output
    assert (new / "ackd.toml").read_bytes() == (team.home / "ackd.toml").read_bytes()
    assert "it names the root" not in result.stdout
    other = team.ackd("restore", str(packed), "--root", str(tmp_path / "o"), "--config-to", str(tmp_path / "o.toml"))
    assert f'set root = "{tmp_path}/o" before you use it' in other.stdout
    words = ["restore", str(packed), "--root", str(tmp_path / "third"), "--config-to", str(tmp_path / "o.toml")]
    refused(team, 73, "exists: nothing is replaced", *words)
    assert not (tmp_path / "third").exists()


def test_a_backup_of_a_bare_root_has_no_config(team: Team, tmp_path: Path) -> None:
    (team.home / "ackd.toml").unlink()
    (tmp_path / "bare/queue/ann").mkdir(parents=True)
    made = team.ackd("backup", str(tmp_path / "b.tar"), "--root", str(tmp_path / "bare"))
    assert made.exit_code == 0, made.output
    words = [
        "restore",
        str(tmp_path / "b.tar"),
        "--root",
        str(tmp_path / "new"),
        "--config-to",
        str(tmp_path / "c.toml"),
    ]
    refused(team, 73, "holds no ackd.toml", *words)
