"""`ackd status`: what the daemon says while it runs, what the directories say when it does not."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator

Team = Any  # conftest.py's: test files do not import each other


TOLD = {
    "daemon": {
        "pid": os.getpid(),
        "session_id": "20261116-010203",
        "started_at": "2026-11-16T01:02:03Z",
        "watch": "inotify",
    },
    "agents": {
        "leader": {
            "endpoint": "inbox",
            "state": "parked",
            "queued": 7,
            "in_flight": 1,
            "reason": "limit",
            "until": "5pm",
        },
        "worker-1": {"endpoint": "exec", "state": "busy", "queued": 0, "in_flight": 1},
    },
    "totals": {"queued": 7, "in_flight": 2, "completed": 40, "dead": 1, "corrupt": 0},
    "escalations": [
        {
            "escalation_id": "17.0.abcd@x",
            "agent": "worker",
            "cause": "dead",
            "to": "leader",
            "since": "2026-01-01T00:00:00Z",
            "counted": 2,
        },
        {"agent": "leader", "cause": "silent"},
    ],
    "at": "2026-11-16T01:05:00Z",
}


@pytest.fixture
def held(team: Team) -> Iterator[None]:
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


def test_without_a_daemon_the_directories_are_counted_and_states_are_unknown(team: Team) -> None:
    team.send("leader", "worker_1", "--body", "x")
    for name in ("corrupt", "dead_letter"):
        (team.root / "queue" / name).mkdir()
    (team.root / "queue" / "corrupt" / "a.mime").touch()
    (team.root / "queue" / "corrupt" / "a.mime.reason").touch()
    (team.root / "queue" / "dead_letter" / "b.mime").touch()
    path = next(path for path in team.files() if path.parent.name == "leader")
    path.rename(path.parent / "processed" / path.name)
    picture = team.json("status")
    assert picture["daemon"] == {"running": False, "pid": None, "session_id": None}
    counts = {"queued": 0, "in_flight": 1, "retrying": 0, "unread": 0}
    assert picture["agents"]["leader"] == {"endpoint": "inbox", "state": "unknown", **counts}
    assert picture["agents"]["worker_1"]["endpoint"] == "exec"
    assert picture["agents"]["system"]["endpoint"] == "handler"
    assert picture["totals"] == {**counts, "queued": 1, "completed": 0, "dead": 1, "corrupt": 1}


@pytest.mark.usefixtures("held")
def test_a_running_daemon_is_believed_but_the_directories_are_counted(team: Team) -> None:
    team.send("leader", "--body", "x")
    (team.root / "run" / "status.json").write_text(json.dumps(TOLD))
    picture = team.json("status")
    assert picture["daemon"] == {**TOLD["daemon"], "running": True}  # type: ignore[dict-item]
    assert (picture["agents"]["leader"]["state"], picture["agents"]["leader"]["queued"]) == ("parked", 1)
    assert picture["agents"]["worker_1"]["state"] == "busy"
    assert (picture["totals"]["queued"], picture["totals"]["dead"]) == (1, 0)
    assert "worker-1" not in picture["agents"]
    assert (picture["totals"]["completed"], picture["at"]) == (40, "2026-11-16T01:05:00Z")
    shown = team.ackd("status").stdout
    assert "running on" in shown
    assert f"pid {os.getpid()}," in shown
    assert "limit, until 5pm" in shown
    assert re.search(
        r"^open escalation: dead: worker, told leader \d+ days ago, 2 counted: `ackd explain 17.0.abcd`$",
        shown,
        re.MULTILINE,
    )
    assert "open escalation: silent: leader\n" in shown


def test_what_a_dead_daemon_left_behind_is_not_believed(team: Team) -> None:
    root_lock.hold(team.root / "run").release()
    (team.root / "run" / "status.json").write_text(json.dumps(TOLD))
    picture = team.json("status")
    assert picture["daemon"]["running"] is False
    assert picture["agents"]["leader"]["state"] == "unknown"


@pytest.mark.usefixtures("held")
def test_the_page_of_another_daemon_than_the_one_that_runs_is_not_believed(team: Team) -> None:
    """A new one has the root, and has not written its first page yet."""
    stale = {**TOLD, "daemon": {"pid": os.getpid() + 1}}
    (team.root / "run" / "status.json").write_text(json.dumps(stale))
    picture = team.json("status")
    assert (picture["daemon"]["running"], picture["daemon"]["pid"]) == (True, os.getpid())
    assert picture["agents"]["leader"]["state"] == "unknown"


def page(team: Team, log: SessionLog, state: str) -> None:
    """As the daemon writes it: whole, and with how far the log reached."""
    said = {"file": log.path.name, "bytes": log.size_bytes()}
    content = {"daemon": {"pid": os.getpid(), "log": said}, "agents": {"leader": {"state": state}}}
    (team.root / "run" / ".status.json.tmp").write_text(json.dumps(content))
    (team.root / "run" / ".status.json.tmp").rename(team.root / "run" / "status.json")


@pytest.mark.usefixtures("held")
def test_a_page_that_knows_less_than_the_log_is_waited_for(team: Team) -> None:
    log = SessionLog.open(team.root / "logs", started_at=time.time())
    page(team, log, "available")
    log.record("agent_request", {"agent": "leader", "answer": "paused"}, time.time())
    log.flush()
    later = threading.Timer(0.2, page, (team, log, "paused"))
    later.start()
    assert team.json("status")["agents"]["leader"]["state"] == "paused"
    later.join()
    log.record("agent_request", {"agent": "leader", "answer": "resumed"}, time.time())
    log.flush()  # and no page follows: the disk is full, or the daemon is stopped
    assert team.json("status")["agents"]["leader"]["state"] == "paused"
    log.close()


@pytest.mark.parametrize(
    "said", [3, {"file": 3, "bytes": 4}, {"file": "../x", "bytes": 0}, {"file": "a\0", "bytes": -1}]
)
@pytest.mark.usefixtures("held")
def test_a_page_that_says_nonsense_of_the_log_is_not_waited_for(team: Team, said: object) -> None:
    content = {"daemon": {"log": said}, "agents": {"leader": {"state": "parked"}}}
    (team.root / "run" / "status.json").write_text(json.dumps(content))
    assert team.json("status")["agents"]["leader"]["state"] == "parked"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"agents": 3}', '{"agents": {"leader": 3}}'])
@pytest.mark.usefixtures("held")
def test_a_status_file_that_makes_no_sense_is_nothing_said(team: Team, content: str) -> None:
    (team.root / "run" / "status.json").write_text(content)
    picture = team.json("status")
    assert picture["daemon"]["running"] is True
    assert picture["agents"]["leader"]["state"] == "unknown"


def test_an_empty_team_says_what_to_do(team: Team) -> None:
    shown = team.ackd("status").stdout
    assert "not running" in shown
    assert "no mail yet" in shown


def test_a_queue_that_cannot_be_read_is_no_empty_queue(team: Team) -> None:
    (team.root).mkdir()
    (team.root / "queue").write_text("not a directory")
    result = team.ackd("status")
    assert result.exit_code != 0
    assert "Not a directory" in result.stderr


def read_terminal(fd: int, until: bytes, deadline_s: float = 20) -> bytes:
    seen, deadline = b"", time.monotonic() + deadline_s
    while until not in seen:
        ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(fd, 65536)
    return seen


def test_on_a_terminal_it_watches_until_ctrl_c_and_ids_are_not_cut(team: Team) -> None:
    message_id = team.send(
        "leader", "--body", "a subject that is much too long for a terminal of eighty columns, is it not"
    )
    main, terminal = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-c", "from ackd.cli.main import main; main()"]
    with subprocess.Popen([*command, "status", "--watch"], stdout=terminal, stderr=terminal, env=env) as child:
        read_terminal(main, b"corrupt")
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    subprocess.run([*command, "inbox", "leader"], stdout=terminal, env=env, check=True)
    shown = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", read_terminal(main, "…".encode()))
    assert message_id.partition("@")[0].encode() in shown
    os.close(main)
    os.close(terminal)


def test_completions_by_deletion_outlive_the_daemon(team: Team) -> None:
    """Neither in the archive nor anywhere else on disk: the daemon's own count, and the log after it."""
    log = SessionLog.open(team.root / "logs", started_at=time.time())
    log.record("message_completed", {"message_id": "1@x", "agent": "leader", "by": "file deleted"}, time.time())
    log.flush()
    (team.root / "state").mkdir()
    saved = {"completed": 7, "withdrawn": 1, "log": log.path.name, "offset": log.path.stat().st_size}
    (team.root / "state" / "totals.json").write_text(json.dumps(saved))
    assert team.json("status")["totals"]["completed"] == 7
    log.record("message_completed", {"message_id": "2@x", "agent": "leader", "by": "file deleted"}, time.time())
    log.close()
    assert team.json("status")["totals"]["completed"] == 8
    assert "8 completed" in team.ackd("status").stdout
