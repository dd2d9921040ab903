"""What another daemon left behind, after a real `kill -9`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.exec_runs import discard_run, lock_held, scan_runs
from ackd.adapters.exec_runs.run_files import read_leader
from ackd.core.events import Outcome, RunEnded, Told
from tests.adapters.exec_runs.bench import Bench, crashed_daemon, tell, the_run
from tests.living import is_gone
from tests.strays import UNTIL_GO
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_run_that_outlived_its_daemon_is_found_alive_and_adopted(bench: Bench) -> None:
    crashed_daemon(bench, f"{UNTIL_GO}; echo whole; exit 65")
    found = the_run(bench)
    assert found.alive
    assert (found.agent, found.message_id, found.box, found.name, found.digest, found.attempt, found.outcome) == (
        "worker",
        "m1@ignite.local",
        "worker",
        "task_assignment_1.mime",
        "d1g",
        2,
        None,
    )
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        (bench.tmp / "work" / "go").touch()
        assert await bench.news() == RunEnded(7, Outcome.REFUSED, "exit 65: whole")
        assert [kind for kind, _ in bench.facts] == ["child_started", "child_ended"]
        assert bench.facts[0][1]["adopted"] is True
        assert len(bench.run_dirs) == 1
        endpoint.forget(7)
    assert bench.run_dirs == []


async def test_a_run_that_ended_unwatched_is_found_with_its_outcome(bench: Bench) -> None:
    crashed_daemon(bench, "echo done it; exit 3")
    await until(lambda: not lock_held(bench.run_dirs[0]))
    found = the_run(bench)
    assert (found.alive, found.outcome, found.detail) == (False, Outcome.FAILED, "exit 3: done it")
    async with bench.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        endpoint.forget(7)
    assert bench.events == []
    assert bench.run_dirs == []


async def test_a_run_that_died_without_a_word_is_unknown(bench: Bench) -> None:
    crashed_daemon(bench, "echo $$ >pid; exec sleep 60")
    os.killpg(os.getpgid(await bench.pid_in("pid")), signal.SIGKILL)
    await until(lambda: not lock_held(bench.run_dirs[0]))
    found = the_run(bench)
    assert (found.alive, found.outcome, found.detail) == (False, None, "killed")
    discard_run(found)
    assert bench.run_dirs == []


def test_what_never_ran_is_swept_and_an_empty_place_is_no_error(tmp_path: Path) -> None:
    assert scan_runs(tmp_path / "none") == []
    for name, spec in (("worker--1", None), ("worker--2", ""), ("worker--3", '{"agent": 1}'), ("worker--4", "[]")):
        (tmp_path / name).mkdir()
        if spec is not None:
            (tmp_path / name / "spec.json").write_text(spec)
    assert scan_runs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


async def test_what_a_run_left_behind_while_nobody_looked_is_ended(bench: Bench) -> None:
    crashed_daemon(bench, "(setsid sleep 300 & echo $! >left)")
    await until(lambda: not the_run(bench).alive)
    left, found = await bench.pid_in("left"), the_run(bench)
    async with bench.sh("true") as endpoint:
        endpoint.adopt(7, found)
        await until(lambda: is_gone(left))
        assert found.path.exists()  # its outcome is not committed yet
        assert bench.events == []


async def test_a_message_is_not_told_again_beside_what_its_dead_run_left_behind(bench: Bench) -> None:
    crashed_daemon(bench, "trap '' TERM; echo $$ >left; while :; do sleep 0.1; done")
    left, found = await bench.pid_in("left"), the_run(bench)
    leader = read_leader(found.path)
    assert leader is not None
    os.kill(leader.pid, signal.SIGKILL)  # the shim alone: its command goes on without it
    await until(lambda: not lock_held(found.path))
    async with bench.sh(f"grep -q 'State:.[^Z]' /proc/{left}/status && exit 1; exit 0") as endpoint:
        endpoint.adopt(7, the_run(bench))
        assert isinstance(await endpoint.tell(tell(7)), Told)
        ended = await bench.news()
        assert isinstance(ended, RunEnded)
        assert ended.outcome is Outcome.DONE


async def test_a_run_whose_word_was_heard_is_seen_through_in_silence(bench: Bench) -> None:
    crashed_daemon(bench, UNTIL_GO)
    async with bench.sh("true") as endpoint:
        endpoint.adopt(7, the_run(bench), speaks_for=None)
        await until(lambda: bench.facts)
        (bench.tmp / "work/go").touch()
        assert isinstance(await endpoint.tell(tell(7)), Told)  # once the old one has ended
        kinds = [kind for kind, _ in bench.facts]
        assert kinds[:3] == ["child_started", "child_ended", "child_started"]
        await bench.news()
        assert bench.events == []


@pytest.mark.parametrize("script", ["true", UNTIL_GO])
async def test_a_run_of_nobody_is_seen_through_and_its_directory_goes(bench: Bench, script: str) -> None:
    crashed_daemon(bench, script)
    if script == "true":
        await until(lambda: not the_run(bench).alive)
    async with bench.sh("true") as endpoint:
        endpoint.adopt(None, the_run(bench))
        (bench.tmp / "work/go").touch()
        await until(lambda: not bench.run_dirs)
        assert bench.events == []
