"""What a killed daemon left of its children is found at the next start, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

from ackd import processes
from ackd.adapters.child import end_remnants
from ackd.adapters.child.remnants import Remnant, remnants, write_down
from tests.adapters.child.nursery import REPOSITORY, Nursery
from tests.living import is_gone
from tests.waiting import until


def killed_daemon(nursery: Nursery, script: str) -> None:
    """Another process starts the child and is killed, as by `kill -9`, once the script has said a line."""
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from tests.adapters.child.nursery import Nursery, first_line
async def main():
    await first_line(Nursery(Path({str(nursery.tmp)!r})).sh({script!r}).start(1))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL


async def test_what_a_child_had_started_is_ended_at_the_next_start(nursery: Nursery) -> None:
    """No orphan after `kill -9`: the child dies with its daemon, its grandchildren when the next one starts."""
    killed_daemon(
        nursery, "(trap '' HUP; exec sleep 60) & echo $! >near; setsid sleep 60 & echo $! >far; echo up; wait"
    )
    pids = [await nursery.pid_in("near"), await nursery.pid_in("far")]
    (remnant,) = remnants(nursery.directory)
    await until(lambda: is_gone(remnant.pid or 0))
    assert not any(map(is_gone, pids))
    assert await end_remnants(nursery.directory, 5) == ["worker"]
    assert all(map(is_gone, pids))
    assert list(nursery.directory.iterdir()) == []
    assert await end_remnants(nursery.directory, 5) == []


async def test_what_ignores_term_is_killed_at_the_next_start(nursery: Nursery) -> None:
    killed_daemon(
        nursery, "setsid sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 1; done' & cat pid; echo up; wait"
    )
    pid = await nursery.pid_in("pid")
    await end_remnants(nursery.directory, 0.1)
    assert is_gone(pid)


async def test_a_child_that_left_nothing_is_only_crossed_out(nursery: Nursery) -> None:
    killed_daemon(nursery, "echo up; cat")
    (remnant,) = remnants(nursery.directory)
    await until(lambda: is_gone(remnant.pid or 0))
    assert await end_remnants(nursery.directory, 5) == []
    assert list(nursery.directory.iterdir()) == []


async def test_the_record_is_private_and_says_who_it_is(nursery: Nursery) -> None:
    life = nursery.sh("cat").start(1)
    (path,) = nursery.directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(nursery.directory.stat().st_mode) == 0o700
    said = json.loads(path.read_text())
    assert said == {
        "agent": "worker",
        "mark": life.mark,
        "boot_id": processes.boot_id(),
        "pid": life.pid,
        "start_ticks": processes.identity_of(life.pid).start_ticks,
    }
    await life.end(5)


async def test_a_recycled_pid_is_not_taken_for_a_child(nursery: Nursery) -> None:
    """FAILURES: a pid recycled between check and kill. It is our own here: its session's end would be the test's."""
    write_down(nursery.directory, Remnant("worker", "worker--none", processes.boot_id(), os.getsid(0), 1))
    assert await end_remnants(nursery.directory, 0) == []


async def test_a_record_of_another_boot_or_none_at_all_is_let_go(nursery: Nursery) -> None:
    write_down(nursery.directory, Remnant("worker", "m", "another boot", os.getpid(), 1))
    (nursery.directory / "half.json").write_text('{"agent": "wor')
    (nursery.directory / ".worker.json.tmp").write_text("")
    assert remnants(nursery.directory) == []
    assert list(nursery.directory.iterdir()) == []


def marked(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={"ACKD_CHILD": mark})


async def test_a_daemon_that_died_before_it_knew_the_pid_left_the_mark(nursery: Nursery) -> None:
    write_down(nursery.directory, Remnant("worker", "worker--abc", processes.boot_id()))
    lost = marked("worker--abc")
    assert await end_remnants(nursery.directory, 5) == ["worker"]
    assert lost.wait(60) == -signal.SIGTERM


async def test_no_directory_no_remnants(nursery: Nursery) -> None:
    assert await end_remnants(nursery.tmp / "nowhere", 5) == []
