"""A team on disk and the command line in front of it, in one process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.runner import Result, run

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
escalate_to = "leader"
extra_types = ["code_review"]

[agents.leader]
[agents.worker_1]
endpoint = "exec"
command = ["true"]
"""


@dataclass
class Team:
    """A project directory with an ackd.toml; `ackd` runs in it."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / ".ackd"

    def ackd(self, *args: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
        return run(args, stdin=stdin, env=env)

    def json(self, *args: str, env: dict[str, str] | None = None) -> Any:
        result = self.ackd(*args, "--json", env=env)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def send(self, *args: str) -> str:
        """The id of a message that was queued."""
        message_id = self.json("send", *args)["message_id"]
        assert isinstance(message_id, str)
        return message_id

    def files(self, where: str = "queue") -> list[Path]:
        """Every file below a directory of the root, hidden ones included: nothing may be left behind."""
        return sorted(path for path in (self.root / where).rglob("*") if not path.is_dir())

    def receipts(self) -> list[dict[str, Any]]:
        """Every receipt, as a daemon sees them: not those that another process is still writing, under a dot-name."""
        return [json.loads(path.read_bytes()) for path in self.files("receipts") if path.name[0] != "."]


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT", "ACKD_DEBUG", "TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "project"
    home.mkdir()
    (home / "ackd.toml").write_text(CONFIG)
    monkeypatch.chdir(home)
    return Team(home)
