"""``ackd demo``, as a person types it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ackd.cli.demo_story import SENTENCES
from tests.acceptance.teams import Team
from tests.waiting import Stopwatch


def run_demo(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = Team(tmp_path / "unused").environment | {"TMPDIR": str(tmp_path), "COLUMNS": "120"} | environment
    command = [sys.executable, "-m", "ackd", "demo"]
    demo = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr
    assert demo.stderr == ""
    assert "Every message ended where it should." in demo.stdout
    return demo


def place_of(demo: subprocess.CompletedProcess[str], tmp_path: Path) -> Path:
    (place,) = re.findall(r"^  cd (.*)$", demo.stdout, re.MULTILINE)
    assert Path(place).parent == tmp_path
    return Path(place)


def kept(place: Path, *words: str) -> str:
    """The output of a command in the directory that the demo has left."""
    command = [sys.executable, "-m", "ackd", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout


def sentences_said(demo: subprocess.CompletedProcess[str]) -> list[str]:
    """The agents of the sentences that were said, in the order of the table."""
    said = " ".join(demo.stdout.split())
    return [one.agent for one in SENTENCES if one.words in said]


def assert_all_that_needs_no_tmux(demo: subprocess.CompletedProcess[str], place: Path, lives: list[str]) -> None:
    stood = demo.stdout.partition("says how everybody is")[2].partition("`ackd inbox user`")[0]
    rows = dict(re.findall(r"^(\w+) +(?:exec|process|tmux) +(\w+)", stood, re.MULTILINE))
    assert rows == dict.fromkeys(
        ["leader", "coordinator", "ignitian_1", "ignitian_2", "ignitian_3", *lives], "available"
    )
    assert "no connection to the site" in demo.stdout.partition("`ackd dead list` lists")[2]
    assert "The builder's steps: compile, test, package, report (each once, in order)." in demo.stdout
    log = kept(place, "tail", "-n", "500")
    assert "ended: SIGTERM" in log  # it was still running when it was asked
    assert re.search(r"its worker died: exit \d+ \(SIGABRT\)", log)
    assert "The translator's steps: german, french, japanese, spanish, report (each" in demo.stdout
    generations = [line.split()[1] for line in (place / "translator.steps").read_text().splitlines()]
    assert generations == ["1", "1", "1", "2", "2"]


def test_the_demo_ends_well_in_half_a_minute_and_shows_what_it_promises(tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    watch = Stopwatch()
    demo = run_demo(tmp_path)
    assert watch.unhindered_s() < 30
    place = place_of(demo, tmp_path)
    assert_all_that_needs_no_tmux(demo, place, ["builder", "translator", "reviewer"])
    assert sentences_said(demo) == [one.agent for one in SENTENCES]
    (message,) = (place / ".ackd/archive").glob("*/reviewer/*.mime")
    story = kept(place, "explain", str(message))
    assert "woken once (up to rung 2)" in story
    assert re.search(r"nudge +silent: rung 2 of its ladder", story)
    assert "Status check" not in story
    # On a busy machine its turn may be over when the screen is looked at: then the transcript is the proof.
    seen = "the pane went busy|the line stands in its transcript"
    assert re.search(rf"keys +nudge 2: pressed Escape, Escape, C-c, Enter; seen: ({seen})", story)
    asked = subprocess.run(["tmux", "-S", str(place / "tmux"), "list-panes", "-a"], capture_output=True, check=False)
    assert asked.returncode != 0, "its server is gone"
    assert "not running" in kept(place, "status")
    shutil.rmtree(place)


def test_without_tmux_the_demo_says_so_and_ends_as_well(tmp_path: Path) -> None:
    """A PATH with nothing but what a small machine has."""
    programs = tmp_path / "small"
    programs.mkdir()
    for name in ("sh", "cat", "echo", "find", "grep", "mkdir", "sed", "sleep", "wc"):
        (programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    demo = run_demo(tmp_path, PATH=str(programs))
    place = place_of(demo, tmp_path)
    assert re.search(r"^  reviewer +left out: there is no tmux", demo.stdout, re.MULTILINE)
    assert sentences_said(demo) == [one.agent for one in SENTENCES if one.agent != "reviewer"]
    assert_all_that_needs_no_tmux(demo, place, ["builder", "translator"])
    shutil.rmtree(place)
