"""The demo's parts; the whole of it is tests/acceptance/test_demo.py."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any

from ackd.adapters.session_log import Line
from ackd.config import load
from ackd.frontends.cli import demo

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def line(type_: str, **data: Any) -> Line:
    return Line("2026-11-16T01:02:03.000000Z", "s", 1, "daemon", type_, data, b"")


def test_the_team_it_lays_out_is_one_that_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKD_AGENT", "someone")
    environment = demo._lay_out(tmp_path)
    load(tmp_path / "ackd.toml").require_built()
    commands = [agent["command"] for agent in tomllib.loads((tmp_path / "ackd.toml").read_text())["agents"].values()]
    for command in commands:
        assert (tmp_path / command[0]).stat().st_mode & stat.S_IXUSR
        subprocess.run(["sh", "-n", str(tmp_path / command[0])], check=True)
    assert "ACKD_AGENT" not in environment
    said = subprocess.run(["ackd", "--version"], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("ackd ")
    assert environment["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")


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


def test_it_waits_for_a_page_that_has_heard_of_the_end_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "status.json"
    ends = Counter({("message", "a", "completed"): 2})
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        page.write_text("{" if len(slept) < 3 else json.dumps({"totals": {"completed": 2}}))

    monkeypatch.setattr("time.sleep", sleep)
    demo._await_page(page, ends)
    assert len(slept) == 3


def test_the_commands_it_names_work_where_it_sends_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = demo._lay_out(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    demo._epilogue(tmp_path, environment)
    said = capsys.readouterr().out.splitlines()
    commands = [line.partition("#")[0].strip() for line in said if "#" in line]
    assert "bin/ackd tail -n 500" in commands
    for command in commands[-2:]:
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_programs_get_the_ends(tmp_path: Path) -> None:
    told = demo._as_data(tmp_path, demo.EXPECTED)
    assert told["as_expected"] is True
    assert {"type": "dead_letter", "to": "coordinator", "end": "completed", "count": 1} in told["ends"]  # type: ignore[operator]
    assert demo._as_data(tmp_path, Counter())["as_expected"] is False
