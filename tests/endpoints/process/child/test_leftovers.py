"""Processes that a killed daemon's children left are found at the next start, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

from ackd.endpoints.process.child import end_leftovers
from ackd.endpoints.process.child.leftovers import ChildRecord, read_records, write_record
from ackd.system import processes
from tests.endpoints.process.child.real_children import REPOSITORY, RealChildren
from tests.living import is_gone
from tests.waiting import until


def killed_daemon(real_children: RealChildren, script: str) -> None:
    """Another process starts the child and is killed, as by `kill -9`, once the script has said a line."""
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from tests.endpoints.process.child.real_children import RealChildren, first_line
async def main():
    await first_line(RealChildren(Path({str(real_children.tmp)!r})).sh({script!r}).start(1))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL


async def test_what_a_child_had_started_is_ended_at_the_next_start(real_children: RealChildren) -> None:
    """No orphan after `kill -9`: the child dies with its daemon, its grandchildren when the next one starts."""
    killed_daemon(
        real_children, "(trap '' HUP; exec sleep 60) & echo $! >near; setsid sleep 60 & echo $! >far; echo up; wait"
    )
    pids = [await real_children.pid_in("near"), await real_children.pid_in("far")]
    (entry,) = read_records(real_children.directory)
    await until(lambda: is_gone(entry.pid or 0))
    assert not any(map(is_gone, pids))
    assert await end_leftovers(real_children.directory, 5) == ["worker"]
    assert all(map(is_gone, pids))
    assert list(real_children.directory.iterdir()) == []
    assert await end_leftovers(real_children.directory, 5) == []


async def test_what_ignores_term_is_killed_at_the_next_start(real_children: RealChildren) -> None:
    killed_daemon(
        real_children, "setsid sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 1; done' & cat pid; echo up; wait"
    )
    pid = await real_children.pid_in("pid")
    await end_leftovers(real_children.directory, 0.1)
    assert is_gone(pid)


async def test_a_child_that_left_nothing_is_only_crossed_out(real_children: RealChildren) -> None:
    killed_daemon(real_children, "echo up; exec cat")  # one process: none that ends after it
    (entry,) = read_records(real_children.directory)
    await until(lambda: is_gone(entry.pid or 0))
    assert await end_leftovers(real_children.directory, 5) == []
    assert list(real_children.directory.iterdir()) == []


async def test_the_record_is_private_and_says_who_it_is(real_children: RealChildren) -> None:
    life = real_children.sh("cat").start(1)
    (path,) = real_children.directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(real_children.directory.stat().st_mode) == 0o700
    said = json.loads(path.read_text())
    assert said == {
        "agent": "worker",
        "mark": life.mark,
        "boot_id": processes.boot_id(),
        "pid": life.pid,
        "start_ticks": processes.identity_of(life.pid).start_ticks,
    }
    await life.end(5)


async def test_a_recycled_pid_is_not_taken_for_a_child(real_children: RealChildren) -> None:
    """FAILURES: a pid recycled between check and kill. Here it is the pid of the test itself: to end its session would
    end the test."""
    write_record(real_children.directory, ChildRecord("worker", "worker--none", processes.boot_id(), os.getsid(0), 1))
    assert await end_leftovers(real_children.directory, 0) == []


async def test_a_record_of_another_boot_or_none_at_all_is_let_go(real_children: RealChildren) -> None:
    write_record(real_children.directory, ChildRecord("worker", "m", "another boot", os.getpid(), 1))
    (real_children.directory / "half.json").write_text('{"agent": "wor')
    (real_children.directory / ".worker.json.tmp").write_text("")
    assert read_records(real_children.directory) == []
    assert list(real_children.directory.iterdir()) == []


def marked(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={"ACKD_CHILD": mark})


async def test_a_daemon_that_died_before_it_knew_the_pid_left_the_mark(real_children: RealChildren) -> None:
    write_record(real_children.directory, ChildRecord("worker", "worker--abc", processes.boot_id()))
    lost = marked("worker--abc")
    assert await end_leftovers(real_children.directory, 5) == ["worker"]
    assert lost.wait(60) == -signal.SIGTERM


async def test_no_directory_no_records(real_children: RealChildren) -> None:
    assert await end_leftovers(real_children.tmp / "nowhere", 5) == []
