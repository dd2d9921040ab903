"""Finding what belongs together. (More of it with real runs and children: tests/adapters/exec_runs, adapters/child.)"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ackd.processes import belongings as belongings_module
from ackd.processes.belongings import belongings, close_all, is_dead, send


def sleeper(**env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env=env, start_new_session=True)


def end(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def test_found_by_mark_by_session_or_by_another_sign_and_nobody_else() -> None:
    marked, led, other, stranger = sleeper(M="x"), sleeper(), sleeper(), sleeper(M="xy")
    try:
        found = belongings("M=x", led.pid, lambda: {other.pid})
        assert found.keys() == {marked.pid, led.pid, other.pid}
        close_all(found)
        assert stranger.poll() is None
    finally:
        end(marked, led, other, stranger)


def test_found_while_it_becomes_another_program_again_and_again(tmp_path: Path) -> None:
    """In the midst of execve a process has no environment; one that was passed over then was never looked at again."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o700)
    process = subprocess.Popen([again], env={"M": str(tmp_path)}, start_new_session=True)
    try:
        for _ in range(300):
            found = belongings(f"M={tmp_path}")
            close_all(found)
            assert found.keys() == {process.pid}
    finally:
        end(process)


def test_an_empty_environment_is_looked_at_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    process, waited = sleeper(), list[float]()
    try:
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            pass
        with monkeypatch.context() as counting:
            counting.setattr(time, "sleep", waited.append)
            assert belongings_module._environment(process.pid) == b""
        assert len(waited) <= 2
    finally:
        end(process)


def test_a_tree_of_thousands_is_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(belongings_module, "AT_A_TIME", 2)
    many = [sleeper(M="many") for _ in range(5)]
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    try:
        found = belongings("M=many")
        assert len(found) == 2
        assert len(os.listdir("/proc/self/fd")) == before + 2  # noqa: PTH208
        close_all(found)
    finally:
        end(*many)


def test_the_dead_do_not_belong() -> None:
    process = sleeper(M="x")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert belongings("M=x", process.pid) == {}
    process.wait()


def test_who_no_longer_belongs_at_the_second_look_is_let_go() -> None:
    """FAILURES: a pid recycled between check and kill."""
    process = sleeper()
    answers = iter([{process.pid}, set[int]()])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert belongings("M=none", None, lambda: next(answers)) == {}
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    end(process)


def test_a_machine_that_does_not_let_us_look_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    process = sleeper(M="x")

    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many"):
        belongings("M=x", None)
    end(process)


def test_a_signal_goes_to_who_is_held() -> None:
    process = sleeper()
    fd = os.pidfd_open(process.pid)
    assert not is_dead(fd)
    send(fd, signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    assert is_dead(fd)
    send(fd, signal.SIGTERM)  # gone: nobody is hit
    os.close(fd)
