"""CPU time of all that belongs to a child, measured on real processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from errno import EMFILE
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.system import process_tree
from ackd.system.process_tree import ProcessTable, ProcessTree, close_all, end_tree, find_processes, is_dead, send
from tests.strays import MARK, end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator


SPIN = "import os,sys,time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    end_strays(tmp_path)


def spinning(tmp_path: Path, *before: str) -> subprocess.Popen[bytes]:
    """A process that has used 0.3 s, below ``before``, and waits."""
    env = {**os.environ, MARK: str(tmp_path), "ACKD_CHILD": "worker--1"}
    command = [*before, sys.executable, "-S", "-c", SPIN]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == b"\n"
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    child.communicate()
    child.wait()


def test_what_a_process_has_used_is_counted(tmp_path: Path) -> None:
    child = spinning(tmp_path)
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    end(child)


def test_what_its_children_have_used_is_counted_in_whatever_session(tmp_path: Path) -> None:
    child = spinning(tmp_path, "setsid", "--wait")
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    assert ProcessTable().cpu_s(2**30, "worker--1") >= 0.25  # by its mark alone
    end(child)


def test_what_a_child_of_its_has_used_stays_counted_when_it_has_ended(tmp_path: Path) -> None:
    script = f"{sys.executable} -S -c 'import time\nwhile time.process_time() < 0.3: pass'; echo; read -r x"
    child = subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={MARK: str(tmp_path)},
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    end(child)


def test_who_is_gone_has_used_nothing() -> None:
    assert ProcessTable().cpu_s(2**30, "worker--none") == 0


def test_one_look_serves_all_who_ask_shortly_after(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    scandir = os.scandir

    def note(path: str) -> object:
        looks.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", note)
    table = ProcessTable(max_age_s=60)
    for _ in range(50):
        table.cpu_s(os.getpid(), "")
    assert len(looks) == 1
    table = ProcessTable(max_age_s=0)
    for _ in range(3):
        table.cpu_s(os.getpid(), "")
    assert len(looks) == 4


# --- finding ----------------------------------------------------------------------------------------------------------
def sleeper(**env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env=env, start_new_session=True)


def kill(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def test_found_by_mark_by_session_or_by_another_sign_and_nobody_else() -> None:
    marked, led, other, stranger = sleeper(M="x"), sleeper(), sleeper(), sleeper(M="xy")
    try:
        found = find_processes("M=x", led.pid, lambda: {other.pid})
        assert found.keys() == {marked.pid, led.pid, other.pid}
        close_all(found)
        assert stranger.poll() is None
    finally:
        kill(marked, led, other, stranger)


def test_found_while_it_becomes_another_program_again_and_again(tmp_path: Path) -> None:
    """In the middle of execve a process has no environment, and must be looked at again."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o700)
    process = subprocess.Popen([again], env={"M": str(tmp_path)}, start_new_session=True)
    try:
        for _ in range(300):
            found = find_processes(f"M={tmp_path}")
            close_all(found)
            assert found.keys() == {process.pid}
    finally:
        kill(process)


def test_an_empty_environment_is_looked_at_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    process, waited = sleeper(), list[float]()
    try:
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            pass
        with monkeypatch.context() as counting:
            counting.setattr(time, "sleep", waited.append)
            assert process_tree._environment(process.pid) == b""
        assert len(waited) <= 2
    finally:
        kill(process)


def test_a_tree_of_thousands_is_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "AT_A_TIME", 2)
    many = [sleeper(M="many") for _ in range(5)]
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    try:
        found = find_processes("M=many")
        assert len(found) == 2
        assert len(os.listdir("/proc/self/fd")) == before + 2  # noqa: PTH208
        close_all(found)
    finally:
        kill(*many)


def test_the_dead_do_not_belong() -> None:
    process = sleeper(M="x")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert find_processes("M=x", process.pid) == {}
    process.wait()


def test_who_no_longer_belongs_at_the_second_look_is_let_go() -> None:
    """FAILURES: a pid recycled between check and kill."""
    process = sleeper()
    answers = iter([{process.pid}, set[int]()])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert find_processes("M=none", None, lambda: next(answers)) == {}
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    kill(process)


def test_a_machine_that_does_not_let_us_look_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    process = sleeper(M="x")

    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many"):
        find_processes("M=x", None)
    kill(process)


def test_a_signal_goes_to_who_is_held() -> None:
    process = sleeper()
    fd = os.pidfd_open(process.pid)
    assert not is_dead(fd)
    send(fd, signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    assert is_dead(fd)
    send(fd, signal.SIGTERM)  # gone: nobody is hit
    os.close(fd)


# --- ending -----------------------------------------------------------------------------------------------------------
def marked_tree(mark: str) -> ProcessTree:
    return ProcessTree(f"M={mark}", session=lambda: None, group=lambda: None)


def start(mark: str, script: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(["sh", "-c", script], env={"M": mark}, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


async def test_what_goes_by_term_is_not_killed() -> None:
    child = start("gentle", "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
    ended = await end_tree(marked_tree("gentle"), 20, anyio.CapacityLimiter(1))
    assert (child.wait(60), ended.gone) == (7, True)
    assert child.pid in ended.met


async def test_what_stays_is_killed_when_its_time_is_up() -> None:
    child = start("stubborn", "trap '' TERM; echo; while :; do sleep 1; done")
    ended = await end_tree(marked_tree("stubborn"), 0.05, anyio.CapacityLimiter(1))
    assert (child.wait(60), ended.gone) == (-9, True)


async def test_nothing_to_end_is_nothing_met() -> None:
    ended = await end_tree(marked_tree("nobody"), 10, anyio.CapacityLimiter(1))
    assert (ended.gone, ended.met) == (True, frozenset())


async def test_who_cannot_look_says_why_once_and_looks_again_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals, said = [EMFILE, EMFILE], list[OSError]()

    def look(*_: object) -> dict[int, int]:
        if refusals:
            raise OSError(refusals.pop(), "Too many open files")
        return {}

    monkeypatch.setattr("ackd.system.process_tree.find_processes", look)
    monkeypatch.setattr(process_tree, "_LOOK_AGAIN_S", 0.001)
    ended = await end_tree(ProcessTree("ACKD_RUN=x", hindered=said.append), 10, anyio.CapacityLimiter(1))
    assert ended.gone
    assert [error.errno for error in said] == [EMFILE]


async def test_what_no_kill_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    child = start("undying", "echo; exec sleep 60")
    monkeypatch.setattr(process_tree, "_kill", lambda *_: None)
    monkeypatch.setattr(process_tree, "KILLED_WAIT_S", 0.1)
    ended = await end_tree(marked_tree("undying"), 0, anyio.CapacityLimiter(1))
    assert not ended.gone
    child.kill()
    child.wait()


async def test_more_than_are_held_at_once_are_ended_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.system.process_tree.AT_A_TIME", 2)
    many = [start("many", "trap '' TERM; echo; while :; do sleep 1; done") for _ in range(5)]
    ended = await end_tree(marked_tree("many"), 0.05, anyio.CapacityLimiter(1))
    assert [child.wait(60) for child in many] == [-9] * 5
    assert ended.gone
    assert ended.met >= {child.pid for child in many}


async def test_who_cannot_look_kills_what_can_be_killed_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree itself may have used up the descriptors that we need to look."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)  # noqa: ASYNC220

    def look(*_: object) -> dict[int, int]:
        if child.poll() is None:
            raise OSError(EMFILE, "Too many open files")
        return {}

    monkeypatch.setattr("ackd.system.process_tree.find_processes", look)
    await end_tree(ProcessTree("M=none", group=lambda: child.pid), 0.05, anyio.CapacityLimiter(1))
    assert child.wait(60) == -9
