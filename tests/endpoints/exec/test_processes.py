"""Everything that a run started is found, and ended with it."""

from __future__ import annotations

import os
import signal
import time

from ackd.core.events import Outcome, RunEnded
from tests.endpoints.exec.exec_agent import ExecAgent, tell, time_is_up
from tests.living import is_gone, process_state
from tests.waiting import until


async def test_a_stopped_command_meets_its_term(exec_agent: ExecAgent) -> None:
    """FAILURES: a stopped child keeps TERM pending."""
    script = "trap 'echo bye >bye; exit 1' TERM; echo $$ >pid; kill -STOP $$; sleep 60"
    async with exec_agent.sh(script, timeout_s=60, stop_timeout_s=60) as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        await until(lambda: process_state(pid) == "T")
        time_is_up(endpoint)
        assert await exec_agent.news() == RunEnded(1, Outcome.FAILED, "timed out after 60 s", 2)
    assert (exec_agent.tmp / "work" / "bye").exists()


async def test_a_command_that_forks_and_leaves_is_done_and_its_fork_is_ended(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("sleep 60 & echo $! >pid") as endpoint:
        await endpoint.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await exec_agent.pid_in("pid"))


async def test_a_grandchild_that_holds_stdout_delays_nothing(exec_agent: ExecAgent) -> None:
    """FAILURES: cpython gh-119710."""
    began = time.monotonic()
    ended = await exec_agent.run("(trap '' HUP; sleep 600) & echo out; exit 4", stop_timeout_s=600)
    assert ended == RunEnded(1, Outcome.FAILED, "exit 4: out", 2)
    assert time.monotonic() - began < 240


async def test_a_child_that_called_setsid_is_found_and_ended(exec_agent: ExecAgent) -> None:
    """FAILURES: a child that called setsid escapes killpg."""
    script = "setsid sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with exec_agent.sh(script) as endpoint:
        await endpoint.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
        assert is_gone(await exec_agent.pid_in("pid"))


async def test_a_fork_that_cleaned_its_environment_is_still_known_by_its_session(exec_agent: ExecAgent) -> None:
    script = "env -i sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with exec_agent.sh(script) as endpoint:
        await endpoint.tell(tell())
        await exec_agent.news()
        assert is_gone(await exec_agent.pid_in("pid"))


async def test_a_command_may_leave_something_behind_on_purpose(exec_agent: ExecAgent) -> None:
    script = "env -u ACKD_RUN setsid sh -c 'echo $$ >pid; exec sleep 60' & while [ ! -e pid ]; do sleep 0.01; done"
    async with exec_agent.sh(script) as endpoint:
        await endpoint.tell(tell())
        await exec_agent.news()
        pid = await exec_agent.pid_in("pid")
        assert not is_gone(pid)
        os.kill(pid, signal.SIGKILL)


async def test_a_neighbours_run_is_not_touched(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("[ -e second ] && exit 0; touch second; echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell(1))
        pid = await exec_agent.pid_in("pid")
        await endpoint.tell(tell(2))
        assert await exec_agent.news() == RunEnded(2, Outcome.DONE, "exit 0", 2)
        assert not is_gone(pid)
        await endpoint.stop(0)
