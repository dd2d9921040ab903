"""A run under watch: its time, its end, and its adoption after a crash."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ackd.core.events import Outcome, RunEnded
from ackd.endpoints.exec import run as run_module
from ackd.endpoints.exec.run_files import lock_held
from tests.endpoints.exec.exec_agent import ExecAgent, crashed_daemon, tell, the_run, time_is_up
from tests.living import is_gone
from tests.strays import UNTIL_GO
from tests.waiting import until


async def test_a_run_that_takes_too_long_is_ended(exec_agent: ExecAgent) -> None:
    ended = await exec_agent.run("exec sleep 60", timeout_s=0.1)
    assert ended == RunEnded(1, Outcome.FAILED, "timed out after 0.1 s", 2)
    exec_agent.assert_no_child_left()


async def test_a_command_that_ignores_term_is_killed(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("trap '' TERM; echo $$ >pid; exec sleep 60", timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        time_is_up(endpoint)
        assert await exec_agent.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
        assert is_gone(pid)


async def test_a_fork_that_ignores_term_is_killed_after_its_time(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh(
        "sh -c 'trap \"\" TERM; echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    ) as it:
        await it.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await exec_agent.pid_in("pid"))


async def test_a_setsid_child_that_ignores_term_is_killed_at_the_timeout(exec_agent: ExecAgent) -> None:
    script = "setsid sh -c 'trap \"\" TERM; echo $$ >pid; exec sleep 60'"
    async with exec_agent.sh(script, timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        time_is_up(endpoint)
        assert await exec_agent.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
        assert is_gone(pid)


async def test_an_adopted_run_that_ends_before_we_look_says_its_outcome(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, f"{UNTIL_GO}; exit 75")
    found = the_run(exec_agent)
    (exec_agent.tmp / "work" / "go").touch()
    await until(lambda: not lock_held(found.path))
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        assert await exec_agent.news() == RunEnded(7, Outcome.DEFERRED, "exit 75")


def move_start(exec_agent: ExecAgent, by_s: float) -> None:
    """Change the start time, as if the wall clock had jumped since the run began."""
    spec = exec_agent.run_dirs[0] / "spec.json"
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"started_at": time.time() + by_s}))


async def test_an_adopted_run_is_not_timed_out_by_a_wall_clock_that_jumped_ahead(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, f"echo $$ >pid; {UNTIL_GO}")
    await exec_agent.pid_in("pid")
    move_start(exec_agent, -86400)
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        await until(lambda: exec_agent.facts)
        (exec_agent.tmp / "work" / "go").touch()
        assert await exec_agent.news() == RunEnded(7, Outcome.DONE, "exit 0")


async def test_an_adopted_run_keeps_its_own_timeout_when_the_wall_clock_fell_back(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "echo $$ >pid; setsid sh -c 'echo $$ >far; exec sleep 60'", timeout_s=0.5)
    pids = [await exec_agent.pid_in("pid"), await exec_agent.pid_in("far")]
    move_start(exec_agent, 86400)
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        assert await exec_agent.news() == RunEnded(7, Outcome.FAILED, "timed out after 0.5 s")
    assert all(map(is_gone, pids))


@pytest.mark.parametrize(("started_at", "least", "most"), [(-86400, 0, 0), (86400, 10, 10), (-4, 5.5, 6.5)])
async def test_without_a_known_process_the_time_left_stays_within_reason(
    started_at: float, least: float, most: float
) -> None:
    run = run_module.Run(1, "m", "d", Path(), timeout_s=10, started_at=time.time() + started_at)
    assert least <= run.time_left_s(None) <= most


@pytest.mark.parametrize("started", ["", "not-this-boot\n1 (sh) S\n", "half a li"])
async def test_a_shim_that_cannot_be_named_is_watched_by_its_lock(
    exec_agent: ExecAgent, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_ADOPT_WAIT_S", 0.05)
    monkeypatch.setattr(run_module, "_LOCK_POLL_S", 0.01)
    crashed_daemon(exec_agent, f"echo $$ >pid; {UNTIL_GO}; exit 65")
    await exec_agent.pid_in("pid")
    (exec_agent.run_dirs[0] / "started").write_text(started)
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        await until(lambda: exec_agent.facts)
        assert "pid" not in exec_agent.facts[0][1]
        (exec_agent.tmp / "work" / "go").touch()
        assert await exec_agent.news() == RunEnded(7, Outcome.REFUSED, "exit 65")


async def test_a_recycled_pid_is_not_taken_for_the_shim(exec_agent: ExecAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAILURES: a pid recycled between check and kill. Here it is the pid of the test itself, which a kill would
    end."""
    monkeypatch.setattr(run_module, "_LOCK_POLL_S", 0.01)
    crashed_daemon(exec_agent, "echo $$ >pid; exec sleep 60", timeout_s=0.3)
    victim = await exec_agent.pid_in("pid")
    started = exec_agent.run_dirs[0] / "started"
    boot, line, _ = started.read_text().split("\n")
    started.write_text(f"{boot}\n{os.getpid()} {line.split(' ', 1)[1]}\n")
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        assert await exec_agent.news() == RunEnded(7, Outcome.FAILED, "timed out after 0.3 s")
    assert is_gone(victim)


async def test_stopping_ends_adopted_runs_too(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "echo $$ >pid; exec sleep 60")
    pid = await exec_agent.pid_in("pid")
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        await endpoint.stop(0)
        assert exec_agent.events == [RunEnded(7, Outcome.STOPPED, "ackd was stopped")]
    assert is_gone(pid)
