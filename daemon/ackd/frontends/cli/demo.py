"""``ackd demo``: a small team at work in an empty temporary directory, shown as it happens.

Nothing is staged: the daemon is ``ackd run``, the agents are shell scripts that it starts, the end is read from the
session log. Exit 0 only if every message ended where it should.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ackd.frontends.cli.errors import NO
from ackd.frontends.cli.options import json_option, reported
from ackd.frontends.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.adapters.session_log import Line

PATIENCE_S: Final = 30.0
SCRIPTS: Final = ("leader.sh", "coordinator.sh", "worker.sh")
#: (message type, recipient, how it ends) → how many.
EXPECTED: Final = Counter(
    {
        ("user_goal", "leader", "completed"): 1,
        ("strategy_response", "user", "told"): 1,
        ("task_list", "coordinator", "completed"): 1,
        ("task_assignment", "ignitian_1", "completed"): 1,
        ("task_assignment", "ignitian_2", "completed"): 1,
        ("task_assignment", "ignitian_3", "dead"): 1,
        ("task_completed", "coordinator", "completed"): 2,
        ("dead_letter", "coordinator", "completed"): 1,
        ("escalation", "leader", "completed"): 1,
        ("progress_update", "leader", "completed"): 3,
        ("message", "user", "told"): 2,
    }
)


@click.command(short_help="See it at work, in an empty temporary directory.")
@json_option
def demo(as_json: bool) -> None:
    """See ackd at work: a leader, a coordinator and three workers, one of which never succeeds.

    With --json all that is shown goes to stderr, and at the end how the messages ended to stdout.

    Exit codes: 0 every message ended where it should, 1 one did not.
    """
    with reported():
        place = Path(tempfile.mkdtemp(prefix="ackd-demo-"))
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            ends = _play(place)
        if as_json:
            print_json(_as_data(place, ends))
        if ends != EXPECTED:
            raise click.exceptions.Exit(NO)


def _play(place: Path) -> Counter[tuple[str, str, str]]:
    environment = _lay_out(place)
    _say(f"A team of five in {place}:")
    _say("leader, coordinator, ignitian_1, ignitian_2 (fails twice) and ignitian_3 (always fails).")
    _say("The user gives the leader a goal. Each line below is one fact of the session log.\n")
    daemon = _start(place, environment)
    try:
        _ackd(place, environment, "send", "leader", "--type", "user_goal", "--priority", "high", "--body", _GOAL)
        ends = _watch(place / ".ackd" / "logs", daemon)
        _await_page(place / ".ackd" / "run" / "status.json", ends)
        _show(place, environment, "Where everybody stands", "status")
    finally:
        _stop(daemon)
    _epilogue(place, environment)
    if ends == EXPECTED:
        _say("\nEvery message ended where it should.")
    else:
        _say(f"\nNot as it should be. Missing: {_words(EXPECTED - ends)}. Unexpected: {_words(ends - EXPECTED)}.")
    return ends


def _as_data(place: Path, ends: Counter[tuple[str, str, str]]) -> dict[str, object]:
    rows = [{"type": kind, "to": to, "end": end, "count": n} for (kind, to, end), n in sorted(ends.items())]
    return {"place": str(place), "as_expected": ends == EXPECTED, "ends": rows}


_GOAL: Final = 'goal: "Publish the release notes"\ncontext: "Version 1.0 is out"\n'


def _say(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


def _lay_out(place: Path) -> dict[str, str]:
    """The scripts, the config, and an ``ackd`` on the PATH that is this one."""
    here = resources.files("ackd.frontends.demo")
    for name in (*SCRIPTS, "team.toml"):
        target = place / ("ackd.toml" if name == "team.toml" else name)
        target.write_text(here.joinpath(name).read_text())
        target.chmod(target.stat().st_mode | (stat.S_IXUSR if name in SCRIPTS else 0))
    shim = place / "bin" / "ackd"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m ackd \"$@\"\n")
    shim.chmod(0o700)
    path = f"{shim.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {key: value for key, value in os.environ.items() if not key.startswith("ACKD_")} | {"PATH": path}


def _start(place: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ackd", "run", "--format", "lines"]
    return subprocess.Popen(command, cwd=place, env=environment, stdout=sys.stdout)


def _ackd(place: Path, environment: dict[str, str], *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "ackd", *words], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL
    )


def _watch(logs: Path, daemon: subprocess.Popen[bytes]) -> Counter[tuple[str, str, str]]:
    """How messages ended so far, until it is as expected, the daemon is gone, or time is up."""
    from ackd.adapters.session_log import iter_logs

    deadline = time.monotonic() + PATIENCE_S
    while True:
        ends = _ends(iter_logs(logs) if logs.is_dir() else [])
        if ends == EXPECTED or time.monotonic() > deadline or daemon.poll() is not None:
            return ends
        time.sleep(0.2)


def _await_page(page: Path, ends: Counter[tuple[str, str, str]]) -> None:
    """The daemon writes its page twice a second: wait for one that has heard of all this, but not for long."""
    import json

    wanted = sum(count for (_, _, end), count in ends.items() if end == "completed")
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if json.loads(page.read_bytes())["totals"]["completed"] >= wanted:
                return
        time.sleep(0.05)


def _ends(lines: Iterable[Line]) -> Counter[tuple[str, str, str]]:
    kinds: dict[tuple[str, str], str] = {}
    ends: dict[tuple[str, str], str] = {}
    for line in lines:
        ident = (str(line.data.get("message_id")), str(line.data.get("agent")))
        if line.type == "message_queued":
            kinds[ident] = str(line.data["message_type"])
        elif line.type in ("message_told", "message_completed", "message_dead", "message_withdrawn"):
            ends[ident] = line.type.removeprefix("message_")
    return Counter((kind, ident[1], ends.get(ident, "queued")) for ident, kind in kinds.items())


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _show(place: Path, environment: dict[str, str], title: str, *words: str) -> None:
    _say(f"\n{title} (ackd {words[0]}):\n")
    command = [sys.executable, "-m", "ackd", *words]
    subprocess.run(command, cwd=place, env=environment, stdout=sys.stdout, check=False)
    _say("")


def _epilogue(place: Path, environment: dict[str, str]) -> None:
    dead = next(iter(sorted((place / ".ackd/queue/dead_letter").glob("*.mime"))), None)
    if dead is not None:
        _show(place, environment, "What became of the dead letter", "explain", str(dead))
    _say(f"Everything is still there to look at; remove the directory when you have seen enough:\n  cd {place}")
    ackd = "ackd" if shutil.which("ackd") else "bin/ackd"  # laid out there for the team's scripts
    for line, why in (
        ("inbox user", "what the user was told"),
        ("tail -n 500", "the whole story, line by line"),
        ("dead list", "what could not be delivered, and why"),
        ("dead requeue --all", "dig it up; the next `run` tries again"),
    ):
        _say(f"  {ackd} {line:20} # {why}")


def _words(counts: Counter[tuple[str, str, str]]) -> str:
    return ", ".join(f"{n} {kind} to {to} {end}" for (kind, to, end), n in sorted(counts.items())) or "none"
