"""What another daemon left behind, after a real `kill -9`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ackd.adapters.exec_runs import discard_run, lock_held, scan_runs
from ackd.core.events import Outcome, RunEnded
from tests.adapters.exec_runs.bench import Bench, crashed_daemon, the_run, until
from tests.strays import UNTIL_GO

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
