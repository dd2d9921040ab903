"""Where a worker lives: what of its words is a report, and whose fault its end is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from ackd.core.events import Outcome
from ackd.core.stage_words import TextRules
from ackd.core.story_record import Result
from ackd.runtime.pipeline.rooms import ChildLife, how_it_ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.runtime.quarters import Quarters
    from ackd.runtime.workers import ProcessEndpoint


class Endpoint:
    aside: Callable[[bytes], bool]


def test_what_a_child_prints_for_its_lead_is_there_at_once_and_everything_else_is_not() -> None:
    endpoint, spoke = Endpoint(), []
    life = ChildLife(
        "a",
        cast("ProcessEndpoint", endpoint),
        cast("Quarters", None),
        TextRules(),
        lambda: spoke.append(len(life.words())),
    )
    said = [b"Status for A-1: Stage 0 WAITING. Current step: x.\n", b"hello", b" Stage 0 ERROR for A-1: two ", b"\xff"]
    assert [endpoint.aside(line) for line in [*said, b'{"type": "x"}']] == [True, False, True, False, False]
    assert spoke == [1, 2]
    status, report = life.words()
    assert (report.text, report.clear) == ("Stage 0 ERROR for A-1: two", True)
    life.took(status)
    assert life.words() == [report]
    assert life.printed(1) == ""


@pytest.mark.parametrize("outcome", Outcome)
def test_ended_by_us_or_hindered_is_nobodys_fault(outcome: Outcome) -> None:
    lost = outcome in (Outcome.STOPPED, Outcome.HINDERED)
    assert how_it_ended(outcome, "why") == (Result.LOST if lost else Result.CRASHED, "why")
