"""config/examples/message-bus.toml with agents that do only what the seed tells an agent to do: shell commands, `echo >>`,
`touch`, and one-liners that edit the JSON files by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, running
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "config/examples/message-bus.toml"
BUS = "conductor/tracks/login/.message-bus"

#: What a shell agent has: nothing of ours.
PRELUDE = f"""
set -eu
BUS={BUS}
now() {{ date -u +%Y-%m-%dT%H:%M:%S.%NZ | cut -c1-26,30; }}
say() {{ # TYPE SOURCE PAYLOAD
  echo "{{\\"id\\": \\"msg-$(cat /proc/sys/kernel/random/uuid)\\", \\"type\\": \\"$1\\", \\"source\\": \\"$2\\", \\"timestamp\\": \\"$(now)\\", \\"payload\\": $3}}" >> $BUS/queue.jsonl
}}
status() {{ # WORKER TASK STATUS; agents that edit one file without a lock tear it under each other: tried again
  for _ in $(seq 50); do edit "$@" 2>/dev/null && return 0; sleep 0.05; done; return 1
}}
edit() {{
  {sys.executable} -c 'import json, sys, datetime
path, worker, task, status = sys.argv[1:]
statuses = json.load(open(path))
now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None).isoformat() + "Z"
statuses[worker] = {{"task_id": task, "status": status, "progress_pct": 0, "last_heartbeat": now}}
json.dump(statuses, open(path, "w"), indent=2)' $BUS/worker-status.json "$1" "$2" "$3"
}}
poll() {{ # NAME
  for _ in $(seq 400); do [ -e $BUS/events/"$1" ] && return 0; sleep 0.05; done; return 1
}}
"""


class BusTeam(Team):
    def __init__(self, place: Path, **more: str) -> None:
        super().__init__(place)
        text = EXAMPLE.read_text().replace("heartbeat_timeout_s = 600", more.get("bus", "heartbeat_timeout_s = 600"))
        watch = "\n[watch]\nsettle_s = 0.1\nreconcile_interval_s = 1\n"
        (place / "ackd.toml").write_text(text + watch)
        self.bus = place / BUS

    def shell(self, script: str, **popen: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", PRELUDE + script], cwd=self.place, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **popen,
        )  # fmt: skip

    def run_shell(self, script: str) -> str:
        with self.shell(script) as agent:
            out, _ = agent.communicate(timeout=40)
        assert agent.returncode == 0, out
        return out

    def mail(self, agent: str) -> list[str]:
        """What lies there and is in hand."""
        return list(queue_mail(self.root, agent, "message").values())

    def event(self, name: str) -> bool:
        return (self.bus / "events" / name).exists()

    def said(self) -> list[tuple[str, str]]:
        return [(fact["source"], fact["bus_type"]) for fact in self.facts("bus_message")]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[BusTeam]:
    team = BusTeam(tmp_path)
    # As the seed lays a bus out, by hand.
    team.run_shell(
        'mkdir -p $BUS/events $BUS/board; touch $BUS/queue.jsonl; for f in locks worker-status; do echo "{}" > $BUS/$f.json; done'
    )
    with running(team):
        yield team


def test_two_workers_and_an_orchestrator_that_know_no_ackd_work_through_a_track(team: BusTeam) -> None:
    second = team.shell(
        """
        status worker-2.1-b 2.1 RUNNING
        say BLOCKED worker-2.1-b '{"task_id": "2.1", "waiting_for": "1.1", "resource": "src/login.py"}'
        status worker-2.1-b 2.1 BLOCKED
        poll TASK_COMPLETE_1.1.event
        status worker-2.1-b 2.1 RUNNING
        say PROGRESS worker-2.1-b '{"task_id": "2.1", "progress_pct": 50, "current_subtask": "tests"}'
        say TASK_FAILED worker-2.1-b '{"task_id": "2.1", "error": "3 of 4 tests fail", "stack_trace": ""}'
        """
    )
    team.until(lambda: ("worker-2.1-b", "BLOCKED") in team.said())
    team.run_shell(
        """
        status worker-1.1-a 1.1 RUNNING
        say FILE_LOCK worker-1.1-a '{"filepath": "src/login.py"}'
        say PROGRESS worker-1.1-a '{"task_id": "1.1", "progress_pct": 10, "current_subtask": "reading"}'
        say FILE_UNLOCK worker-1.1-a '{"filepath": "src/login.py"}'
        say TASK_COMPLETE worker-1.1-a '{"task_id": "1.1", "commit_sha": "abc1234", "files_modified": ["src/login.py"], "unblocks": ["2.1"]}'
        status worker-1.1-a 1.1 COMPLETE
        """
    )
    out, _ = second.communicate(timeout=40)
    assert second.returncode == 0, out
    team.until(lambda: len(team.mail("orchestrator")) == 3)
    told = "\n".join(team.mail("orchestrator"))
    assert "worker-2.1-b is blocked with task 2.1, and waits for 1.1" in told
    assert "task 1.1 is complete, says worker-1.1-a (commit abc1234)" in told
    assert "task 2.1 has failed, says worker-2.1-b" in told
    assert "3 of 4 tests fail" in told
    (woken,) = team.until(lambda: team.mail("tester"))
    assert "You need not wait for it any longer" in " ".join(woken.split())
    for name in ("TASK_FAILED_2.1", "FILE_UNLOCK_all", "UNBLOCKED_2.1"):  # the seed has none for failures
        team.until(lambda name=name: team.event(f"{name}.event"))  # type: ignore[misc]
    assert team.facts("bus_bad_line") == []
    found = json.loads(team.ackd("bus", "status", "--json").stdout)
    assert {name: worker["status"] for name, worker in found["workers"].items()} == {
        "worker-1.1-a": "COMPLETE",
        "worker-2.1-b": "FAILED",
    }
    page = team.until(lambda: team.status()["bus"]["login"]["open_tasks"] == 0)
    assert page


def test_who_asks_late_finds_that_it_has_happened(team: BusTeam) -> None:
    """The seed's wait looks for a file that may have come before; and nothing tells two completions apart."""
    team.run_shell("""say TASK_COMPLETE worker-1.1-a '{"task_id": "1.1"}'""")
    assert team.ackd("bus", "wait", "TASK_COMPLETE_1.1", "--timeout", "20").returncode == 0
    team.until(lambda: team.event("TASK_COMPLETE_1.1.event"))  # the daemon raises it after the wait has read the line
    assert team.ackd("bus", "wait", "TASK_COMPLETE_1.1", "--timeout", "0.2", "--new").returncode == 1
    waiting = team.shell("exec ackd bus wait TASK_COMPLETE_1.1 --new --timeout 30 --json")
    assert_waits(team, waiting)
    team.run_shell("""say TASK_COMPLETE worker-1.1-a '{"task_id": "1.1"}'""")
    out, _ = waiting.communicate(timeout=40)
    assert json.loads(out)["happened"] is True


def assert_waits(team: BusTeam, waiting: subprocess.Popen[str]) -> None:
    """It has the events directory in sight."""
    team.until(lambda: any("inotify" in link for link in _links(waiting.pid)))


def _links(pid: int) -> list[str]:
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(fd.readlink()))
        except OSError:
            continue
    return found


def test_times_with_a_z_are_times_and_since_means_time(team: BusTeam) -> None:
    """The seed compares them as text, and its own lock code cannot read what it writes."""
    team.run_shell("""say PROGRESS w '{"task_id": "1"}'""")
    with (team.bus / "queue.jsonl").open("a") as queue:
        queue.write('{"type": "PROGRESS", "source": "old", "timestamp": "2026-01-31T23:00:00-02:00", "payload": {}}\n')
    shown = team.ackd("bus", "read", "--json", "--since", "2026-02-01T00:30:00Z", "--type", "PROGRESS").stdout
    assert [json.loads(line)["source"] for line in shown.splitlines()] == ["w", "old"]
    later = team.ackd("bus", "read", "--json", "--since", "2026-02-01T01:30:00Z").stdout
    assert [json.loads(line)["source"] for line in later.splitlines()] == ["w"]


def test_a_torn_line_bad_lines_and_a_hand_edited_queue_stop_nothing(team: BusTeam) -> None:
    team.run_shell(
        """
        printf '{"type": "PROGRESS", "sou' >> $BUS/queue.jsonl
        say TASK_COMPLETE worker-1.1-a '{"task_id": "1.1"}'
        echo 'rm -rf /' >> $BUS/queue.jsonl
        say TASK_COMPLETE worker-1.2-a '{"task_id": "1.2"}'
        """
    )
    team.until(lambda: team.event("TASK_COMPLETE_1.1.event") and team.event("TASK_COMPLETE_1.2.event"))
    team.until(lambda: len(team.facts("bus_bad_line")) == 2)
    team.run_shell("""sed -i '/rm -rf/d' $BUS/queue.jsonl; say TASK_COMPLETE worker-1.3-a '{"task_id": "1.3"}'""")
    team.until(lambda: team.event("TASK_COMPLETE_1.3.event"))
    team.run_shell(""": > $BUS/queue.jsonl; say TASK_COMPLETE worker-1.4-a '{"task_id": "1.4"}'""")
    team.until(lambda: team.event("TASK_COMPLETE_1.4.event"))
    team.until(lambda: len(team.mail("orchestrator")) == 4)
    assert team.facts("bus_restarted")


def test_a_task_named_like_a_path_makes_no_file_elsewhere(team: BusTeam) -> None:
    team.run_shell("""say TASK_COMPLETE w '{"task_id": "../../../../escaped"}'""")
    assert team.ackd("bus", "wait", "TASK_COMPLETE_../../../../escaped", "--timeout", "20").returncode == 0
    assert not list(team.place.rglob("escaped*"))


def test_a_worker_that_falls_silent_is_told_of_once_and_speaks_again(tmp_path: Path) -> None:
    team = BusTeam(tmp_path, bus="heartbeat_timeout_s = 1")
    team.run_shell(
        'mkdir -p $BUS/events; touch $BUS/queue.jsonl; echo "{}" > $BUS/worker-status.json; status worker-1.1-a 1.1 RUNNING'
    )
    with running(team):
        stale = team.fact("worker_stale")
        assert (stale["worker"], stale["agent"], stale["task_id"]) == ("worker-1.1-a", "builder", "1.1")
        team.until(lambda: len(team.mail("orchestrator")) == 1)
        team.run_shell("status worker-1.1-a 1.1 RUNNING")
        team.fact("worker_back")


def test_a_kill_between_lines_skips_nothing_and_tells_nothing_twice(team: BusTeam) -> None:
    for turn in range(3):
        team.run_shell(
            f"""for n in 1 2 3 4 5; do say TASK_COMPLETE worker-9 "{{\\"task_id\\": \\"{turn}.$n\\"}}"; done"""
        )
        if turn < 2:
            team.kill()
            team.start()

    def ids() -> list[str]:
        letters = team.mail("orchestrator")
        return [line for mail in letters for line in mail.splitlines() if line.startswith("Message-ID")]

    team.until(lambda: len(set(ids())) == 15)
    team.until(lambda: len(ids()) == 15)  # what was mailed again was recognised, and is gone
    once = {(fact["task_id"], fact.get("recovered", False)) for fact in team.facts("bus_message")}
    assert {task for task, _ in once} == {f"{turn}.{number}" for turn in range(3) for number in range(1, 6)}


def test_a_bus_that_nobody_speaks_on_costs_nothing(team: BusTeam) -> None:
    """No polling beside the reconciling scan: in a second of silence the daemon takes next to no time."""
    team.run_shell("""status worker-1.1-a 1.1 RUNNING; say PROGRESS worker-1.1-a '{"task_id": "1.1"}'""")
    team.until(lambda: team.said() == [("worker-1.1-a", "PROGRESS")])
    time.sleep(0.5)
    before = _cpu_s(team.pid)
    time.sleep(1.5)
    assert _cpu_s(team.pid) - before <= 0.1


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
