"""The words for a lead in what a worker prints."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ackd.core.stage_words import TextRules
from ackd.runtime.pipeline.ear import Ear, Printed

REPORT = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4."
NEAR = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4"
STATUS = "Status for A-1: Stage 0 EXECUTING. Current step: reading."
OUTPUT = f"working\n{NEAR}\n{STATUS}\n\xe9\n{REPORT}\n**{REPORT}**"


def ear(*, reports: bool = True) -> Ear:
    return Ear(TextRules(), reports=reports)


def test_reports_and_statuses_are_heard_in_order_and_what_is_nearly_one_is_not_clear() -> None:
    heard = ear()
    assert [heard.hear(line.encode()) for line in (STATUS, "hello", REPORT, NEAR)] == [True, False, True, True]
    assert heard.waiting == [
        Printed(STATUS, 1, clear=True),
        Printed(REPORT, 2, clear=True),
        Printed(NEAR, 3, clear=False),
    ]


def test_a_commands_report_is_left_for_its_end_and_its_status_is_not() -> None:
    heard = ear(reports=False)
    heard.hear_some(f"{STATUS}\n{REPORT}\n".encode(), last=False)
    assert heard.waiting == [Printed(STATUS, 1, clear=True)]
    assert not heard.unclear


def test_of_lines_that_nobody_understands_only_the_last_is_asked_about_and_a_clear_word_settles_them() -> None:
    heard = ear(reports=False)
    heard.hear_some(f"{NEAR}\nStage 0 complete!\n".encode(), last=False)
    assert heard.waiting == [Printed("Stage 0 complete!", 2, clear=False)]
    heard.hear(REPORT.encode())
    assert heard.waiting == []


def test_what_was_taken_is_not_there_again() -> None:
    heard = ear()
    heard.hear(STATUS.encode())
    heard.hear(STATUS.encode())
    first, second = heard.waiting
    heard.took(first)
    assert heard.waiting == [second]
    assert (first.nth, second.nth) == (1, 2)


def test_a_last_line_without_an_end_counts_when_its_worker_has_ended() -> None:
    heard = ear()
    heard.hear_some(REPORT.encode(), last=False)
    assert heard.waiting == []
    heard.hear_some(b"", last=True)
    assert [one.text for one in heard.waiting] == [REPORT]


@given(st.lists(st.integers(0, len(OUTPUT.encode())), max_size=8))
def test_however_an_output_is_cut_into_pieces_its_words_and_their_numbers_are_the_same(cuts: list[int]) -> None:
    data, whole, pieces = OUTPUT.encode(), ear(), ear()
    whole.hear_some(data, last=True)
    edges = [0, *sorted(cuts), len(data)]
    for begin, end in pairwise(edges):
        pieces.hear_some(data[begin:end], last=False)
    pieces.hear_some(b"", last=True)
    assert pieces.waiting == whole.waiting
    assert [one.nth for one in whole.waiting] == [2, 3, 4]
