"""Logs that go on in other files, are compressed and removed: every door reads them as one, and nothing is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ackd.storage.session_log import iter_logs, session_files
from tests.acceptance.teams import Team, running
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
[agents.reader]
[agents.worker]
endpoint = "exec"
command = ["true"]

[agents.leader]

[ensemble]
dispatch = "leader"
conductor = "leader"
log_dir = "team-logs"
"""
OFTEN = "log_rotate_mb = 0.002\nlog_compress_hours = 0"


def stored(team: Team) -> list[str]:
    return sorted(path.name for path in (team.root / "logs").iterdir() if not path.name.startswith("."))


def all_compressed(team: Team) -> bool:
    *finished, last = session_files(team.root / "logs")
    return len(finished) > 3 and not any(path.exists() for path in finished) and last.exists()


def busy(team: Team, count: int = 12) -> list[str]:
    ids = [team.post("worker") for _ in range(count)]
    for message in ids:
        team.fact("message_completed", message=message)
    return ids


def test_every_door_reads_them_as_one_and_whoever_follows_has_each_line_once(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, top=OFTEN)
    with running(team):
        command = [sys.executable, "-m", "ackd", "tail", "-f", "--json", "-n", "1000000"]
        tail = subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=subprocess.PIPE)
        assert tail.stdout is not None
        ids = busy(team)
        team.until(lambda: all_compressed(team))
        end = team.post("reader")
        team.fact("message_told", message=end)
        followed: list[dict[str, Any]] = []
        while not followed or followed[-1]["data"].get("message_id") != end or followed[-1]["type"] != "message_told":
            followed.append(json.loads(tail.stdout.readline()))
        tail.terminate()
        tail.wait(PATIENCE_S)
        tail.stdout.close()
        (session,) = {line["session_id"] for line in followed}
        assert [line["seq"] for line in followed] == list(range(1, len(followed) + 1))

        explained = json.loads(team.ackd("explain", ids[0], "--json").stdout)
        assert explained["message_id"] == ids[0]
        assert "completed" in team.ackd("explain", ids[0]).stdout
        status = json.loads(team.ackd("status", "--json").stdout)
        assert status["totals"]["completed"] == len(ids)
        assert status["daemon"]["session_id"] == session
        last = team.ackd("tail", "-n", "1000000", "--type", "message_completed", "--json").stdout
        assert [json.loads(line)["data"]["message_id"] for line in last.splitlines()] == ids
        team.until(lambda: sorted(path.name for path in (tmp_path / "team-logs").iterdir()) == stored(team))
        assert all((tmp_path / "team-logs" / name).exists() for name in stored(team))
    assert json.loads(team.ackd("status", "--json").stdout)["totals"]["completed"] == len(ids)
    types = [line.type for line in iter_logs(team.root / "logs")]
    assert types[-1] == "session_end"
    assert (types.count("log_compressed"), types.count("log_continued")) >= (4, 4)


def test_a_message_whose_file_goes_while_no_daemon_runs_has_its_end_though_its_lines_are_old(tmp_path: Path) -> None:
    """Its arrival stands in the session's first file, and a start reads from there, not all that came before."""
    team = Team(tmp_path, AGENTS, top=OFTEN)
    with running(team):
        busy(team)
        team.until(lambda: all_compressed(team))
        team.stop()
        team.start()
        busy(team)
        waiting = team.send("reader")
        team.fact("message_told", message=waiting)
        busy(team)
        team.until(lambda: all_compressed(team))
        for end in (team.kill, team.stop):
            end()
            for path in (team.root / "queue/reader").rglob("*.mime"):
                path.unlink()
            team.start()
            team.until(lambda: team.facts("message_completed", "message_withdrawn", message=waiting))
            busy(team)
        assert len(team.facts("message_completed", "message_withdrawn", message=waiting)) == 1
        for message in {fact["message_id"] for fact in team.facts("message_completed", agent="worker")}:
            assert len(team.facts("message_completed", message=message)) == 1
