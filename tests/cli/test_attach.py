"""`ackd agent attach`: a real pane of a real tmux, and what a process prints."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other

PANES = """
[tmux]
socket = "{socket}"
[agents.critic]
endpoint = "tmux"
pane = "my team:0.0"
[agents.painter]
endpoint = "tmux"
title = "the painter's"
[agents.lost]
endpoint = "tmux"
pane = "elsewhere:0.0"
"""
ACKD = [sys.executable, "-c", "from ackd.cli.main import main; main()"]


# --- panes --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def tmux(team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux on this machine")
    monkeypatch.delenv("TMUX", raising=False)
    socket = tmp_path / "tmux.sock"
    command = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    words = ["new-session", "-d", "-s", "my team", "-x", "80", "-y", "24", "echo LOOK HERE; exec sleep 600"]
    subprocess.run([*command, *words], check=True)
    (team.home / "ackd.toml").write_text(PANES.format(socket=socket))
    yield command
    subprocess.run([*command, "kill-server"], check=True)


def test_a_pane_is_found_by_its_target_or_title_and_opened_by_tmux(team: Team, tmux: list[str]) -> None:
    subprocess.run([*tmux, "split-window", "-d", "-t", "my team:0.0", "sleep 600"], check=True)
    subprocess.run([*tmux, "select-pane", "-t", "my team:0.1", "-T", "the painter's"], check=True)
    found = team.json("agent", "attach", "critic")
    assert found["command"][1:] == ["-S", tmux[2], "attach-session", "-t", "$0:0.0"]
    assert team.json("agent", "attach", "painter")["command"][-1] == "$0:0.1"
    inside = team.json("agent", "attach", "critic", env={"TMUX": "/tmp/x,1,0"})
    assert inside["command"][-3:] == ["switch-client", "-t", "$0:0.0"]


def test_the_pane_that_the_daemon_found_comes_first(team: Team, tmux: list[str]) -> None:
    split = [*tmux, "split-window", "-d", "-P", "-F", "#{pane_id}", "-t", "my team:0.0", "sleep 600"]
    pane = subprocess.run(split, check=True, capture_output=True, text=True).stdout.strip()
    lock = root_lock.hold(team.root / "run")
    told = {"agents": {"critic": {"endpoint": "tmux", "state": "busy", "detail": f"pane {pane}"}}}
    (team.root / "run" / "status.json").write_text(json.dumps(told))
    assert team.json("agent", "attach", "critic")["command"][-1] == "$0:0.1"
    lock.release()


@pytest.mark.usefixtures("tmux")
def test_a_pane_that_is_not_there_is_no_other(team: Team) -> None:
    for name in ("lost", "painter"):
        result = team.ackd("agent", "attach", name)
        assert (result.exit_code, f"{name} has no pane now" in result.stderr) == (66, True)


def test_tmux_takes_our_place(team: Team, tmux: list[str]) -> None:
    main, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        [*ACKD, "agent", "attach", "critic"], stdin=terminal, stdout=terminal, stderr=terminal, env=env, cwd=team.home
    ) as child:
        os.close(terminal)
        assert b"LOOK HERE" in read_until(main, b"LOOK HERE")
        subprocess.run([*tmux, "detach-client", "-s", "my team"], check=True)
        read_until(main, b"[detached")
        assert child.wait(60) == 0
    os.close(main)


def read_until(fd: int, wanted: bytes, deadline_s: float = 20) -> bytes:
    seen, deadline = b"", time.monotonic() + deadline_s
    while wanted not in seen:
        ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(fd, 65_536)
    return seen


def test_a_machine_without_tmux_says_so(team: Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (team.home / "ackd.toml").open("a") as config:
        config.write('[agents.critic]\nendpoint = "tmux"\npane = "x:0.0"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    result = team.ackd("agent", "attach", "critic")
    assert (result.exit_code, "there is no tmux" in result.stderr) == (66, True)


# --- processes ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def coder(team: Team) -> Team:
    with (team.home / "ackd.toml").open("a") as config:
        config.write('[agents.coder]\nendpoint = "process"\ncommand = ["cat"]\n')
    return team


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_process_prints_and_its_lines_of_the_log_are_followed(coder: Team, as_json: bool) -> None:
    lock, log = root_lock.hold(coder.root / "run"), SessionLog.open(coder.root / "logs", started_at=time.time())
    errors = coder.root / "logs" / "coder.stderr.log"
    errors.write_text("long ago\n" * 20 + "just now\n")
    log.record("child_started", {"agent": "coder", "pid": 4242}, time.time())
    log.record("child_started", {"agent": "other", "pid": 666}, time.time())
    log.flush()
    words = ["agent", "attach", "coder", *(["--json"] if as_json else [])]
    with subprocess.Popen([*ACKD, *words], stdout=subprocess.PIPE, cwd=coder.home) as child:
        assert child.stdout is not None
        begun = read_until(child.stdout.fileno(), b"just now")
        assert b"4242" in begun
        assert b"666" not in begun
        assert begun.count(b"long ago") == 9
        with errors.open("a") as file:
            file.write("half a ")
            file.flush()
            file.write("line \x1b[2J\n")
        shown = read_until(child.stdout.fileno(), b"half a line")
        log.record("child_ended", {"agent": "coder", "pid": 4242, "exit": 1}, time.time())
        log.flush()
        shown += read_until(child.stdout.fileno(), b"child_ended" if as_json else b"pid 4242 ended, exit 1")
        assert b"\x1b" not in shown
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    log.close()
    lock.release()


def test_without_a_daemon_there_is_no_process(coder: Team) -> None:
    result = coder.ackd("agent", "attach", "coder")
    assert (result.exit_code, "no process of coder's" in result.stderr) == (69, True)
    (coder.root / "logs").mkdir(parents=True)
    (coder.root / "logs" / "coder.stderr.log").touch()
    assert "coder.stderr.log" in coder.ackd("agent", "attach", "coder").stderr


# --- the others ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("worker_1", "`ackd tail -f --agent worker_1`"),
        ("system", "`ackd tail -f --agent system`"),
        ("leader", "`ackd inbox leader`"),
    ],
)
def test_who_has_neither_is_told_what_to_use_instead(team: Team, name: str, instead: str) -> None:
    result = team.ackd("agent", "attach", name)
    assert (result.exit_code, instead in result.stderr) == (1, True)
