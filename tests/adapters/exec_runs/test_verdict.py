"""Exit codes, signals and output, as outcome and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.adapters.exec_runs.verdict import killed_detail
from ackd.core.events import Outcome, RunEnded

if TYPE_CHECKING:
    from tests.adapters.exec_runs.bench import (
        Bench,
    )


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(0, Outcome.DONE), (75, Outcome.DEFERRED), (65, Outcome.REFUSED), (1, Outcome.FAILED), (3, Outcome.FAILED)],
)
async def test_exit_codes(bench: Bench, code: int, outcome: Outcome) -> None:
    assert await bench.run(f"exit {code}") == RunEnded(1, outcome, f"exit {code}", 2)
    bench.assert_no_child_left()


async def test_the_last_lines_of_output_are_the_reason_and_harmless(bench: Bench) -> None:
    ended = await bench.run(
        r"printf 'first\nsecond\n\033[31mred\033[0m\a \342\200\256evil\t\n\n'; echo last >&2; exit 3"
    )
    assert ended == RunEnded(1, Outcome.FAILED, "exit 3: second | red evil | last", 2)


async def test_a_flood_of_output_is_cut(bench: Bench) -> None:
    ended = await bench.run(
        "i=0; while [ $i -lt 5000 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done; printf '%01000d' 7; exit 1"
    )
    assert isinstance(ended, RunEnded)
    assert len(ended.detail) <= 500
    assert ended.detail.endswith("0007")


async def test_a_command_killed_by_a_signal_says_which(bench: Bench) -> None:
    assert await bench.run("kill -SEGV $$") == RunEnded(1, Outcome.FAILED, "exit 139 (SIGSEGV)", 2)


def test_a_real_time_signal_has_a_number_for_a_name() -> None:
    assert killed_detail(-40) == "killed by signal 40"
    assert killed_detail(-9) == "killed by SIGKILL"
