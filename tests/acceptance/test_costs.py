"""What a message costs, in system calls: the 800th as much as the 8th. Seconds would say nothing on a noisy machine.

strace counts the calls of a real daemon from outside, while messages are renamed in and handled to completed. How often
a process sleeps and wakes depends on the load of the machine, so calls that only wait are counted apart.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.bench.daemon import make_team

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.acceptance.teams import Team

FEW, MANY = 200, 800
#: Calls that wait, or end a wait: their number is the scheduler's doing as much as ours.
WAITING = frozenset("futex epoll_wait epoll_pwait poll ppoll clock_nanosleep sched_yield restart_syscall".split())
FLUSHES = frozenset("fsync fdatasync syncfs sync sync_file_range msync".split())
#: Its file is read twice (when it is met, when it is told), moved twice, and each move is checked and written down.
CALLS_A_MESSAGE_TOGETHER = 30
#: Alone it shares no wake-up, no write of lines and no look at a directory with anyone.
CALLS_A_MESSAGE_ALONE = 80
#: The file and its directory, when it is claimed.
FLUSHES_A_MESSAGE = 2
#: How much dearer the many may be than the few, by the message: nothing, but for housekeeping that falls into the run.
GROWTH = 1.15


def test_the_cost_of_a_message_does_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    with counted(tmp_path, "power") as count:
        few, many = count.together(FEW), count.together(MANY)
    assert work(few) / FEW <= CALLS_A_MESSAGE_TOGETHER, table(few, FEW)
    assert work(many) / MANY <= CALLS_A_MESSAGE_TOGETHER, table(many, MANY)
    assert work(many) / MANY <= GROWTH * work(few) / FEW, f"{table(few, FEW)}\n\n{table(many, MANY)}"
    assert flushes(few) > 0, table(few, FEW)
    assert 0 < flushes(many) <= FLUSHES_A_MESSAGE * MANY, table(many, MANY)


def test_a_message_that_comes_alone_costs_a_bounded_number_of_calls(tmp_path: Path) -> None:
    with counted(tmp_path, "power") as count:
        first, later = count.one_by_one(FEW // 4), count.one_by_one(FEW)
    assert work(later) / FEW <= CALLS_A_MESSAGE_ALONE, table(later, FEW)
    assert work(later) / FEW <= GROWTH * work(first) / (FEW // 4), f"{table(first, FEW // 4)}\n\n{table(later, FEW)}"
    assert flushes(first) > 0, table(first, FEW // 4)
    assert 0 < flushes(later) <= FLUSHES_A_MESSAGE * FEW, table(later, FEW)


def test_without_durability_against_power_cuts_nothing_is_flushed(tmp_path: Path) -> None:
    with counted(tmp_path, "process") as count:
        calls = count.together(FEW)
    assert flushes(calls) == 0, table(calls, FEW)


# --- counting ---------------------------------------------------------------------------------------------------------
class Count:
    """Calls of one daemon by name, for messages that are sent in one of two ways."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._sent = 0

    def together(self, messages: int) -> dict[str, int]:
        with self._strace() as report:
            # Held while they are sent, so that the daemon's share of the processor does not decide how many it meets.
            os.kill(self._team.pid, signal.SIGSTOP)
            for _ in range(messages):
                self._send()
            os.kill(self._team.pid, signal.SIGCONT)
            self._all_completed()
        return counted_calls(report.read_text(), messages)

    def one_by_one(self, messages: int) -> dict[str, int]:
        with self._strace() as report:
            for _ in range(messages):
                self._send()
                self._all_completed()
        return counted_calls(report.read_text(), messages)

    def _send(self) -> None:
        self._team.post("worker")
        self._sent += 1

    def _all_completed(self) -> None:
        self._team.until(lambda: len(self._team.facts("message_completed")) >= self._sent, 60)

    @contextlib.contextmanager
    def _strace(self) -> Iterator[Path]:
        report = self._team.place / f"calls-{self._sent}"
        command = ["strace", "-f", "-c", "-o", str(report), "-p", str(self._team.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            if "attached" not in said:
                tracer.wait()
                pytest.skip(f"strace may not look at the daemon: {said.strip()}")
            try:
                yield report
            finally:
                tracer.send_signal(signal.SIGINT)  # it lets go of the daemon, and writes its report


@contextlib.contextmanager
def counted(place: Path, durability: str) -> Iterator[Count]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    team = make_team(place / "team", ["worker"], durability=durability)
    team.start("--quiet")
    yield Count(team)
    team.stop()


def counted_calls(report: str, messages: int) -> dict[str, int]:
    """A report that is empty, or that is not understood, is no cheap daemon: each message is renamed at least."""
    calls = parsed(report)
    assert work(calls) >= messages > 0, f"not the calls of a daemon that served {messages} messages:\n{report}"
    return calls


def parsed(report: str) -> dict[str, int]:
    """Calls by name, from the table of ``strace -c``."""
    rows = (line.split() for line in report.splitlines())
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[0][0].isdigit() and row[-1] != "total"}


def work(calls: dict[str, int]) -> int:
    return sum(number for name, number in calls.items() if name not in WAITING)


def flushes(calls: dict[str, int]) -> int:
    return sum(number for name, number in calls.items() if name in FLUSHES)


def table(calls: dict[str, int], messages: int) -> str:
    """What to look at when a bound breaks: calls per message, the most frequent first."""
    rows = sorted(calls.items(), key=lambda row: -row[1])
    lines = [f"{number / messages:8.2f} {name}" for name, number in rows if number]
    return "\n".join([f"{work(calls) / messages:8.2f} without waiting, {messages} messages", *lines])


def test_a_report_of_strace_is_read_by_name() -> None:
    report = (
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        " 60.00    0.000300           3       100         2 openat\n"
        " 40.00    0.000200           2       100           fsync\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000500           2       200         2 total\n"
    )
    assert parsed(report) == {"openat": 100, "fsync": 100}
    assert (work(parsed(report)), flushes(parsed(report))) == (200, 100)


@pytest.mark.parametrize("report", ["", "strace: cannot say\n"])
def test_a_report_that_says_nothing_is_not_taken_for_few_calls(report: str) -> None:
    with pytest.raises(AssertionError, match="not the calls"):
        counted_calls(report, FEW)
