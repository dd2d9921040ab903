"""The simulation itself: that it holds the promises for nearly three weeks, that a seed is a run, and that it can fail.

Each run is a process of its own, as a person would start it: what it prints is what is judged.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import ALL, FOUND_BY
from tests.simulation.simulation import TAIL_HOURS

HERE = Path(__file__).parents[2]
#: `make faults` does 10,000 hours in a step of its own.
HOURS = 468
#: Within so many hours of trouble, over as many seeds as it takes, every mutation must have been found.
TROUBLED_HOURS = 48


def simulate(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *options]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)


def judged_hours(done: subprocess.CompletedProcess[str]) -> int:
    found = re.search(r"^(\d+) simulated hours", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout + done.stderr
    return int(found[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nearly_three_simulated_weeks_break_no_promise() -> None:
    done = simulate("--hours", str(HOURS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert judged_hours(done) == HOURS


@pytest.mark.slow
def test_a_seed_is_left_in_its_midst_when_time_is_up_and_is_not_counted() -> None:
    done = simulate("--run-hours", "100000", "--seconds", "1")
    assert (done.returncode, judged_hours(done)) == (0, 0), done.stdout + done.stderr
    assert "time is up: seed 1 was left" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_seed_is_the_same_run_to_the_last_byte() -> None:
    options = ("--seed", "27", "--run-hours", "1", "--trace")
    first, again = simulate(*options), simulate(*options)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr
    assert first.stdout.count(" crash ") > 9
    assert first.stdout == again.stdout
    assert simulate("--seed", "21", "--run-hours", "0.5", "--trace").stdout != first.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", sorted(ALL))
def test_a_daemon_that_breaks_a_promise_is_found_and_found_again_by_its_seed(mutation: str) -> None:
    first, hours = FOUND_BY[mutation]
    bound = TROUBLED_HOURS / hours * (hours + TAIL_HOURS)
    found = simulate("--mutation", mutation, "--first", f"{first}", "--run-hours", f"{hours}", "--hours", f"{bound}")
    assert found.returncode == 1, found.stdout + found.stderr
    seed = re.search(r"^seed (\d+) breaks a promise", found.stdout, re.MULTILINE)
    replay = re.search(r"^replay: python -m tests.simulation (.*) --trace$", found.stdout, re.MULTILINE)
    assert seed is not None
    assert replay is not None
    assert simulate(*replay[1].split()).stdout == found.stdout
    mended = simulate(*replay[1].split(), "--mended")
    assert mended.returncode == 0, mended.stdout + mended.stderr  # in the same trouble, nothing else is found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_side_by_side_they_run_the_same_seeds_with_the_same_ends() -> None:
    options = ("--run-hours", "0.5", "--hours", "8", "--verbose")
    alone, beside = simulate(*options), simulate(*options, "--jobs", "2")
    assert (alone.returncode, beside.returncode) == (0, 0), beside.stdout + beside.stderr
    assert sorted(beside.stdout.splitlines()) == sorted(alone.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_one_of_several_finds_is_told_and_ends_them_all() -> None:
    first, hours = FOUND_BY["silent"]
    found = simulate("--mutation", "silent", "--first", f"{first}", "--run-hours", f"{hours}", "--jobs", "2")
    assert found.returncode == 1, found.stdout + found.stderr
    assert re.search(
        r"^replay: python -m tests.simulation --seed \d+ .*--mutation silent --trace$", found.stdout, re.MULTILINE
    )


def test_a_replay_is_one_process() -> None:
    done = simulate("--seed", "1", "--jobs", "2")
    assert done.returncode == 2
    assert "just one to replay" in done.stderr
