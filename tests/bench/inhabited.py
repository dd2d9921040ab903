"""Teams of agents behind which something lives, for the benches: children that are kept alive, panes of tmux.

The tmux server is one of the bench's own, on a socket in the team's directory, and ends with it. Children and panes write
down when they start or are typed to, in nanoseconds of the wall clock, by appending a line each to a file.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team
from tests.bench import daemon
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.002

#: An agent that is kept alive and waits for work, as a user would write it.
WORKER = """\
from ackd.worker import run

run(lambda task: None)
"""
#: Writes down when and as whom it was started, says one word, as a worker does when it is ready, and stays.
STARTER = """\
#!/bin/sh
echo "$1 $(date +%s%N) $$" >>"$2"
echo '{"type": "heartbeat", "worker_id": "w", "timestamp": "2026-11-16T00:00:00Z", "context_usage": 0.0}'
exec sleep 100000
"""
#: Writes down when the first key of a line reaches it; shows what is typed, as an agent's input line does.
TYPED_TO = """\
import os, sys, termios, time, tty

tty.setcbreak(0)
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(1, b"> ")
fresh = True
while data := os.read(0, 4096):
    if fresh:
        os.write(notes, b"key %d 0\\n" % time.time_ns())
    fresh = data[-1:] in (b"\\r", b"\\n")
    os.write(1, data.replace(b"\\r", b"\\n").replace(b"\\n", b"\\n\\n> "))
"""
PROFILE = """\
[profiles.bench]
input = { marker = '^> ?(?P<text>.*)$' }
ready = [{ pattern = '^>', assumed = "inhabited.py" }]
submit = { pause_s = 0.0 }
"""


def tables_of_workers(count: int) -> str:
    command = f'["{sys.executable}", "worker.py"]'
    return "".join(f'[agents.worker_{n}]\nendpoint = "process"\ncommand = {command}\n' for n in range(count))


def tables_of_starters(count: int) -> str:
    return "".join(
        f'[agents.starter_{n}]\nendpoint = "process"\ncommand = ["./starter.sh", "starter_{n}", "notes"]\n'
        for n in range(count)
    )


def tables_of_panes(count: int, start: str, more: str = "") -> str:
    return "".join(
        f'[agents.pane_{n}]\nendpoint = "tmux"\nstart = "{start}"\nprofile = "bench"\n{more}' for n in range(count)
    )


def make_team(place: Path, tables: str) -> Team:
    """With the default settings, but for the server of tmux."""
    team = Team(place, f'{PROFILE}\n[tmux]\nsocket = "{socket_of(place)}"\n{tables}', quick="")
    (place / "worker.py").write_text(WORKER)
    (place / "typed_to.py").write_text(TYPED_TO)
    (place / "starter.sh").write_text(STARTER)
    (place / "starter.sh").chmod(0o700)
    return team


def socket_of(place: Path) -> Path:
    return place / "tmux"


def needs_tmux() -> None:
    if shutil.which("tmux") is None:
        raise BenchFailed("tmux is not installed")


@contextlib.contextmanager
def serving(team: Team) -> Iterator[Team]:
    """The daemon runs inside, and nothing of it or its agents afterwards."""
    try:
        team.start("--quiet", ready=False)
        daemon.until(lambda: team.status_pid() == team.pid, team, "the daemon is ready", PATIENCE_S)
        yield team
    finally:
        if team.process is not None:
            team.stop()
        end_server(socket_of(team.place))


def end_server(socket: Path) -> None:
    if socket.exists():
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False)


def until_all_live(team: Team, count: int) -> None:
    """As the daemon's own page says: each lives as something, a pid or a pane."""

    def living() -> int:
        with contextlib.suppress(OSError, ValueError):
            agents = json.loads((team.root / "run/status.json").read_bytes())["agents"].values()
            return sum(1 for agent in agents if agent.get("detail"))
        return 0

    daemon.until(lambda: living() >= count, team, f"{count} agents live", PATIENCE_S)


def notes(path: Path) -> list[tuple[str, int, int]]:
    """Who, when (ns of the wall clock), as which pid."""
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    rows = (line.split() for line in whole.splitlines())
    return [(who, int(at), int(pid)) for who, at, pid in rows]


def wait_for(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    give_up_at = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > give_up_at:
            raise BenchFailed(f"not within {patience_s:.0f} s: {what}")
        time.sleep(_LOOK_EVERY_S)
