"""One run under watch: its time, its end, and its adoption after a crash."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ackd.adapters.exec_runs import lock_held
from ackd.adapters.exec_runs import run as run_module
from ackd.core.events import Outcome, RunEnded
from tests.adapters.exec_runs.bench import Bench, crashed_daemon, tell, the_run, time_is_up
from tests.living import is_gone
from tests.strays import UNTIL_GO
from tests.waiting import until


async def test_a_run_that_takes_too_long_is_ended(bench: Bench) -> None:
    ended = await bench.run("exec sleep 60", timeout_s=0.1)
    assert ended == RunEnded(1, Outcome.FAILED, "timed out after 0.1 s", 2)
    bench.assert_no_child_left()


async def test_a_command_that_ignores_term_is_killed(bench: Bench) -> None:
    async with bench.sh("trap '' TERM; echo $$ >pid; exec sleep 60", timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await bench.pid_in("pid")
        time_is_up(endpoint)
        assert await bench.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
        assert is_gone(pid)


async def test_a_fork_that_ignores_term_is_killed_after_its_time(bench: Bench) -> None:
    async with bench.sh(
        "sh -c 'trap \"\" TERM; echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    ) as it:
        await it.tell(tell())
        assert await bench.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await bench.pid_in("pid"))


async def test_a_setsid_child_that_ignores_term_is_killed_at_the_timeout(bench: Bench) -> None:
    script = "setsid sh -c 'trap \"\" TERM; echo $$ >pid; exec sleep 60'"
    async with bench.sh(script, timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await bench.pid_in("pid")
        time_is_up(endpoint)
        assert await bench.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
        assert is_gone(pid)


async def test_an_adopted_run_that_ends_before_we_look_says_its_outcome(bench: Bench) -> None:
    crashed_daemon(bench, f"{UNTIL_GO}; exit 75")
    found = the_run(bench)
    (bench.tmp / "work" / "go").touch()
    await until(lambda: not lock_held(found.path))
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        assert await bench.news() == RunEnded(7, Outcome.DEFERRED, "exit 75")


def move_start(bench: Bench, by_s: float) -> None:
    """As if the wall clock had jumped since the run began."""
    spec = bench.run_dirs[0] / "spec.json"
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"started_at": time.time() + by_s}))


async def test_an_adopted_run_is_not_timed_out_by_a_wall_clock_that_jumped_ahead(bench: Bench) -> None:
    crashed_daemon(bench, f"echo $$ >pid; {UNTIL_GO}")
    await bench.pid_in("pid")
    move_start(bench, -86400)
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        await until(lambda: bench.facts)
        (bench.tmp / "work" / "go").touch()
        assert await bench.news() == RunEnded(7, Outcome.DONE, "exit 0")


async def test_an_adopted_run_keeps_its_own_timeout_when_the_wall_clock_fell_back(bench: Bench) -> None:
    crashed_daemon(bench, "echo $$ >pid; setsid sh -c 'echo $$ >far; exec sleep 60'", timeout_s=0.5)
    pids = [await bench.pid_in("pid"), await bench.pid_in("far")]
    move_start(bench, 86400)
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        assert await bench.news() == RunEnded(7, Outcome.FAILED, "timed out after 0.5 s")
    assert all(map(is_gone, pids))


@pytest.mark.parametrize(("started_at", "least", "most"), [(-86400, 0, 0), (86400, 10, 10), (-4, 5.5, 6.5)])
async def test_without_a_known_process_the_time_left_stays_within_reason(
    started_at: float, least: float, most: float
) -> None:
    run = run_module.Run(1, "m", "d", Path(), timeout_s=10, started_at=time.time() + started_at)
    assert least <= run.time_left_s(None) <= most


@pytest.mark.parametrize("started", ["", "not-this-boot\n1 (sh) S\n", "half a li"])
async def test_a_shim_that_cannot_be_named_is_watched_by_its_lock(
    bench: Bench, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_ADOPT_WAIT_S", 0.05)
    monkeypatch.setattr(run_module, "_LOCK_POLL_S", 0.01)
    crashed_daemon(bench, f"echo $$ >pid; {UNTIL_GO}; exit 65")
    await bench.pid_in("pid")
    (bench.run_dirs[0] / "started").write_text(started)
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        await until(lambda: bench.facts)
        assert "pid" not in bench.facts[0][1]
        (bench.tmp / "work" / "go").touch()
        assert await bench.news() == RunEnded(7, Outcome.REFUSED, "exit 65")


async def test_a_recycled_pid_is_not_taken_for_the_shim(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAILURES: a pid recycled between check and kill. The recycled one here is our own: a kill would end the test."""
    monkeypatch.setattr(run_module, "_LOCK_POLL_S", 0.01)
    crashed_daemon(bench, "echo $$ >pid; exec sleep 60", timeout_s=0.3)
    victim = await bench.pid_in("pid")
    started = bench.run_dirs[0] / "started"
    boot, line, _ = started.read_text().split("\n")
    started.write_text(f"{boot}\n{os.getpid()} {line.split(' ', 1)[1]}\n")
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        assert await bench.news() == RunEnded(7, Outcome.FAILED, "timed out after 0.3 s")
    assert is_gone(victim)


async def test_stopping_ends_adopted_runs_too(bench: Bench) -> None:
    crashed_daemon(bench, "echo $$ >pid; exec sleep 60")
    pid = await bench.pid_in("pid")
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        await endpoint.stop(0)
        assert bench.events == [RunEnded(7, Outcome.STOPPED, "ackd was stopped")]
    assert is_gone(pid)
