"""The files of a run: reading them, keeping the output short, and the runs that a crashed daemon left."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from ackd.core.events import Outcome, RunEnded, Told
from ackd.endpoints.exec import run_files
from ackd.endpoints.exec.run_files import killed_detail, lock_held, read_leader, scan_runs
from tests.endpoints.exec.exec_agent import ExecAgent, crashed_daemon, tell, the_run
from tests.living import is_gone
from tests.strays import UNTIL_GO
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("status", ["", "0", "\n", "0\n0\n", "-1\n", "x\n", "1234\n"])
def test_a_status_that_is_not_one_whole_line_is_none(tmp_path: Path, status: str) -> None:
    (tmp_path / "status").write_text(status)
    assert run_files.read_status(tmp_path) is None


# --- output -----------------------------------------------------------------------------------------------------------
def test_up_to_the_limit_it_is_not_too_long(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"")
    os.truncate(tmp_path / "output", run_files.OUTPUT_LIMIT_BYTES)
    assert not run_files.output_is_too_long(tmp_path)
    os.truncate(tmp_path / "output", run_files.OUTPUT_LIMIT_BYTES + 1)
    assert run_files.output_is_too_long(tmp_path)


def test_a_run_that_is_gone_prints_nothing(tmp_path: Path) -> None:
    assert not run_files.output_is_too_long(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        run_files.cut_output(tmp_path / "gone")


def test_the_end_is_kept_and_the_command_goes_on_after_it(tmp_path: Path) -> None:
    with (tmp_path / "output").open("ab", buffering=0) as command:
        command.write(b"a" * run_files.OUTPUT_LIMIT_BYTES + b"the reason")
        dropped = run_files.cut_output(tmp_path)
        command.write(b" and more")
    left = (tmp_path / "output").read_bytes()
    assert left.startswith(b"[ackd cut %d bytes here]\na" % dropped)
    assert left.endswith(b"athe reason and more")
    assert dropped == run_files.OUTPUT_LIMIT_BYTES + len(b"the reason") - run_files.KEPT_BYTES
    assert len(left) < 2 * run_files.KEPT_BYTES


# --- the outcome of a run that is over --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "outcome"),
    [(0, Outcome.DONE), (75, Outcome.DEFERRED), (65, Outcome.REFUSED), (1, Outcome.FAILED), (3, Outcome.FAILED)],
)
async def test_exit_codes(exec_agent: ExecAgent, code: int, outcome: Outcome) -> None:
    assert await exec_agent.run(f"exit {code}") == RunEnded(1, outcome, f"exit {code}", 2)
    exec_agent.assert_no_child_left()


async def test_the_last_lines_of_output_are_the_reason_and_harmless(exec_agent: ExecAgent) -> None:
    ended = await exec_agent.run(
        r"printf 'first\nsecond\n\033[31mred\033[0m\a \342\200\256evil\t\n\n'; echo last >&2; exit 3"
    )
    assert ended == RunEnded(1, Outcome.FAILED, "exit 3: second | red evil | last", 2)


async def test_a_flood_of_output_is_cut(exec_agent: ExecAgent) -> None:
    ended = await exec_agent.run(
        "i=0; while [ $i -lt 5000 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done; printf '%01000d' 7; exit 1"
    )
    assert isinstance(ended, RunEnded)
    assert len(ended.detail) <= 500
    assert ended.detail.endswith("0007")


async def test_a_command_killed_by_a_signal_says_which(exec_agent: ExecAgent) -> None:
    assert await exec_agent.run("kill -SEGV $$") == RunEnded(1, Outcome.FAILED, "exit 139 (SIGSEGV)", 2)


def test_a_real_time_signal_has_a_number_for_a_name() -> None:
    assert killed_detail(-40) == "killed by signal 40"
    assert killed_detail(-9) == "killed by SIGKILL"


# --- runs that a daemon left, after a real `kill -9` ------------------------------------------------------------------
async def test_a_run_that_outlived_its_daemon_is_found_alive_and_adopted(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, f"{UNTIL_GO}; echo whole; exit 65")
    found = the_run(exec_agent)
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
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        (exec_agent.tmp / "work" / "go").touch()
        assert await exec_agent.news() == RunEnded(7, Outcome.REFUSED, "exit 65: whole")
        assert [kind for kind, _ in exec_agent.facts] == ["child_started", "child_ended"]
        assert exec_agent.facts[0][1]["adopted"] is True
        assert len(exec_agent.run_dirs) == 1
        endpoint.forget(7)
    assert exec_agent.run_dirs == []


async def test_a_run_that_ended_unwatched_is_found_with_its_outcome(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "echo done it; exit 3")
    await until(lambda: not lock_held(exec_agent.run_dirs[0]))
    found = the_run(exec_agent)
    assert (found.alive, found.outcome, found.detail) == (False, Outcome.FAILED, "exit 3: done it")
    async with exec_agent.sh("exit 0") as endpoint:
        endpoint.adopt(7, found)
        endpoint.forget(7)
    assert exec_agent.events == []
    assert exec_agent.run_dirs == []


async def test_a_run_that_died_without_a_word_is_unknown(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "echo $$ >pid; exec sleep 60")
    os.killpg(os.getpgid(await exec_agent.pid_in("pid")), signal.SIGKILL)
    await until(lambda: not lock_held(exec_agent.run_dirs[0]))
    found = the_run(exec_agent)
    assert (found.alive, found.outcome, found.detail) == (False, None, "killed")
    found.discard()
    assert exec_agent.run_dirs == []


def test_what_never_ran_is_swept_and_an_empty_place_is_no_error(tmp_path: Path) -> None:
    assert scan_runs(tmp_path / "none") == []
    for name, spec in (("worker--1", None), ("worker--2", ""), ("worker--3", '{"agent": 1}'), ("worker--4", "[]")):
        (tmp_path / name).mkdir()
        if spec is not None:
            (tmp_path / name / "spec.json").write_text(spec)
    assert scan_runs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


async def test_what_a_run_left_behind_while_nobody_looked_is_ended(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "(setsid sleep 300 & echo $! >left)")
    await until(lambda: not the_run(exec_agent).alive)
    left, found = await exec_agent.pid_in("left"), the_run(exec_agent)
    async with exec_agent.sh("true") as endpoint:
        endpoint.adopt(7, found)
        await until(lambda: is_gone(left))
        assert found.path.exists()  # its outcome is not committed yet
        assert exec_agent.events == []


async def test_a_message_is_not_told_again_beside_what_its_dead_run_left_behind(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, "trap '' TERM; echo $$ >left; while :; do sleep 0.1; done")
    left, found = await exec_agent.pid_in("left"), the_run(exec_agent)
    leader = read_leader(found.path)
    assert leader is not None
    os.kill(leader.pid, signal.SIGKILL)  # the shim alone: its command goes on without it
    await until(lambda: not lock_held(found.path))
    async with exec_agent.sh(f"grep -q 'State:.[^Z]' /proc/{left}/status && exit 1; exit 0") as endpoint:
        endpoint.adopt(7, the_run(exec_agent))
        assert isinstance(await endpoint.tell(tell(7)), Told)
        ended = await exec_agent.news()
        assert isinstance(ended, RunEnded)
        assert ended.outcome is Outcome.DONE


async def test_a_run_whose_word_was_heard_is_seen_through_in_silence(exec_agent: ExecAgent) -> None:
    crashed_daemon(exec_agent, UNTIL_GO)
    async with exec_agent.sh("true") as endpoint:
        endpoint.adopt(7, the_run(exec_agent), speaks_for=None)
        await until(lambda: exec_agent.facts)
        (exec_agent.tmp / "work/go").touch()
        assert isinstance(await endpoint.tell(tell(7)), Told)  # once the old one has ended
        kinds = [kind for kind, _ in exec_agent.facts]
        assert kinds[:3] == ["child_started", "child_ended", "child_started"]
        await exec_agent.news()
        assert exec_agent.events == []


@pytest.mark.parametrize("script", ["true", UNTIL_GO])
async def test_a_run_of_nobody_is_seen_through_and_its_directory_goes(exec_agent: ExecAgent, script: str) -> None:
    crashed_daemon(exec_agent, script)
    if script == "true":
        await until(lambda: not the_run(exec_agent).alive)
    async with exec_agent.sh("true") as endpoint:
        endpoint.adopt(None, the_run(exec_agent))
        (exec_agent.tmp / "work/go").touch()
        await until(lambda: not exec_agent.run_dirs)
        assert exec_agent.events == []
