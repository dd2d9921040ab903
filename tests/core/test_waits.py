"""Agents that wait for others: every cell of the table, and the circles that waits may close."""

from __future__ import annotations

from typing import Final

import pytest

from ackd.core.errors import ImpossibleEvent
from ackd.core.waits import TABLE, Wait, WaitAct, WaitEvent, Waiting, circle, step

W, T, A = Waiting, WaitEvent, WaitAct
CELLS: Final = {
    (W.NOT, T.BEGAN): (W.WAITS, A.NOTHING),
    (W.NOT, T.ENDED): (W.NOT, A.NOTHING),
    (W.NOT, T.BROKEN): (W.NOT, A.NOTHING),
    (W.WAITS, T.BEGAN): (W.WAITS, A.NOTHING),
    (W.WAITS, T.ENDED): (W.NOT, A.NOTHING),
    (W.WAITS, T.UNMOVED): (W.STALLED, A.NOTICE),
    (W.WAITS, T.CLOSED): (W.CIRCLE, A.NOTICE),
    (W.WAITS, T.BROKEN): (W.WAITS, A.NOTHING),
    (W.STALLED, T.BEGAN): (W.STALLED, A.NOTHING),
    (W.STALLED, T.ENDED): (W.NOT, A.NOTHING),
    (W.STALLED, T.UNMOVED): (W.STALLED, A.NOTHING),
    (W.STALLED, T.CLOSED): (W.CIRCLE, A.NOTHING),
    (W.STALLED, T.BROKEN): (W.STALLED, A.NOTHING),
    (W.CIRCLE, T.BEGAN): (W.CIRCLE, A.NOTHING),
    (W.CIRCLE, T.ENDED): (W.NOT, A.NOTHING),
    (W.CIRCLE, T.UNMOVED): (W.CIRCLE, A.NOTHING),
    (W.CIRCLE, T.CLOSED): (W.CIRCLE, A.NOTHING),
    (W.CIRCLE, T.BROKEN): (W.STALLED, A.NOTHING),
}


@pytest.mark.parametrize("waiting", Waiting)
@pytest.mark.parametrize("turn", WaitEvent)
def test_every_cell(waiting: Waiting, turn: WaitEvent) -> None:
    if (waiting, turn) in CELLS:
        assert step(waiting, turn) == CELLS[waiting, turn]
    else:
        with pytest.raises(ImpossibleEvent):
            step(waiting, turn)


def test_someone_is_told_at_most_once_of_one_wait() -> None:
    assert [(row, turn) for row, cells in TABLE.items() for turn, cell in cells.items() if cell[1] is A.NOTICE] == [
        (W.WAITS, T.UNMOVED),
        (W.WAITS, T.CLOSED),
    ]


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ({}, None),
        ({"a": {"b"}}, None),
        ({"a": {"b"}, "b": {"a"}}, ("a", "b")),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, ("a", "b", "c")),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, None),  # a waits for a circle, and is no member of it
        ({"a": {"a"}}, ("a",)),
        ({"a": {"b", "c"}, "b": {"d"}, "d": {"a"}, "c": {"a"}}, ("a", "c")),  # the shortest
    ],
)
def test_the_circle_through_one(waits: dict[str, set[str]], found: tuple[str, ...] | None) -> None:
    assert circle(waits, "a") == found


def test_a_wait_is_shown_by_whom_or_what_it_is_for() -> None:
    assert (str(Wait("builder", "message m1")), str(Wait(None, "board meeting b1"))) == ("builder", "board meeting b1")
