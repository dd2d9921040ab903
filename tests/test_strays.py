"""Only what the test started is ended, and all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.strays import MARK, end_strays, strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(started: list[subprocess.Popen[bytes]], script: str, **env: str) -> subprocess.Popen[bytes]:
    """Returns when the script has said that it is there."""
    process = subprocess.Popen(
        ["sh", "-c", f"{script} echo; exec sleep 60"],
        env={"PATH": os.environ["PATH"], **env},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    started.append(process)
    return process


def test_what_is_marked_is_ended_whatever_it_ignores(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    run = start(started, "trap '' TERM HUP;", ACKD_BODY=f"{tmp_path}/state/runs/x/body")
    daemon = start(started, "", **{MARK: str(tmp_path)})
    assert {run.pid, daemon.pid} == set(end_strays(tmp_path))
    assert strays(tmp_path) == set()


def test_what_fled_or_cleaned_its_environment_is_found(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    script = f"env -i sleep 60 & echo $! >{tmp_path}/clean; setsid sleep 60 & echo $! >{tmp_path}/fled;"
    run = start(started, script, ACKD_BODY=f"{tmp_path}/body")
    clean, fled = (int((tmp_path / name).read_text()) for name in ("clean", "fled"))
    deadline = time.monotonic() + 10
    while os.getsid(fled) != fled:
        assert time.monotonic() < deadline
    assert {run.pid, clean, fled} <= set(end_strays(tmp_path))


def test_neighbours_are_left_alone(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    others = [
        start(started, "", ACKD_BODY=f"{tmp_path}2/body"),
        start(started, "", **{MARK: str(tmp_path.parent)}),
        start(started, "", ACKD_ROOT=str(tmp_path)),
        start(started, f"cd {tmp_path};"),
    ]
    assert end_strays(tmp_path) == []
    assert [process.poll() for process in others] == [None] * 4


def test_a_killed_child_of_ours_is_reaped(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {MARK: str(tmp_path)})
    assert end_strays(tmp_path) == [child]
    with pytest.raises(ProcessLookupError):
        os.kill(child, signal.SIGCONT)
