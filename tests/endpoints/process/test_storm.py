"""Workers that fail at random, in every possible way: each telling has one end, and no process is left."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.core.events import EndpointAway, Outcome, RunEnded, Told
from ackd.core.restarts import RestartPolicy
from tests.endpoints.process.child.real_children import assert_no_child_left, descriptors
from tests.endpoints.process.process_agent import ProcessAgent, Work
from tests.live_config import live_config
from tests.strays import strays

if TYPE_CHECKING:
    from pathlib import Path

STORMY = """
def assign(a):
    how = a["spec_path"].rpartition("/")[2] if a["payload"]["attempt"] == 1 else "done"
    if how == "crash": os._exit(3)
    if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave": sys.exit(0)
    if how == "hang": time.sleep(600)
    if how == "ignore": signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)
    if how == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    if how == "flood":
        while True: os.write(1, b"flood\\n" * 1000)
    if how == "scream":
        while True: os.write(2, b"scream\\n" * 1000)
    if how == "fork": subprocess.Popen(["setsid", "sleep", "600"])
    if how == "deaf": os.close(0); time.sleep(600)
    if how == "mute": os.close(1); time.sleep(600)
    if how == "half": os.write(1, b'{"type": "comp'); os._exit(0)
    if how == "garbage": os.write(1, b"\\xff\\x00 not json\\n")
    done(a)
"""
WAYS = "done crash kill leave hang ignore stop flood scream fork deaf mute half garbage".split()
FAILS = frozenset("crash kill leave hang ignore stop flood scream deaf mute half".split())


async def live_through(process_agent: ProcessAgent, work: Work, ways: list[str]) -> None:
    """Go through each way once; a message that failed is told again, and done then."""
    for key, how in enumerate(ways, 1):
        process_agent.body = {"spec_path": how, "timeout_seconds": 0.3}
        attempts = (1, 2) if how in FAILS else (1,)
        for attempt in attempts:
            if attempt == 2:
                process_agent.body = {"spec_path": how, "timeout_seconds": 60}
            await told(work, key, attempt)
            end = await ended(process_agent, key, attempt)
            assert end.outcome is (Outcome.DONE if attempt == attempts[-1] else Outcome.FAILED), (how, end)
        work.endpoint.let_go(key)


async def told(work: Work, key: int, attempt: int) -> None:
    answer = await work.tell(key, attempt, task_id=None)
    if isinstance(answer, EndpointAway):  # it has just died: again, when it is up
        await anyio.sleep(0.01)
        await told(work, key, attempt)
    else:
        assert isinstance(answer, Told)


async def ended(process_agent: ProcessAgent, key: int, attempt: int) -> RunEnded:
    with anyio.fail_after(60):
        while True:
            found = [one for one in process_agent.all(RunEnded) if (one.key, one.attempt) == (key, attempt)]
            if found:
                return found[0]
            await anyio.sleep(0.005)


@pytest.mark.slow
async def test_every_telling_has_one_end_whatever_its_worker_does(tmp_path: Path) -> None:
    before, rng = descriptors(), random.Random(4)
    shops = [ProcessAgent(tmp_path / f"process_agent{number}") for number in range(4)]
    patient = RestartPolicy(base_s=0.01, cap_s=0.01, limit=1000)
    async with anyio.create_task_group() as tasks:
        for process_agent in shops:
            tasks.start_soon(storm, process_agent, patient, rng.sample(WAYS, len(WAYS)))
    for process_agent in shops:
        ends = [(one.key, one.attempt) for one in process_agent.all(RunEnded)]
        assert len(ends) == len(set(ends)) == len(WAYS) + len(FAILS)
        assert len(process_agent.recorded("child_started")) == len(process_agent.recorded("child_ended"))
        assert strays(process_agent.tmp) == set()
        assert list(process_agent.directory.iterdir()) == []
    assert descriptors() <= before
    assert_no_child_left()


async def storm(process_agent: ProcessAgent, policy: RestartPolicy, ways: list[str]) -> None:
    async with process_agent.worker(STORMY, policy=policy) as work:
        work.supervisor.config = live_config(stop_timeout_s=0.2)
        await live_through(process_agent, work, ways)
