"""What broke for users of today's systems: watching. Each test bears the name of its case."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.faults.grip import frozen, passed, queued_events_limited_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["sh", "-c", 'echo "$ACKD_MESSAGE_ID" >>runs']

[agents.reader]
"""


def watch(**settings: object) -> str:
    values = {"settle_s": 0.1, "reconcile_interval_s": 600, **settings}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[watch]\n{lines}[daemon]\ndrain_timeout_s = 2\nstop_timeout_s = 1\n"


INOTIFY = watch(mode="inotify")
POLLING = watch(mode="polling", poll_interval_s=0.1)


def runs(team: Team) -> list[str]:
    path = team.place / "runs"
    return path.read_text().split() if path.exists() else []


# --- idle ---------------------------------------------------------------------------------------------------------------
def test_inotifywait_returns_after_idle_and_the_watcher_exits_a_stale_pid_file_says_it_runs(tmp_path: Path) -> None:
    """[Ensemble inbox_watcher] Idle for longer than a heartbeat of the watcher: it watches on; killed, nobody says so."""
    with running(Team(tmp_path, AGENTS, quick=INOTIFY)) as team:
        passed(team, 6.0)  # inotify_watch.HEARTBEAT_S is 5
        message = team.send("worker")
        team.fact("message_completed", message=message)
        team.kill()
        status = team.ackd("status", "--json")
        assert json.loads(status.stdout)["daemon"]["running"] is False


# --- twice --------------------------------------------------------------------------------------------------------------
def in_place(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        for start in range(0, len(data), 50):
            file.write(data[start : start + 50])
            file.flush()


def renamed(path: Path, data: bytes) -> None:
    (path.parent / f".{path.name}").write_bytes(data)
    (path.parent / f".{path.name}").rename(path)


def hard_linked(path: Path, data: bytes) -> None:
    (path.parent / f".{path.name}").write_bytes(data)
    path.hardlink_to(path.parent / f".{path.name}")
    (path.parent / f".{path.name}").unlink()


def closed_twice(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with contextlib.suppress(FileNotFoundError), path.open("rb+"):
        pass


WRITERS: dict[str, Callable[[Path, bytes], None]] = {
    "in place": in_place,
    "renamed": renamed,
    "hard linked": hard_linked,
    "closed twice": closed_twice,
}


@pytest.mark.parametrize("how", ["inotify", "polling"])
def test_create_and_modify_both_notify_two_nudges_for_one_write(tmp_path: Path, how: str) -> None:
    """[Ensemble] However it is written, in queue/ or in processed/, by inotify or by polling: delivered once."""
    with running(Team(tmp_path, AGENTS, quick=INOTIFY if how == "inotify" else POLLING)) as team:
        ids = []
        for folder in ("", "processed"):
            for number, write in enumerate(WRITERS.values()):
                message = f"{folder or 'queue'}.{number}.a@x"
                ids.append(message)
                box = team.root / "queue" / "worker" / folder
                write(box / f"m{folder}{number}.mime", mime(to="worker", message_id=message))
        for message in ids:
            team.fact("message_completed", message=message)
        passed(team, 0.5)
        assert sorted(runs(team)) == sorted(ids)
        for message in ids:
            assert len(team.facts("message_queued", message=message)) == 1
            assert len(team.facts("message_told", message=message)) == 1
            assert len(team.facts("message_completed", message=message)) == 1
        assert not team.facts("message_duplicate", "message_rejected")


# --- overflow -----------------------------------------------------------------------------------------------------------
@pytest.mark.xdist_group("sysctl")
def test_in_q_overflow_ignored_nine_hours_of_outage(tmp_path: Path) -> None:
    """[Lobster #1518] More happens than the kernel keeps: the log says so, and a scan finds all of it."""
    team = Team(tmp_path, AGENTS, quick=INOTIFY)
    with queued_events_limited_to(16):
        team.start()
    try:
        told = team.send("reader")
        team.fact("message_told", message=told)
        with frozen(team):
            for n in range(40):
                team.drop("worker", mime(to="worker", message_id=f"{n}.1.a@x"), f"m{n}.mime")
            team.drop("newcomer", mime(to="newcomer", message_id="new.1.a@x"), "m.mime")
            for path in (team.root / "queue/reader/processed").glob("*.mime"):
                path.unlink()
            assert team.ackd("send", "reader", "--body", "x").returncode == 0
        team.fact("watch_overflow")
        for n in range(40):
            team.fact("message_completed", message=f"{n}.1.a@x")
        team.fact("message_told", message="new.1.a@x")
        team.fact("message_completed", message=told)
        assert len(runs(team)) == len(set(runs(team))) == 40
        late = team.send("worker")
        team.fact("message_completed", message=late)
    finally:
        team.stop()


# --- before the watch -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [INOTIFY, POLLING], ids=["inotify", "polling"])
def test_events_without_a_rescan_orphan_what_arrived_before_the_watch_was_set(tmp_path: Path, mode: str) -> None:
    """[cli-agent-orchestrator #131] Before the first start, between two, and in a queue that did not exist."""
    team = Team(tmp_path, AGENTS, quick=mode)
    team.drop("worker", mime(to="worker", message_id="before.1.a@x"), "m1.mime")
    team.drop("worker", mime(to="worker", message_id="claimed.1.a@x"), "m2.mime", "processed")
    with running(team):
        team.fact("message_completed", message="before.1.a@x")
        team.fact("message_completed", message="claimed.1.a@x")
        team.stop()
        away = team.send("worker")
        team.drop("late", mime(to="late", message_id="box.1.a@x"), "m.mime")
        team.start()
        team.fact("message_completed", message=away)
        team.fact("message_told", message="box.1.a@x")
        # A directory that comes with a file in it: the file was there before anyone could watch it.
        made = tmp_path / "made"
        (made / "processed").mkdir(parents=True)
        (made / "m.mime").write_bytes(mime(to="made", message_id="made.1.a@x"))
        made.rename(team.root / "queue" / "made")
        team.fact("message_told", message="made.1.a@x")


# --- names --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [INOTIFY, POLLING], ids=["inotify", "polling"])
def test_reports_are_watched_under_one_name_agents_write_another(tmp_path: Path, mode: str) -> None:
    """[Ensemble] Whatever it is called, if it ends in .mime; a dot-name is somebody's draft, anything else is said."""
    team = Team(tmp_path, AGENTS, quick=mode.replace("= 600", "= 0.3"))
    with running(team):
        names = ["T-1.mime", "T-1-completed.mime", "task_completed_1.mime", "Ä ö.mime", "a.b.c.mime", "UPPER.mime"]
        for n, name in enumerate(names):
            team.drop("worker", mime(to="worker", message_id=f"{n}.1.a@x"), name)
        draft = team.root / "queue" / "worker" / ".draft.mime"
        draft.write_bytes(mime(to="worker", message_id="draft.1.a@x"))
        other = team.root / "queue" / "worker" / "T-1-completed.yaml"
        other.write_bytes(mime(to="worker", message_id="yaml.1.a@x"))
        os.utime(other, (1, 1))
        for n in range(len(names)):
            team.fact("message_completed", message=f"{n}.1.a@x")
        stray = team.fact("stray_file", agent="worker")
        assert stray["file"] == "queue/worker/T-1-completed.yaml"
        assert draft.exists()
        assert other.exists()
        assert sorted(runs(team)) == [f"{n}.1.a@x" for n in range(len(names))]
        other.rename(other.with_suffix(".mime"))
        team.fact("message_completed", message="yaml.1.a@x")


def test_an_agent_of_two_spellings_is_one(tmp_path: Path) -> None:
    """`ignitian-1` in the config, `ignitian_1` on disk: one queue, one agent."""
    team = Team(tmp_path, AGENTS.replace("agents.worker", "agents.ignitian-1"), quick=INOTIFY)
    with running(team):
        team.drop("ignitian_1", mime(to="ignitian_1", message_id="1.1.a@x"), "m.mime")
        assert team.fact("message_completed", message="1.1.a@x")["agent"] == "ignitian-1"
        assert team.ackd("send", "ignitian_1", "--body", "x").returncode == 0
        team.until(lambda: len(runs(team)) == 2)


# --- polling ------------------------------------------------------------------------------------------------------------
def test_polling_fallback_that_skips_half_of_what_inotify_covers(tmp_path: Path) -> None:
    """[Ensemble fba89bc] Arrivals, deletions, receipts, new queues, queues that are replaced, what is no message."""
    with running(Team(tmp_path, AGENTS, quick=POLLING)) as team:
        team.until(lambda: team.status()["daemon"]["watch"] == "polling")
        team.fact("message_completed", message=team.send("worker"))
        by_receipt, by_deletion = team.send("reader"), team.send("reader")
        for message in (by_receipt, by_deletion):
            team.fact("message_told", message=message)
        team.ackd("ack", by_receipt, "--agent", "reader")
        team.fact("message_acked", message=by_receipt)
        team.ackd("done", by_receipt, "--agent", "reader")
        team.fact("message_completed", message=by_receipt)
        (path,) = (team.root / "queue/reader/processed").glob("*.mime")
        path.unlink()
        team.fact("message_completed", message=by_deletion)
        team.drop("newcomer", mime(to="newcomer", message_id="new.1.a@x"), "m.mime")
        team.fact("message_told", message="new.1.a@x")
        (team.root / "queue/reader/link.mime").symlink_to("/etc/passwd")
        os.mkfifo(team.root / "queue/reader/fifo.mime")
        team.until(lambda: len(team.facts("message_rejected")) == 2)
        lost = team.send("reader")
        team.fact("message_told", message=lost)
        shutil.rmtree(team.root / "queue/reader")
        (team.root / "queue/reader/processed").mkdir(parents=True, exist_ok=True)
        assert len(team.fact("spool_lost", agent="reader")["files"]) == 1
        team.fact("message_withdrawn", message=lost)
        team.fact("message_told", message=team.send("reader"))
        half = team.root / "queue/worker/half.mime"
        data = mime(to="worker", message_id="half.1.a@x")
        with half.open("wb", buffering=0) as file:
            file.write(data[:-5])
            passed(team, 0.5)
            assert not team.types_of("half.1.a@x")
            file.write(data[-5:])
        team.fact("message_completed", message="half.1.a@x")
        shutil.rmtree(team.root, ignore_errors=True)  # the daemon may be writing meanwhile
        team.fact("spool_lost", agent="worker")
        team.fact("message_completed", message=team.send("worker"))


LIMITED = """
import os, sys
with open("/proc/sys/user/max_inotify_watches", "w") as file:
    file.write(sys.argv[1])
os.execv(sys.executable, [sys.executable, "-m", "ackd", "run"])
"""


def test_watch_limit_reached_polling_said_once(tmp_path: Path) -> None:
    """In a user namespace of its own, whose limit is nobody else's."""
    inside = ["unshare", "--user", "--map-root-user"]
    probe = [*inside, "test", "-w", "/proc/sys/user/max_inotify_watches"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the watch limit cannot be lowered for one process")
    team = Team(tmp_path, AGENTS, quick=watch(mode="auto", poll_interval_s=0.1))
    team.drop("worker", mime(to="worker", message_id="before.1.a@x"), "m1.mime")
    with (tmp_path / "daemon.out").open("ab") as out:
        command = [*inside, sys.executable, "-c", LIMITED, "4"]
        team.process = subprocess.Popen(command, cwd=tmp_path, env=team.environment, stdout=out, stderr=out)
    try:
        degraded = team.fact("watch_degraded")
        assert "max_user_watches" in degraded["reason"]
        team.fact("message_completed", message="before.1.a@x")
        for n in range(3):
            team.drop("worker", mime(to="worker", message_id=f"{n}.1.a@x"), f"n{n}.mime")
            team.fact("message_completed", message=f"{n}.1.a@x")
        team.drop("newcomer", mime(to="newcomer", message_id="new.1.a@x"), "m.mime")
        team.fact("message_told", message="new.1.a@x")
        assert len(team.facts("watch_degraded")) == 1
        team.until(lambda: team.status()["daemon"]["watch"] == "polling")
    finally:
        assert team.stop() == 0


def test_the_limit_reached_while_running_loses_nothing(tmp_path: Path) -> None:
    """New queues need new watches: the last one that inotify could take is followed by polling."""
    inside = ["unshare", "--user", "--map-root-user"]
    probe = [*inside, "test", "-w", "/proc/sys/user/max_inotify_watches"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the watch limit cannot be lowered for one process")
    team = Team(tmp_path, AGENTS, quick=watch(mode="auto", poll_interval_s=0.1))
    with (tmp_path / "daemon.out").open("ab") as out:
        command = [*inside, sys.executable, "-c", LIMITED, "20"]
        team.process = subprocess.Popen(command, cwd=tmp_path, env=team.environment, stdout=out, stderr=out)
    try:
        team.fact("session_start")
        team.until(lambda: team.status_pid() is not None)
        for n in range(8):
            team.drop(f"new_{n}", mime(to=f"new_{n}", message_id=f"{n}.1.a@x"), "m.mime")
        for n in range(8):
            team.fact("message_told", message=f"{n}.1.a@x")
        team.fact("watch_degraded")
        team.drop("worker", mime(to="worker", message_id="w.1.a@x"), "m.mime")
        team.fact("message_completed", message="w.1.a@x")
        assert len(team.facts("watch_degraded")) == 1
    finally:
        assert team.stop() == 0
