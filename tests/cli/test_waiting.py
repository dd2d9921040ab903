"""Commands that wait say so on a terminal, and Ctrl-C says what stays; real processes on a real pseudo terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ackd.storage import root_lock
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

Team = Any  # conftest.py's: test files do not import each other

ACKD = [sys.executable, "-c", "from ackd.cli.main import main; main()"]


@pytest.fixture
def held(team: Team) -> Iterator[None]:
    """Have a daemon, as far as a command can see: one that holds the root, and says nothing."""
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


@contextmanager
def on_terminal(
    *words: str, stdout: int | None = None, columns: int = 80
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen([*ACKD, *words], stdout=stdout or terminal, stderr=terminal, env=env) as child:
        os.close(terminal)
        try:
            yield child, main
        finally:
            child.kill()
    os.close(main)


def read_until(fd: int, words: str) -> str:
    seen, deadline = b"", time.monotonic() + PATIENCE_S
    while words.encode() not in seen:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(fd, 65536)
    return seen.decode()


def read_rest(fd: int) -> str:
    seen = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError:  # nobody has the terminal any more
            return seen.decode()
        if not more:
            return seen.decode()
        seen += more


@pytest.mark.usefixtures("held")
def test_send_shows_what_it_waits_for_and_ctrl_c_says_that_the_message_stays_queued(team: Team) -> None:
    with on_terminal("send", "leader", "--body", "x", "--wait", "acked") as (child, terminal):
        shown = read_until(terminal, "Ctrl-C ends the wait")
        assert "queued " in shown
        assert "waiting until leader has acked it, 300 s at most" in shown
        child.send_signal(signal.SIGINT)
        said = read_rest(terminal)
        assert child.wait(PATIENCE_S) == 130
    assert "stays queued; `ackd explain " in " ".join(said.split())
    assert len(team.files()) == 1


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_wider_than_the_terminal_so_no_word_is_broken(team: Team, columns: int) -> None:
    words = ("send", "leader", "user", "worker_1", "--body", "x", "--wait", "completed", "--timeout", "1")
    with on_terminal(*words, columns=columns) as (child, terminal):
        said = read_rest(terminal)
        assert child.wait(PATIENCE_S) == 75
    lines = said.splitlines()
    whole = " ".join(line.strip() for line in lines)
    assert "waiting until leader, user, worker_1 has completed it, 1 s at most; Ctrl-C ends the wait" in whole
    assert "not completed within 1 s: leader has not taken it yet; user has not taken it yet" in whole
    assert max(len(line) for line in lines if "@" not in line) <= columns  # an id is not cut, however long


@pytest.mark.parametrize("columns", [40, 80])
def test_a_story_is_folded_below_its_columns(team: Team, columns: int) -> None:
    message_id = team.send("leader", "--body", "x", "--thread-id", "a-thread-with-a-name")
    with on_terminal("explain", message_id, columns=columns) as (child, terminal):
        said = re.sub(r"\x1b\[[\d;]*m", "", read_rest(terminal))
        assert child.wait(PATIENCE_S) == 0
    lines = [line for line in said.splitlines() if "/" not in line and message_id not in line]
    assert max(map(len, lines)) <= columns
    whole = " ".join(" ".join(said.split()).split())
    assert "start it with `ackd run`" in whole
    (begun,) = [number for number, line in enumerate(lines) if line.startswith("  next ")]
    indent = 4 if columns < 60 else 13
    assert re.match(rf" {{{indent}}}\S", lines[begun + 1])


@pytest.mark.usefixtures("held")
def test_a_program_gets_its_json_also_after_ctrl_c(team: Team) -> None:
    reader, writer = os.pipe()
    with on_terminal("send", "leader", "--body", "x", "--wait", "acked", "--json", stdout=writer) as (child, terminal):
        os.close(writer)
        read_until(terminal, "waiting until leader has acked it")
        child.send_signal(signal.SIGINT)
        with os.fdopen(reader) as said:
            found = json.load(said)
        assert child.wait(PATIENCE_S) == 130
    assert found["error"]["code"] == 130
    assert found["message_id"] in team.files()[0].read_text()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("words", "waits_for", "stays"),
    [
        (["nudge", "coder"], "for the daemon to nudge coder", "the request stays in receipts/"),
        (["bus", "wait", "TASK_COMPLETE_9"], "for the event TASK_COMPLETE_9, 300 s at most", ""),
        (
            ["lock", "acquire", "a.py", "--agent", "leader", "--wait", "90"],
            "in line for a.py, 90 s at most",
            "leader no longer stands in line for a.py",
        ),
    ],
)
def test_other_waits_are_shown_too(team: Team, words: list[str], waits_for: str, stays: str) -> None:
    with (team.home / "ackd.toml").open("a") as config:
        config.write('[agents.coder]\nendpoint = "process"\ncommand = ["cat"]\n')
    assert team.ackd("bus", "init").exit_code == 0
    assert team.ackd("lock", "acquire", "a.py", "--agent", "user").exit_code == 0
    with on_terminal(*words) as (child, terminal):
        assert f"waiting {waits_for}" in read_until(terminal, "Ctrl-C ends the wait")
        child.send_signal(signal.SIGINT)
        said = read_rest(terminal)
        assert child.wait(PATIENCE_S) == 130
    assert stays in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("held")
def test_where_nobody_looks_nothing_is_said_of_a_wait(team: Team) -> None:
    result = team.ackd("send", "leader", "--body", "x", "--wait", "acked", "--timeout", "0.6")
    assert result.exit_code == 75
    assert "waiting" not in result.output
