from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.process_tree import ProcessTable
from ackd.runtime.terminals.exertion import Exertion
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def pane(script: str) -> Iterator[int]:
    """A session of its own, as tmux gives every pane."""
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def test_what_computes_without_a_word_on_the_screen_is_at_work() -> None:
    exertion = Exertion(ProcessTable(max_age_s=0.2))
    with pane("while :; do :; done") as pid:
        assert exertion.take(pid) is None  # nothing to compare with
        await until(lambda: (sign := exertion.take(pid)) is not None and sign.endswith("s of CPU time"))


async def test_what_waits_is_not() -> None:
    table = ProcessTable(max_age_s=0)
    exertion = Exertion(table)
    with pane("exec sleep 60") as pid:
        await until(lambda: table.cpu_s(pid) >= 0)
        signs = [exertion.take(pid) for _ in range(5)]
    assert signs == [None] * 5


@dataclass
class Told:
    """A table that says what it is told to."""

    spent_s: float = 0.0
    looked_at: float = 0.0

    def cpu_s(self, session: int) -> float:
        return self.spent_s


@pytest.mark.parametrize(
    ("spent_s", "within_s", "is_sign"),
    [(0.04, 0.1, False), (0.05, 0.1, True), (0.3, 30, False), (1.5, 30, True), (0.0, 0.0, False)],
)
def test_a_few_ticks_of_what_blinks_are_no_sign(spent_s: float, within_s: float, is_sign: bool) -> None:
    table = Told()
    exertion = Exertion(table)  # type: ignore[arg-type]
    exertion.take(7)
    table.spent_s, table.looked_at = spent_s, within_s
    assert (exertion.take(7) is not None) is is_sign
    assert exertion.take(8) is None  # another pane: what it used before is not known


@pytest.mark.parametrize(("spent_s", "is_sign"), [(2.6, False), (7.5, True)])
def test_what_a_spinner_costs_is_no_sign_and_what_a_build_costs_is(spent_s: float, is_sign: bool) -> None:
    """As measured with real programs that hang: up to 0.09 of a core."""
    table = Told()
    exertion = Exertion(table)  # type: ignore[arg-type]
    exertion.take(7, busy=True)
    table.spent_s, table.looked_at = spent_s, 30.0
    assert (exertion.take(7, busy=True) is not None) == is_sign
