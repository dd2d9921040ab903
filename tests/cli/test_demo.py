"""The demo's parts; the whole of it is tests/acceptance/test_demo.py."""

from __future__ import annotations

import os
import stat
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.cli import demo
from ackd.config.model import load
from ackd.endpoints.tmux.screen import load_profile
from ackd.endpoints.tmux.settings import TmuxSettings
from ackd.storage.session_log import Line

if TYPE_CHECKING:
    from ackd.cli.demo_story import DemoStory


def line(type_: str, **data: Any) -> Line:
    return Line("2026-11-16T01:02:03.000000Z", "s", 1, "daemon", type_, data, b"")


def stage_at(place: Path, *, pane: bool = True) -> demo.DemoStage:
    return demo.DemoStage(place, "" if pane else "there is no tmux on this machine")


@pytest.mark.parametrize("pane", [True, False])
def test_the_team_it_lays_out_is_one_that_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pane: bool
) -> None:
    monkeypatch.setenv("ACKD_AGENT", "someone")
    stage = stage_at(tmp_path, pane=pane)
    environment = demo._lay_out(stage)
    config = load(tmp_path / "ackd.toml")
    assert ("reviewer" in config.agents) is pane
    for table in config.agents.values():
        assert all(
            (tmp_path / word).stat().st_mode & stat.S_IXUSR
            for word in getattr(table, "command", ())
            if word.endswith((".sh", ".py"))
        )
    for script in tmp_path.glob("*.sh"):
        subprocess.run(["sh", "-n", str(script)], check=True)
    if pane:
        assert config.tmux.socket == str(stage.socket)
        reviewer = config.agents["reviewer"]
        assert isinstance(reviewer, TmuxSettings)
        load_profile(reviewer.profile, config.profiles)
    assert "ACKD_AGENT" not in environment
    said = subprocess.run(["ackd", "--version"], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("ackd ")
    subprocess.run(["python3", "-c", "import ackd.worker"], env=environment, capture_output=True, check=True)
    assert environment["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")


def test_without_tmux_it_says_so_in_one_line_and_goes_on_without_the_reviewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    stage = demo.DemoStage.at(tmp_path)
    assert not stage.pane
    demo._introduce(stage)
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "no tmux" in line]
    assert said.split() == ["reviewer", *"left out: there is no tmux on this machine".split()]
    gone = demo.expected(pane=True) - demo.expected(pane=False)
    assert gone == Counter(
        {
            ("task_assignment", "reviewer", "completed"): 1,
            ("task_completed", "coordinator", "completed"): 1,
            ("progress_update", "leader", "completed"): 1,
        }
    )


def test_where_no_socket_can_be_the_reviewer_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/tmux")
    assert demo.DemoStage.at(tmp_path).socket == tmp_path / "tmux"
    assert "too long" in demo.DemoStage.at(tmp_path / ("x" * 100)).no_pane


def test_what_it_says_itself_fits_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pane in (True, False):
        demo._introduce(stage_at(Path("/tmp/ackd-demo-abcdefgh"), pane=pane))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def story() -> DemoStory:
    return demo._story(quiet=True)


def test_steps_that_ran_twice_or_not_at_all_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "builder.steps").write_text("compile 1\ntest 2\npackage 2\nreport 2\n")
    (tmp_path / "translator.steps").write_text("german 1\ngerman 2\n")
    demo._epilogue(stage_at(tmp_path), demo._lay_out(stage_at(tmp_path)), story(), quiet=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "The builder's steps: compile, test, package, report (each once, in order)." in said
    assert "The translator's steps: german, german (not as planned: german, french, " in said
    assert demo._steps(tmp_path) != demo.STEPS


def test_how_a_message_ended_is_the_last_word_about_it() -> None:
    lines = [
        line("message_queued", message_id="1", agent="a", message_type="message"),
        line("message_told", message_id="1", agent="a"),
        line("message_completed", message_id="1", agent="a"),
        line("message_queued", message_id="1", agent="b", message_type="message"),
        line("message_told", message_id="1", agent="b"),
        line("message_queued", message_id="2", agent="a", message_type="task_list"),
    ]
    ends = demo._ends(lines)
    assert ends == Counter(
        {("message", "a", "completed"): 1, ("message", "b", "told"): 1, ("task_list", "a", "queued"): 1}
    )
    assert demo._words(ends).startswith("1 message to a completed, ")
    assert demo._words(Counter()) == "none"


def test_the_commands_it_names_work_where_it_sends_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = demo._lay_out(stage_at(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    demo._epilogue(stage_at(tmp_path), environment, story(), quiet=True)
    said = capsys.readouterr().out.splitlines()
    commands = [line.partition("#")[0].strip() for line in said if "#" in line]
    assert "bin/ackd tail -n 500" in commands
    for command in commands[-2:]:
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_programs_get_the_ends(tmp_path: Path) -> None:
    told = demo._as_data(stage_at(tmp_path), demo.expected(pane=True), well=True)
    assert (told["as_expected"], told["pane"]) == (True, True)
    assert {"type": "dead_letter", "to": "coordinator", "end": "completed", "count": 1} in told["ends"]  # type: ignore[operator]
    assert demo._as_data(stage_at(tmp_path), Counter(), well=False)["as_expected"] is False
