"""Whatever a run started is found, and ended with it."""

from __future__ import annotations

import os
import signal
import time

from ackd.core.events import Outcome, RunEnded
from tests.adapters.exec_runs.bench import Bench, tell, time_is_up
from tests.living import is_gone, process_state
from tests.waiting import until


async def test_a_stopped_command_meets_its_term(bench: Bench) -> None:
    """FAILURES: a stopped child keeps TERM pending."""
    script = "trap 'echo bye >bye; exit 1' TERM; echo $$ >pid; kill -STOP $$; sleep 60"
    async with bench.sh(script, timeout_s=60, stop_timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await bench.pid_in("pid")
        await until(lambda: process_state(pid) == "T")
        time_is_up(endpoint)
        assert await bench.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
    assert (bench.tmp / "work" / "bye").exists()


async def test_a_command_that_forks_and_leaves_is_done_and_its_fork_is_ended(bench: Bench) -> None:
    async with bench.sh("sleep 60 & echo $! >pid") as endpoint:
        await endpoint.tell(tell())
        assert await bench.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await bench.pid_in("pid"))


async def test_a_grandchild_that_holds_stdout_delays_nothing(bench: Bench) -> None:
    """FAILURES: cpython gh-119710."""
    began = time.monotonic()
    ended = await bench.run("(trap '' HUP; sleep 600) & echo out; exit 4", stop_timeout_s=600)
    assert ended == RunEnded(1, Outcome.FAILED, "exit 4: out", 2)
    assert time.monotonic() - began < 240


async def test_a_child_that_called_setsid_is_found_and_ended(bench: Bench) -> None:
    """FAILURES: a child that called setsid escapes killpg."""
    script = "setsid sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with bench.sh(script) as endpoint:
        await endpoint.tell(tell())
        assert await bench.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await bench.pid_in("pid"))


async def test_a_fork_that_cleaned_its_environment_is_still_known_by_its_session(bench: Bench) -> None:
    script = "env -i sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with bench.sh(script) as endpoint:
        await endpoint.tell(tell())
        await bench.news()
        assert is_gone(await bench.pid_in("pid"))


async def test_a_command_may_leave_something_behind_on_purpose(bench: Bench) -> None:
    script = "env -u ACKD_RUN setsid sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with bench.sh(script) as endpoint:
        await endpoint.tell(tell())
        await bench.news()
        pid = await bench.pid_in("pid")
        assert not is_gone(pid)
        os.kill(pid, signal.SIGKILL)


async def test_a_neighbours_run_is_not_touched(bench: Bench) -> None:
    async with bench.sh("[ -e second ] && exit 0; touch second; echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell(1))
        pid = await bench.pid_in("pid")
        await endpoint.tell(tell(2))
        assert await bench.news() == RunEnded(2, Outcome.DONE, "exit 0", 2)
        assert not is_gone(pid)
        await endpoint.stop(0)
