"""A warm start is a start: what a cold one gives a process, and takes of it, is the same."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.acceptance.teams import Team
from tests.strays import end_strays, strays

ARGUMENTS = [
    ["--version"],
    ["--help"],
    ["no-such-command"],
    ["status"],
    ["send", "builder", "-"],
    ["message", "check", "-"],
]


@pytest.mark.parametrize("argv", ARGUMENTS, ids=" ".join)
def test_it_prints_and_ends_as_a_cold_one_does(tmp_path: Path, argv: list[str]) -> None:
    team = Team(tmp_path, "[agents.builder]\n")
    assert warm.serves(team.environment)
    text = "hällo\n"
    done = warm.run(argv, cwd=tmp_path, env=team.environment, stdin=text, timeout=60)
    cold = subprocess.run(
        [sys.executable, "-m", "ackd", *argv],
        cwd=tmp_path,
        env=team.environment,
        input=text.encode(errors="surrogateescape"),
        capture_output=True,
        check=False,
    )
    if argv[0] == "send":  # each makes an id of its own
        assert done.returncode == cold.returncode == 0, done.stderr
    else:
        said = cold.stdout.decode(errors="surrogateescape"), cold.stderr.decode(errors="surrogateescape")
        assert (done.returncode, done.stdout, done.stderr) == (cold.returncode, *said)


def test_it_has_the_environment_and_the_descriptors_of_a_cold_one(tmp_path: Path) -> None:
    found = []
    for name in ("warm", "cold"):
        team = Team(tmp_path / name, '[agents.one]\nendpoint = "exec"\ncommand = ["./look"]\n')
        team.script("look", "env | sort > env.txt")
        given: dict[str, Any] = {"close_fds": True} if name == "cold" else {}
        team.start(**given)
        try:
            team.fact("message_completed", message=team.post("one"))
            targets = set()
            for fd in Path(f"/proc/{team.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # the daemon has closed it meanwhile
                    targets.add(str(fd.readlink()))
        finally:
            team.stop()
        outside = {target for target in targets if not target.startswith(str(team.root))}  # not what it opens by itself
        environment = (team.place / "env.txt").read_text()
        found.append(re.sub(r"one--[0-9a-f]+|\d+|warm|cold", "…", "\n".join([environment, *sorted(outside)])))
    assert found[0] == found[1]


def test_a_signal_that_ends_it_is_its_end(tmp_path: Path) -> None:
    team = Team(tmp_path)
    team.start()
    assert team.process is not None
    assert team.process.poll() is None
    os.kill(team.pid, signal.SIGKILL)
    assert team.ended() == -signal.SIGKILL
    team.start()
    assert team.stop(signal.SIGINT) == 0


def test_one_that_a_test_lost_is_found_and_ended(tmp_path: Path) -> None:
    team = Team(tmp_path)
    team.start()
    assert team.pid in strays(tmp_path)
    assert end_strays(tmp_path) == [team.pid]
    assert team.ended() == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD", "LC_ALL", "TZ"])
def test_what_depends_on_an_interpreters_start_is_not_shared(tmp_path: Path, name: str) -> None:
    assert not warm.serves({**Team(tmp_path).environment, name: "otherwise"})
