"""Telling, stopping and forgetting, with real runs."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ackd.core.effects import CallOff, NudgeAgent
from ackd.core.events import EndpointAway, Event, Hindered, NotTold, Outcome, RunEnded, Told
from ackd.endpoints.exec.run_files import scan_runs
from tests.endpoints.exec.exec_agent import MESSAGE, PLACE, ExecAgent, tell
from tests.living import is_gone
from tests.strays import UNTIL_GO
from tests.waiting import until

if TYPE_CHECKING:
    import pytest


def descriptors() -> list[Path]:
    return list(Path("/proc/self/fd").iterdir())


async def test_told_names_the_pid_and_counts_as_seen(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0") as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(await exec_agent.news(), RunEnded)
    pid = exec_agent.facts[0][1]["pid"]
    assert told == Told(1, f"exec pid {pid}", seen=True, attempt=2)
    assert exec_agent.facts[0] == ("child_started", {"agent": "worker", "message_id": "m1@ignite.local", "pid": pid})
    kind, data = exec_agent.facts[1]
    assert kind == "child_ended"
    assert (data["pid"], data["exit"], data["outcome"]) == (pid, 0, "done")


async def test_run_directories_are_private_and_kept_until_forgotten(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0") as endpoint:
        await endpoint.tell(tell())
        await exec_agent.news()
        (run,) = exec_agent.run_dirs
        assert stat.S_IMODE(run.stat().st_mode) == 0o700 == stat.S_IMODE(exec_agent.runs.stat().st_mode)
        for name in ("spec.json", "body", "lock", "output", "started", "status"):
            assert stat.S_IMODE((run / name).stat().st_mode) == 0o600
        assert (run / "status").read_text() == "000\n"
        endpoint.forget(1)
        assert exec_agent.run_dirs == []
        endpoint.forget(1)  # again, after a second commit: harmless


async def test_telling_again_forgets_the_attempt_before(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 3") as endpoint:
        for _ in range(2):
            await endpoint.tell(tell())
            await exec_agent.news()
        assert len(exec_agent.run_dirs) == 1


async def test_several_runs_at_a_time(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh(f"echo $$ >pid.$ACKD_RUN; {UNTIL_GO}") as endpoint:
        for key in range(1, 6):
            assert isinstance(await endpoint.tell(tell(key)), Told)
        await until(lambda: len(list((exec_agent.tmp / "work").glob("pid.*"))) == 5)
        (exec_agent.tmp / "work" / "go").touch()
        ended: list[Event] = []
        while len(ended) < 5:
            await until(lambda: exec_agent.events)
            ended.append(exec_agent.events.pop())
    assert sorted(run.key for run in ended if isinstance(run, RunEnded)) == [1, 2, 3, 4, 5]
    exec_agent.assert_no_child_left()


async def test_the_same_key_is_not_run_twice_at_once(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("sleep 60") as endpoint:
        await endpoint.tell(tell())
        assert await endpoint.tell(tell()) == NotTold(1, "its last run has not ended", attempt=2)
        await endpoint.stop(0)


async def test_nor_is_the_same_message_by_another_key(exec_agent: ExecAgent) -> None:
    """The command refuses the message and goes on; then the message is revived, which is another delivery of the same
    work."""
    again = replace(tell(), key=2)
    other = replace(tell(), key=3, message=replace(MESSAGE, digest="other content"))
    async with exec_agent.sh("sleep 60") as endpoint:
        await endpoint.tell(tell())
        assert await endpoint.tell(again) == NotTold(2, "its last run has not ended", attempt=2)
        assert isinstance(await endpoint.tell(other), Told)
        await endpoint.stop(0)


async def test_what_a_run_leaves_goes_when_it_ends_if_its_message_has_ended_before(exec_agent: ExecAgent) -> None:
    """The command calls ``ackd done`` and exits after that."""
    async with exec_agent.sh(UNTIL_GO) as endpoint:
        await endpoint.tell(tell())
        endpoint.let_go(1)
        assert len(exec_agent.run_dirs) == 1
        (exec_agent.tmp / "work" / "go").touch()
        await until(lambda: not exec_agent.run_dirs)
        assert endpoint.ended_keys() == []


async def test_what_no_kill_ends_is_named(exec_agent: ExecAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.system.process_tree._kill", lambda *_: None)
    monkeypatch.setattr("ackd.system.process_tree.KILLED_WAIT_S", 0.1)
    async with exec_agent.sh("trap '' TERM; sleep 60 & echo $! >pid; exit 0") as endpoint:
        await endpoint.tell(tell())
        await exec_agent.news()
    (ended,) = [facts for kind, facts in exec_agent.facts if kind == "child_ended"]
    assert ended["left"] == [await exec_agent.pid_in("pid")]


async def test_telling_again_waits_for_a_run_that_is_about_to_end(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("sleep 0.1; exit 75", stop_timeout_s=30) as endpoint:
        first = await endpoint.tell(tell())
        second = await endpoint.tell(tell())
        assert isinstance(second, Told)
        assert second != first
        for _ in range(2):
            assert await exec_agent.news() == RunEnded(1, Outcome.DEFERRED, "exit 75", 2)


async def test_exec_agents_have_no_ladder(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0") as endpoint:
        nudge = NudgeAgent("worker", 1, MESSAGE, PLACE, rung=1)
        assert await endpoint.nudge(nudge) == NotTold(1, "exec agents have no ladder")


async def test_a_message_that_is_gone_or_no_file_is_not_told_and_leaves_no_run(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0") as endpoint:
        exec_agent.message.unlink()
        assert isinstance(await endpoint.tell(tell()), NotTold)
        os.mkfifo(exec_agent.message)
        assert isinstance(await endpoint.tell(tell()), NotTold)
        exec_agent.message.unlink()
        exec_agent.message.symlink_to("/etc/passwd")
        assert isinstance(await endpoint.tell(tell()), NotTold)
        assert exec_agent.run_dirs == []


async def test_a_kernel_that_will_not_fork_hinders_us_and_is_nobodys_failure(
    exec_agent: ExecAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    async with exec_agent.sh("exit 0") as endpoint:
        answer = await endpoint.tell(tell())
    assert isinstance(answer, Hindered)
    assert "Resource temporarily unavailable" in answer.reason
    assert exec_agent.run_dirs == []


async def test_an_environment_the_kernel_refuses_is_not_told(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0", env={"NUL": "a\0b"}) as endpoint:
        assert isinstance(await endpoint.tell(tell()), NotTold)


async def test_a_run_that_ends_while_we_drain_says_its_own_outcome(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; sleep 0.2; exit 65") as endpoint:
        await endpoint.tell(tell())
        await exec_agent.pid_in("pid")
        await endpoint.stop(10)
        assert exec_agent.events == [RunEnded(1, Outcome.REFUSED, "exit 65", 2)]
    exec_agent.assert_no_child_left()


async def test_what_still_runs_after_the_drain_is_stopped_not_failed(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        await endpoint.stop(0.05)
        assert exec_agent.events == [RunEnded(1, Outcome.STOPPED, "ackd was stopped", 2)]
        assert is_gone(pid)
        assert await endpoint.tell(tell(2)) == EndpointAway(2, "ackd is stopping", attempt=2)
    exec_agent.assert_no_child_left()
    (found,) = scan_runs(exec_agent.runs)  # and should we die before that is committed, the next daemon reads the same
    assert (found.alive, found.outcome) == (False, Outcome.STOPPED)


async def test_what_runs_when_another_daemon_follows_is_left_to_it(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; until [ -e go ]; do sleep 0.01; done") as endpoint:
        assert not endpoint.leaves_work()
        await endpoint.tell(tell())
        await exec_agent.pid_in("pid")
        assert endpoint.leaves_work()
        await endpoint.leave(60)
        assert exec_agent.events == []
        assert await endpoint.tell(tell(2)) == EndpointAway(2, "ackd is stopping", attempt=2)
        (found,) = scan_runs(exec_agent.runs)
        assert found.alive
    async with exec_agent.sh("exit 1") as next_one:
        next_one.adopt(7, found, speaks_for=2)
        (exec_agent.tmp / "work" / "go").touch()
        ended = await exec_agent.news()
        assert isinstance(ended, RunEnded)
        assert (ended.key, ended.outcome) == (7, Outcome.DONE)


async def test_a_run_that_is_being_ended_is_not_left_to_the_next_daemon(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell())
        await exec_agent.pid_in("pid")
        endpoint.call_off(CallOff("worker", 1, MESSAGE, PLACE, "nobody wants it", 2))
        assert not endpoint.leaves_work()
        await endpoint.leave(60)
        assert [one.outcome for one in exec_agent.events if isinstance(one, RunEnded)] == [Outcome.STOPPED]


async def test_a_stop_is_a_stop_even_if_the_disk_will_not_take_a_note_of_it(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh('mkdir "${ACKD_BODY%body}cause"; echo $$ >pid; exec sleep 60') as endpoint:
        await endpoint.tell(tell())
        await exec_agent.pid_in("pid")
        await endpoint.stop(0)
        assert exec_agent.events == [RunEnded(1, Outcome.STOPPED, "ackd was stopped", 2)]


async def test_a_stop_right_after_the_start_does_not_wait_for_the_kill(exec_agent: ExecAgent) -> None:
    began = time.monotonic()
    async with exec_agent.sh("sleep 600", stop_timeout_s=600) as endpoint:
        await endpoint.tell(tell())
        await endpoint.stop(0)
        assert exec_agent.events == [RunEnded(1, Outcome.STOPPED, "ackd was stopped", 2)]
    assert time.monotonic() - began < 240


async def test_abandoned_runs_go_on_and_nothing_is_posted(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(endpoint.stop, 600)
            await asyncio.sleep(0)
            endpoint.abandon()
    assert exec_agent.events == []
    assert not is_gone(pid)
    (found,) = scan_runs(exec_agent.runs)
    assert found.alive
    os.kill(pid, signal.SIGKILL)
    await until(lambda: os.waitpid(int(str(exec_agent.facts[0][1]["pid"])), os.WNOHANG)[0])


async def test_no_descriptor_leaks(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("sleep 60 & exit 0") as endpoint:
        counts = []
        for key in range(4):
            await endpoint.tell(tell(key))
            await exec_agent.news()
            await asyncio.sleep(0)
            counts.append(len(descriptors()))
    assert counts[0] == counts[-1]
