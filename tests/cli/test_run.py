"""The words of ``ackd run`` before there is a daemon; what it does is tests/acceptance."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from ackd.cli import main as main_module
from ackd.cli import run as run_module
from ackd.core.errors import ImpossibleEvent, RootHeld
from ackd.facts.table import FACTS
from tests.cli.runner import run
from tests.runtime.recording_view import RecordingView

if TYPE_CHECKING:
    from pathlib import Path


def test_quiet_leaves_out_the_routine_and_only_that() -> None:
    shown = RecordingView()
    view = run_module._Quietly(shown)
    for type_ in (
        *sorted(type_ for type_, row in FACTS.items() if row.routine),
        "message_dead",
        "session_start",
        "something_new",
    ):
        view.show(type_, {}, 0)
    view.flush()
    assert [type_ for type_, _ in shown.shown] == ["message_dead", "session_start", "something_new"]
    assert shown.flushes == 1


def test_a_bug_leaves_its_trace_and_a_named_condition_only_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_module._leave_a_trace(RootHeld("/r", 1))
    run_module._leave_a_trace(FileNotFoundError("x"))
    assert capsys.readouterr().err == ""
    run_module._leave_a_trace(ImpossibleEvent("delivery", "dead", "told"))
    run_module._leave_a_trace(ZeroDivisionError("a bug"))
    said = capsys.readouterr().err
    assert "ImpossibleEvent" in said
    assert "a bug" in said


def test_a_thread_that_never_ends_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr("os._exit", left.append)
    go = threading.Event()
    alone = [thread for thread in threading.enumerate() if not thread.daemon] == [threading.main_thread()]
    if alone:
        main_module._leave_threads_behind(3)
        assert left == []
    stuck = threading.Thread(target=go.wait)
    stuck.start()
    try:
        main_module._leave_threads_behind(3)
        assert left == [3]
    finally:
        go.set()
        stuck.join()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('[agents.a]\nendpoint = "tmux"\n', "needs a pane"),
        ('[agents.a]\nendpoint = "exec"\n', "needs a command"),
        ("[delivery]\nretry_limits = 3\n", "retry_limit"),
    ],
)
def test_a_config_that_cannot_be_run_is_refused_with_78(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, words: str
) -> None:
    (tmp_path / "ackd.toml").write_text(config)
    monkeypatch.chdir(tmp_path)
    result = run(["run"])
    assert result.exit_code == 78
    assert words in result.stderr
    assert not (tmp_path / ".ackd").exists()


def test_a_root_where_nothing_can_be_made_is_73(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "ackd", "run", "--root", "/proc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 73
    assert done.stderr.startswith("ackd: cannot write /proc/")
    assert len(done.stderr.splitlines()) == 1
