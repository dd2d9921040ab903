"""A daemon at rest, with every capability in use: how often does it wake, and what does it do then? A count of system
calls, since seconds of a processor would say nothing on a noisy machine.

Everything that can be in use at rest is: a board that waits for its directors and one that has decided, a bus with a
worker at work, a lease that is held and one who waits for it, an Ensemble queue with a task under way, a story that is
done, an agent in a pane, one that is a process, one that is a command. What wakes the daemon is named by its calls.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import workers
from tests.acceptance.boards import BoardTeam
from tests.acceptance.panes import Panes, panes_in
from tests.acceptance.teams import Team, running
from tests.acceptance.test_pipeline import REPORTS, story

if TYPE_CHECKING:
    from collections.abc import Iterator

#: For how long the calls are counted. The daemon itself looks once in a second whether a fault is over, which is two
#: calls that wait, every five seconds how much room there is, which is four or five (in a thread, since a mount may
#: hang), and asks now and then whether its own directories are watched. Nothing else may happen.
WINDOW_S = 5.0
WAITS_AT_REST = 22
CALLS_AT_REST = 20
#: When a pane whose work is done has been looked at for the last time.
LAST_LOOK_S = 6.0
WAITING = frozenset({"futex", "epoll_wait", "restart_syscall", "getpid"})
#: The daemon has come to rest if it did not wake for so long.
QUIET_S = 0.7
PATIENCE_S = 15.0

CONFIG = """
escalate_to = "leader"
[watch]
settle_s = 0.1
reconcile_interval_s = 3600
[daemon]
stop_timeout_s = 1
[bus]
tracks = ["conductor/tracks/*"]
[board]
directors = {{ CA = "technical" }}
rounds = 1
[ensemble]
queue = "queue"
dispatch = "leader"
conductor = "leader"
[pipeline]
leave_s = 0.1
[pipeline.worker]
command = ["./work"]
{panes}
[agents.leader]
[agents.CA]
[agents.pane]
endpoint = "tmux"
profile = "fake"
title = "pane"
[agents.command]
endpoint = "exec"
command = ["true"]
{process}
"""


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def test_no_capability_in_use_wakes_a_daemon_at_rest(panes: Panes, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    team = BoardTeam(tmp_path / "team", CONFIG.format(panes=panes.config(), process=workers.agent("process")))
    workers.raw(team, "")
    team.script("work", REPORTS + 'echo "$text"')
    panes.open("pane")
    with running(team):
        use_everything(team)
        calls = traced(team)
    names = Counter(name for call in calls if (name := name_of(call)))
    assert names["epoll_wait"] <= WAITS_AT_REST, shown(names, calls)
    assert sum(number for name, number in names.items() if name not in WAITING) <= CALLS_AT_REST, shown(names, calls)


def use_everything(team: BoardTeam) -> None:
    """Each capability through to where it waits for others, or is done. The pane first: after its work is done it is
    looked at once more, three seconds later, and that is waited for."""
    message = team.send("pane")
    team.fact("message_told", message=message)
    assert team.ackd("done", message, "--agent", "pane").returncode == 0
    team.fact("message_completed", message=message)
    looked_at = time.monotonic() + LAST_LOOK_S
    decided = team.board("open", "--checkpoint", "EVALUATE_PLAN", "--proposal", "the first", "--from", "leader")[
        "session_id"
    ]
    votes(team, decided)
    team.fact("board_resolved")
    team.board("open", "--checkpoint", "EVALUATE_PLAN", "--proposal", "the second", "--from", "leader")
    status = {"task_id": "1.1", "status": "RUNNING", "last_heartbeat": datetime.now(UTC).isoformat()}
    (team.bus / "worker-status.json").write_text(json.dumps({"worker-1": status}))
    assert (
        team.ackd("bus", "post", "PROGRESS", "--track", "api", "--source", "worker-1", "--task", "1.1").returncode == 0
    )
    team.fact("bus_message")
    assert team.ackd("lock", "acquire", "a.py", "--track", "api", "--agent", "worker-1").returncode == 0
    assert team.ackd("lock", "acquire", "a.py", "--track", "api", "--agent", "leader", "--later").returncode == 75
    team.fact("lease_granted")
    (team.place / "queue/tasks/command-T-1.yaml").write_text("task_id: T-1\ntitle: a page\n")
    assert team.ackd("story", "start", "PROJ-1").returncode == 0
    team.until(lambda: story(team, "PROJ-1")["state"] == "done")
    for agent in ("process", "command"):
        team.fact("message_completed", message=team.send(agent))
    team.until(lambda: time.monotonic() > looked_at)


def votes(team: BoardTeam, meeting: str) -> None:
    for words in (
        ("assess", "--verdict", "APPROVE", "--score", "8"),
        ("discuss", "--to", "ALL", "--type", "AGREE", "--message", "so be it"),
        ("vote", "--verdict", "APPROVE", "--confidence", "0.9"),
    ):
        team.board(words[0], meeting, "--track", "api", "--director", "CA", *words[1:])


# --- counting ---------------------------------------------------------------------------------------------------------
def traced(team: Team) -> list[str]:
    """The system calls of a daemon that should rest."""
    until_quiet(team.pid)
    report = team.place.parent / "calls"
    command = ["strace", "-f", "-y", "-s", "120", "-o", str(report), "-p", str(team.pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if "attached" not in said:
            tracer.wait()
            pytest.skip(f"strace may not look at the daemon: {said.strip()}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            tracer.wait(WINDOW_S)
        tracer.send_signal(signal.SIGINT)
    return report.read_text(errors="replace").splitlines()


def until_quiet(pid: int) -> None:
    """Whether it ever is, is what is asked: one that is not is counted all the same."""
    deadline = time.monotonic() + PATIENCE_S
    woken, since = wakes(pid), time.monotonic()
    while time.monotonic() < min(deadline, since + QUIET_S):
        time.sleep(0.05)
        if (now := wakes(pid)) != woken:
            woken, since = now, time.monotonic()


def wakes(pid: int) -> list[str]:
    found = []
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            found += [line for line in status.read_text().splitlines() if line.startswith("voluntary")]
    return found


def name_of(call: str) -> str | None:
    """None for what is no call, and for asking whether a directory of the root is watched."""
    found = re.match(r"\d+\s+(\w+)\(", call)
    own = call.partition("inotify_add_watch(")[2]
    return None if found is None or "/.ackd" in own else found[1]


def shown(names: Counter[str], calls: list[str]) -> str:
    return "\n".join([f"in {WINDOW_S} s: {dict(names.most_common())}", *calls[:120]])
