"""Where a worker lives: what of its words is a report, and whose fault its end is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from ackd.core.events import Outcome
from ackd.core.story_record import Result
from ackd.dialects.stage_text import last_report
from ackd.runtime.pipeline.rooms import ChildLife, how_it_ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.runtime.quarters import Quarters
    from ackd.runtime.workers import ProcessEndpoint


class Endpoint:
    aside: Callable[[bytes], bool]


def test_the_last_line_of_a_child_that_is_a_report_is_its_report() -> None:
    endpoint = Endpoint()
    life = ChildLife(
        "a", cast("ProcessEndpoint", endpoint), cast("Quarters", None), lambda line: last_report(line) is not None
    )
    assert life.printed(1) == ""
    said = [b"Stage 0 ERROR for A-1: one\n", b"hello", b" Stage 0 ERROR for A-1: two ", b"\xff", b'{"type": "x"}']
    assert [endpoint.aside(line) for line in said] == [True, False, True, False, False]
    assert life.printed(1) == "Stage 0 ERROR for A-1: two"


@pytest.mark.parametrize("outcome", Outcome)
def test_ended_by_us_or_hindered_is_nobodys_fault(outcome: Outcome) -> None:
    lost = outcome in (Outcome.STOPPED, Outcome.HINDERED)
    assert how_it_ended(outcome, "why") == (Result.LOST if lost else Result.CRASHED, "why")
