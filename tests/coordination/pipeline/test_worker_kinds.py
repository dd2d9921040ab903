"""The kinds of stage workers: which printed lines are for the lead, and which ends are not the worker's fault."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.pipeline.rules.record import Result
from ackd.coordination.pipeline.rules.stage_names import TextRules
from ackd.coordination.pipeline.worker_kinds import (
    PrintedWord,
    PrintedWords,
    StdinProcess,
    result_of_end,
)
from ackd.core.events import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.ports import Keeper
    from ackd.endpoints.process.endpoint import ProcessEndpoint


class FakeEndpoint:
    aside: Callable[[bytes], bool]


def test_what_a_child_prints_for_its_lead_is_there_at_once_and_everything_else_is_not() -> None:
    endpoint, spoke = FakeEndpoint(), []
    child = StdinProcess(
        agent="a",
        endpoint=cast("ProcessEndpoint", endpoint),
        supervisor=cast("Keeper", None),
        rules=TextRules(),
        spoke=lambda: spoke.append(len(child.words())),
    )
    said = [b"Status for A-1: Stage 0 WAITING. Current step: x.\n", b"hello", b" Stage 0 ERROR for A-1: two ", b"\xff"]
    assert [endpoint.aside(line) for line in [*said, b'{"type": "x"}']] == [True, False, True, False, False]
    assert spoke == [1, 2]
    status, report = child.words()
    assert (report.text, report.clear) == ("Stage 0 ERROR for A-1: two", True)
    child.mark_taken(status)
    assert child.words() == [report]
    assert child.printed(1) == ""


@pytest.mark.parametrize("outcome", Outcome)
def test_ended_by_us_or_hindered_is_nobodys_fault(outcome: Outcome) -> None:
    lost = outcome in (Outcome.STOPPED, Outcome.HINDERED)
    assert result_of_end(outcome) is (Result.LOST if lost else Result.CRASHED)


# --- printed words -----------------------------------------------------------------------------------------------------
REPORT = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4."
NEAR = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4"
STATUS = "Status for A-1: Stage 0 EXECUTING. Current step: reading."
OUTPUT = f"working\n{NEAR}\n{STATUS}\n\xe9\n{REPORT}\n**{REPORT}**"


def printed_words(*, reports: bool = True) -> PrintedWords:
    return PrintedWords(TextRules(), reports=reports)


def test_reports_and_statuses_are_heard_in_order_and_what_is_nearly_one_is_not_clear() -> None:
    printed = printed_words()
    assert [printed.read_line(line.encode()) for line in (STATUS, "hello", REPORT, NEAR)] == [True, False, True, True]
    assert printed.waiting == [
        PrintedWord(STATUS, 1, clear=True),
        PrintedWord(REPORT, 2, clear=True),
        PrintedWord(NEAR, 3, clear=False),
    ]


def test_a_commands_report_is_left_for_its_end_and_its_status_is_not() -> None:
    printed = printed_words(reports=False)
    printed.read(f"{STATUS}\n{REPORT}\n".encode(), last=False)
    assert printed.waiting == [PrintedWord(STATUS, 1, clear=True)]


def test_of_lines_that_nobody_understands_only_the_last_is_asked_about_and_a_clear_word_settles_them() -> None:
    printed = printed_words(reports=False)
    printed.read(f"{NEAR}\nStage 0 complete!\n".encode(), last=False)
    assert printed.waiting == [PrintedWord("Stage 0 complete!", 2, clear=False)]
    printed.read_line(REPORT.encode())
    assert printed.waiting == []


def test_what_was_taken_is_not_there_again() -> None:
    printed = printed_words()
    printed.read_line(STATUS.encode())
    printed.read_line(STATUS.encode())
    first, second = printed.waiting
    printed.mark_taken(first)
    assert printed.waiting == [second]
    assert (first.nth, second.nth) == (1, 2)


def test_a_last_line_without_an_end_counts_when_its_worker_has_ended() -> None:
    printed = printed_words()
    printed.read(REPORT.encode(), last=False)
    assert printed.waiting == []
    printed.read(b"", last=True)
    assert [one.text for one in printed.waiting] == [REPORT]


@given(st.lists(st.integers(0, len(OUTPUT.encode())), max_size=8))
def test_however_an_output_is_cut_into_pieces_its_words_and_their_numbers_are_the_same(cuts: list[int]) -> None:
    data, whole, pieces = OUTPUT.encode(), printed_words(), printed_words()
    whole.read(data, last=True)
    edges = [0, *sorted(cuts), len(data)]
    for begin, end in pairwise(edges):
        pieces.read(data[begin:end], last=False)
    pieces.read(b"", last=True)
    assert pieces.waiting == whole.waiting
    assert [one.nth for one in whole.waiting] == [2, 3, 4]
