"""A hold on a real daemon and on what it started: frozen, limited, looked at from outside.

Touches only processes that the test started. A privilege that is missing is a skip that says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.strays import strays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.acceptance.teams import Team

#: Read at import, before the tests' environment is cleaned.
_SEED: Final = os.environ.get("ACKD_FAULT_SEED")

#: One exec agent that writes down what it ran; the test reads it with ``runs``.
WORKER = '[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n'
NOTE_RUN = 'echo "$ACKD_MESSAGE_ID" >>runs.txt'

#: Enters a namespace of its own, lowers one of its limits, and becomes the daemon.
_LIMITED = """
import os, sys
with open(f"/proc/sys/user/{sys.argv[1]}", "w") as file:
    file.write(sys.argv[2])
os.execv(sys.executable, [sys.executable, "-m", "ackd", "run"])
"""
_OWN_NAMESPACE = ("unshare", "--user", "--map-root-user")


def seed_for(request: pytest.FixtureRequest) -> int:
    """``ACKD_FAULT_SEED``, or a fresh one, which ``--last-failed`` takes again: a rare loss must not turn green because
    the second run happened to do something else. Seen in the output of a test that failed."""
    cache, key = getattr(request.config, "cache", None), f"ackd/fault_seed/{request.node.name}"
    kept = cache.get(key, None) if cache is not None and request.config.getoption("lf", False) else None
    seed = int(_SEED) if _SEED else kept if isinstance(kept, int) else random.randrange(1 << 31)
    if cache is not None:
        cache.set(key, seed)  # before it runs: a test that is killed is run again, too
    print(f"seed {seed}: ACKD_FAULT_SEED={seed} takes it again")
    return seed


def watch(**settings: object) -> str:
    """A config in which no reconciling scan comes to the watcher's help."""
    values = {"settle_s": 0.1, "reconcile_interval_s": 600, **settings}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[watch]\n{lines}[daemon]\ndrain_timeout_s = 5\nstop_timeout_s = 1\n"


def runs(team: Team) -> list[str]:
    try:
        return (team.place / "runs.txt").read_text().split()
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def frozen(team: Team) -> Iterator[None]:
    """The daemon does not run inside: what happens, happens behind its back."""
    os.kill(team.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 60
    try:
        while (state := _state(team.pid)) != "T":
            if time.monotonic() > deadline:
                raise AssertionError(f"not frozen a minute after SIGSTOP: state {state}")
            time.sleep(0.005)
        yield
    finally:
        os.kill(team.pid, signal.SIGCONT)


@contextlib.contextmanager
def queued_events_limited_to(count: int) -> Iterator[None]:
    """For instances made inside: the kernel reads the limit when one is made. Machine-wide, so for a moment only."""
    setting = Path("/proc/sys/fs/inotify/max_queued_events")
    if not os.access(setting, os.W_OK):
        pytest.skip("only root can lower fs.inotify.max_queued_events")
    with setting.open("rb") as turn:  # the setting itself: a lock in /tmp would be whose run of the tests was first
        fcntl.flock(turn, fcntl.LOCK_EX)  # another run may be at it
        before = setting.read_text()
        try:
            setting.write_text(str(count))
        except OSError:
            pytest.skip("only root can lower fs.inotify.max_queued_events")
        try:
            yield
        finally:
            setting.write_text(before)


@contextlib.contextmanager
def limited(team: Team, setting: str, value: int) -> Iterator[Team]:
    """The daemon runs inside, in a user namespace whose ``setting`` is nobody else's. ``raise_limit`` lifts it."""
    probe = [*_OWN_NAMESPACE, "test", "-w", f"/proc/sys/user/{setting}"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip(f"no user namespaces here: user.{setting} cannot be lowered for one process")
    with (team.place / "daemon.out").open("ab") as out:
        command = [*_OWN_NAMESPACE, sys.executable, "-c", _LIMITED, setting, str(value)]
        team.process = subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=out, stderr=out)
    try:
        team.until(lambda: team.facts("session_start") and team.status_pid() == team.pid)
        yield team
    finally:
        assert team.stop() == 0


@contextlib.contextmanager
def running_on(team: Team) -> Iterator[Team]:
    """A daemon that the test has started in its own way: ended with the block, however that ends."""
    try:
        yield team
    finally:
        if team.process is not None:
            team.process.terminate()
            team.process.wait(60)
            team.process = None


def raise_limit(team: Team, setting: str, value: int) -> None:
    """From outside into the daemon's namespace."""
    words = ["nsenter", "--target", str(team.pid), "--user", "--preserve-credentials"]
    subprocess.run([*words, "sh", "-c", f"echo {value} >/proc/sys/user/{setting}"], check=True, capture_output=True)


def alive(pid: int) -> bool:
    """Not a zombie, either."""
    return _state(pid) not in (None, "Z")


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(team: Team) -> set[int]:
    """All that lives below the team's place, but the daemon itself."""
    return {pid for pid in strays(team.place) if alive(pid) and (team.process is None or pid != team.pid)}


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def ends(team: Team) -> dict[str, list[str]]:
    """How the log says each message ended, over all sessions: one word each if all is well."""
    found: dict[str, list[str]] = {}
    for line in team.lines():
        kind, data = line["type"], line["data"]
        if kind in ("message_completed", "message_dead", "message_withdrawn"):
            found.setdefault(data["message_id"], []).append(kind.removeprefix("message_"))
    return found


def passed(team: Team, seconds: float) -> None:
    """Nothing more is awaited than that it has not happened by then."""
    over = time.monotonic() + seconds
    team.until(lambda: time.monotonic() > over)


def trouble(team: Team) -> list[dict[str, Any]]:
    """Lines that a person is to look at."""
    return [line for line in team.lines() if line["type"] in ("io_error", "escalation", "spool_lost", "message_dead")]
