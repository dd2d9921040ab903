"""No room, no inodes, a read-only disk: under the real daemon, on a small file system of the test's own.

What is expected each time: one line when it begins and one when it is over, the fault in `ackd status`, nothing counted
as a failure, nothing half-written, and everything goes on by itself once there is room.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.faults.mounts import full, half_written, mounted, needs_root, out_of_inodes, read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = needs_root

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["./work"]
max_in_flight = 4

[agents.reader]
endpoint = "inbox"
"""
#: Waits for the test's sign, then leaves a trace of its run.
WORK = 'until [ -e go ]; do sleep 0.02; done; echo "$ACKD_MESSAGE_ID" >>runs'


def team_in(place: Path) -> Team:
    team = Team(place, AGENTS)
    team.script("work", WORK)
    return team


FAULTS: dict[str, tuple[Callable[[Path], contextlib.AbstractContextManager[None]], str]] = {
    "no room": (full, "No space left on device"),
    "no inodes": (out_of_inodes, "No space left on device"),
    "read-only": (read_only, "Read-only file system"),
}
every_fault = pytest.mark.parametrize("fault", FAULTS)


@contextlib.contextmanager
def small_disk(team: Team) -> Iterator[None]:
    with mounted(team.root, "4m", inodes=300):
        yield


def said_by_daemon(team: Team, type_: str) -> list[dict[str, Any]]:
    """What the operator of `ackd run` saw: on a full disk the log has to wait."""
    lines = (json.loads(line) for line in team.output().splitlines() if line.startswith("{"))
    return [line["data"] for line in lines if line["event"] == type_]


def statuses(team: Team, agent: str) -> list[str]:
    """What the headers of its mail in hand say."""
    texts = [path.read_text() for path in (team.root / "queue" / agent / "processed").glob("*.mime")]
    return [word for text in texts for word in re.findall(r"^X-IGNITE-Status: (\w+)", text, flags=re.MULTILINE)]


@contextlib.contextmanager
def staged(team: Team, ids: list[str]) -> Iterator[Callable[[], None]]:
    """Messages that are written already and appear when it is asked for: no room is needed for that.

    By a descriptor of the directory, which no mount that comes later can cover.
    """
    box = team.root / "queue/worker"
    for number, message_id in enumerate(ids):
        (box / f".staged.{number}").write_bytes(mime(to="worker", message_id=message_id))
    fd = os.open(box, os.O_RDONLY)

    def appear() -> None:
        for number in range(len(ids)):
            os.rename(f".staged.{number}", f"message_{number}.mime", src_dir_fd=fd, dst_dir_fd=fd)

    try:
        yield appear
    finally:
        os.close(fd)


def runs(team: Team) -> list[str]:
    path = team.place / "runs"
    return path.read_text().split() if path.exists() else []


@every_fault
def test_what_is_at_work_and_what_waits_comes_through_a_fault_of_the_disk(tmp_path: Path, fault: str) -> None:
    """Two messages at work, one in an inbox; then the disk refuses, more arrive, and the work is done."""
    team, (begin, error) = team_in(tmp_path), FAULTS[fault]
    late = ["1.1.a@x", "2.1.a@x"]
    with small_disk(team), running(team), staged(team, late) as appear:
        read = team.send("reader")
        ids = [*(team.send("worker") for _ in range(2)), *late]
        team.fact("message_told", message=read)
        team.until(lambda: len(team.facts("message_told", agent="worker")) == 2)
        with begin(team.root):
            appear()
            (tmp_path / "go").touch()
            team.until(lambda: said_by_daemon(team, "io_error"))
            assert error in said_by_daemon(team, "io_error")[0]["error"]
            assert "→" not in said_by_daemon(team, "io_error")[0]["advice"]
            team.until(lambda: len(runs(team)) >= 2)
            shown = team.ackd("status")
            assert shown.returncode == 0
            assert f"fault: {error}" in shown.stdout
            page = json.loads(team.ackd("status", "--json").stdout)
            assert any(error in one["error"] for one in page["faults"])
        for message in ids:
            team.fact("message_completed", message=message)
        team.fact("io_recovered")
        assert team.ackd("done", read, "--agent", "reader").returncode == 0
        team.fact("message_completed", message=read)
        team.until(lambda: "fault:" not in team.ackd("status").stdout)
        assert [fact["error"] for fact in team.facts("io_recovered")] == [error]
        assert len(team.facts("io_error")) == len(said_by_daemon(team, "io_error")) == 1
        assert not team.facts("message_dead", "message_rejected", "message_withdrawn", "log_gap")
        assert sorted(fact["message_id"] for fact in team.facts("message_completed")) == sorted([*ids, read])
        assert {fact["counted"] for fact in team.facts("message_retry")} <= {False}
        assert sorted(runs(team)) == sorted(ids)  # each once: the result of a run has its place before it begins
        team.until(lambda: half_written(team.root) == [])


@every_fault
def test_nothing_runs_again_that_was_completed_before_the_disk_refused(tmp_path: Path, fault: str) -> None:
    """And the daemon is killed in the middle of the fault."""
    team, (begin, _) = team_in(tmp_path), FAULTS[fault]
    with small_disk(team), running(team):
        (tmp_path / "go").touch()
        before = [team.send("worker") for _ in range(3)]
        for message in before:
            team.fact("message_completed", message=message)
        ran = runs(team)
        (tmp_path / "go").unlink()
        waiting = team.send("worker")
        team.fact("message_told", message=waiting)
        with begin(team.root):
            team.kill()
        (tmp_path / "go").touch()
        team.start()
        team.fact("message_completed", message=waiting)
        assert [one for one in runs(team) if one in before] == ran
        assert len(team.facts("message_completed", message=waiting)) == 1


@every_fault
def test_a_message_cannot_be_sent_and_that_is_said_and_nothing_is_left_of_it(tmp_path: Path, fault: str) -> None:
    team, (begin, error) = team_in(tmp_path), FAULTS[fault]
    with small_disk(team), running(team):
        first = team.send("reader")
        team.fact("message_told", message=first)
        team.until(lambda: statuses(team, "reader") == ["delivered"])  # nothing of the daemon's is half-written now
        with begin(team.root):
            for daemon in ("running", "gone"):
                refused = team.ackd("send", "reader", "worker", "--body", "hello")
                assert refused.returncode == 73, daemon
                assert refused.stdout == ""
                assert error in refused.stderr
                assert str(team.root / "queue") in refused.stderr
                assert "→" in refused.stderr
                refused = team.ackd("ack", first, "--agent", "reader")
                assert refused.returncode == 73
                assert f"{team.root / 'receipts'}" in refused.stderr
                assert error in refused.stderr
                if daemon == "running":
                    team.kill()
            assert team.files("queue/reader") == ["processed"]
            assert team.files("queue/worker") == ["processed"]
            assert team.files("receipts") == []
            assert half_written(team.root) == []
        team.start()
        assert team.ackd("ack", first, "--agent", "reader").returncode == 0
        team.fact("message_acked", message=first)


@pytest.mark.parametrize("fault", ["no inodes", "read-only"])
def test_a_daemon_that_cannot_begin_says_why_and_begins_when_it_can(tmp_path: Path, fault: str) -> None:
    team, (begin, error) = team_in(tmp_path), FAULTS[fault]
    with small_disk(team), running(team):
        waiting = team.send("reader")
        team.fact("message_told", message=waiting)
        team.stop()
        with begin(team.root):
            team.start(ready=False)
            assert team.ended() == 73
            last = team.output().splitlines()[-2:]
            assert error in last[0], last
            assert last[1].startswith("  → ")
        team.start()
        assert team.ackd("done", waiting, "--agent", "reader").returncode == 0
        team.fact("message_completed", message=waiting)


def test_a_daemon_that_begins_on_a_full_disk_says_so_and_serves_when_there_is_room(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with small_disk(team), running(team):
        waiting = team.send("worker")
        team.fact("message_told", message=waiting)
        team.kill()
        with full(team.root):
            team.start(ready=False)
            team.until(lambda: said_by_daemon(team, "io_error"))
            (tmp_path / "go").touch()
        team.fact("message_completed", message=waiting)
        team.fact("io_recovered")
        assert len(team.facts("io_error")) == 1
        assert runs(team) == [waiting]


@pytest.mark.parametrize("fault", ["no room", "no inodes"])
def test_what_finishes_on_a_full_disk_while_the_daemon_is_dead_is_not_run_again(tmp_path: Path, fault: str) -> None:
    """The place for its result was taken before it began."""
    team, (begin, _) = team_in(tmp_path), FAULTS[fault]
    with small_disk(team), running(team):
        message = team.send("worker")
        team.fact("message_told", message=message)
        with begin(team.root):
            team.kill()
            (tmp_path / "go").touch()
            team.until(lambda: runs(team) == [message])
            (status,) = (team.root / "state/runs").glob("*/status")
            team.until(lambda: status.read_bytes() == b"000\n")
        team.start()
        team.fact("message_completed", message=message)
        assert runs(team) == [message]


def test_a_death_on_a_full_disk_waits_until_it_can_be_told_of(tmp_path: Path) -> None:
    """First the escalation and the notice, then the move: none of it can be written, so nothing of it happens yet."""
    team = Team(tmp_path, AGENTS)
    team.script("work", "until [ -e go ]; do sleep 0.02; done; exit 65")
    with small_disk(team), running(team):
        message = team.send("worker", "--from", "reader")
        team.fact("message_told", message=message)
        with full(team.root):
            (tmp_path / "go").touch()
            team.until(lambda: said_by_daemon(team, "io_error"))
            assert team.files("queue/dead_letter") == []
        team.fact("message_dead", message=message)
        team.until(lambda: {fact["agent"] for fact in team.facts("message_told")} >= {"worker", "reader", "user"})
        assert len(team.facts("message_dead")) == 1
        assert len(team.facts("escalation")) == 1
        team.until(lambda: half_written(team.root) == [])
