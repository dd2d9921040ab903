"""Process agents for real teams: small programs that do their work well or badly, and what they wrote down."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tests.endpoints.process.process_agent import WORKER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.teams import Team

#: For programs: ``note(word)`` writes down what ran, ``until(name)`` waits for the test's sign, and not for ever.
TOOLS = """
import os, time
def note(word):
    with open("notes", "a") as notes:
        notes.write(f"{word}\\n")
def until(name):
    for _ in range(12000):
        if os.path.exists(name):
            return
        time.sleep(0.01)
def once(name):
    there = os.path.exists(name)
    open(name, "a").close()
    return not there
"""
#: Made with ``ackd.worker``: the test's part defines ``work``. Every checkpoint is said, none waits for the next second.
SDK = f"""
import signal, subprocess, sys
import ackd.worker.task
from ackd.worker import Refuse, Task, run
ackd.worker.task.KEEP_EVERY_S = 0.0
{TOOLS}
"""

#: Waits short enough for tests, and long enough for a machine that has other things to do.
LIVELY = "[liveness]\nheartbeat_timeout_s = 1\nprobe_timeout_s = 1\n"


def sdk(team: Team, work: str, name: str = "worker.py") -> None:
    _write(team.place / name, f"{SDK}\n{work}\nrun(work, heartbeat_s=0.2)\n")


def raw(team: Team, script: str, name: str = "worker.py") -> None:
    """In nothing but JSON lines: the test's part says what it does differently from one that completes at once."""
    _write(team.place / name, f"{TOOLS}\n{WORKER}\n{script}\nbegin()\nhear()\n")


def _write(path: Path, text: str) -> None:
    temp = path.with_name(f".{path.name}.tmp")
    temp.write_text(text)
    temp.rename(path)


def agent(name: str = "worker", *, program: str = "worker.py", more: str = "") -> str:
    """Its table. Without site packages it would start sooner, but ackd.worker is one."""
    command = json.dumps([sys.executable, program])
    return f'[agents.{name}]\nendpoint = "process"\ncommand = {command}\n{more}\n'


def notes(team: Team) -> list[str]:
    path = team.place / "notes"
    return path.read_text().split() if path.exists() else []


def heard(team: Team, kind: str) -> list[dict[str, Any]]:
    """What raw workers have read, of one kind."""
    path = team.place / "heard"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["type"] == kind]


def states(team: Team, name: str = "worker") -> list[str]:
    """The worker's steps, as the log has them."""
    return [fact["state"] for fact in team.facts("worker_state", agent=name)]


def openings(team: Team, cause: str, name: str = "worker") -> list[dict[str, Any]]:
    """Escalations that were sent, once for each that was opened; those that were only counted into one are left out."""
    found = team.facts("escalation", agent=name)
    first: dict[str, dict[str, Any]] = {}
    for fact in found:
        if fact["cause"] == cause:
            first.setdefault(fact["escalation_id"], fact)
    return [*first.values()]
