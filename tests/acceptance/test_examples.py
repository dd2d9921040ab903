"""Each team of config/examples, as it is shipped: `ackd check` finds nothing wrong, and its agents get and end their mail."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ackd.config.model import load
from ackd.coordination.pipeline.settings import PipelineSettings
from ackd.endpoints.tmux.settings import TmuxSettings
from tests.acceptance.pages import REPOSITORY
from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLES = REPOSITORY / "config" / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.toml"))


@pytest.fixture
def tmux_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example uses tmux's usual server; here that is one below the test's directory."""
    sockets = tmp_path / "t"
    sockets.mkdir()
    monkeypatch.setenv("TMUX_TMPDIR", str(sockets))
    monkeypatch.delenv("TMUX", raising=False)
    yield
    if shutil.which("tmux") is not None:
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)


def shipped(name: str, place: Path) -> Team:
    """The example in a directory of its own, as a user would copy it."""
    team = Team(place)
    shutil.copytree(EXAMPLES, place, dirs_exist_ok=True)
    (place / f"{name}.toml").replace(place / "ackd.toml")
    config = load(place / "ackd.toml")
    team.root = config.root_dir
    return team


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("tmux_of_its_own")
def test_an_example_passes_check_and_runs(name: str, tmp_path: Path) -> None:
    team = shipped(name, tmp_path / "p")
    config = load(team.place / "ackd.toml")
    if name in ("terminals", "ignite") and shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    assert team.ackd("init").returncode == 0
    checked = team.ackd("check")
    assert checked.returncode == 0, checked.stdout
    assert "fail " not in checked.stdout
    with running(team):
        for agent, table in config.agents.items():
            message = team.send(agent)
            if isinstance(table, TmuxSettings) and not table.start:  # nobody has opened its pane: its mail waits
                assert team.fact("agent_state", agent=agent)["state"] == "parked"
                continue
            reads = table.endpoint == "inbox"
            team.fact("message_told" if reads else "message_completed", message=message, agent=agent)
        if config.settings(PipelineSettings) is not None:
            assert team.ackd("story", "start", "PROJ-1").returncode == 0
            assert team.fact("story_done")["story"] == "PROJ-1"
        assert not team.facts("message_dead", "message_rejected", "stray_file", "io_error")


def test_the_board_of_the_example_decides(tmp_path: Path) -> None:
    team = shipped("board", tmp_path)
    assert team.ackd("bus", "init", "conductor/tracks/api").returncode == 0
    with running(team):
        assert team.ackd("board", "open", "--checkpoint", "EVALUATE_PLAN", "--proposal", "Use SQLite").returncode == 0
        resolved = team.fact("board_resolved")
    assert resolved["verdict"] == "APPROVED"


def test_the_ensemble_of_the_example_goes_from_a_goal_to_a_summary(tmp_path: Path) -> None:
    team = shipped("ensemble", tmp_path)
    for directory in ("tasks", "reports", "ack"):
        (team.place / "queue" / directory).mkdir(parents=True)
    with running(team):
        team.send("conductor", "--type", "user_goal", body="goal: two pages\n")
        taken = team.until(
            lambda: [fact for fact in team.facts("file_taken_in") if fact["file"].endswith("completion-summary.yaml")]
        )
        assert taken[0]["file"] == "queue/reports/completion-summary.yaml"
        team.until(lambda: team.facts("message_completed", message=taken[0]["message_id"]))
        assert not team.facts("message_dead", "message_retry", "stray_file")


def test_every_program_beside_the_examples_is_used_by_one() -> None:
    named = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES.iterdir() if path.is_file())
    for path in EXAMPLES.iterdir():
        if path.is_file() and path.suffix != ".toml" and path.name != "README.md":
            assert path.name in named
            assert path.suffix in ("", ".py") or os.access(path, os.X_OK)
