"""The parts of a message: every cell of the table, and what the notice says."""

from __future__ import annotations

from typing import Final

import pytest

from ackd.core.errors import ImpossibleEvent
from ackd.core.parts import (
    LISTED,
    TABLE,
    PartAct,
    PartEnd,
    PartEvent,
    Sharing,
    draft,
    notice_of,
    step,
)
from ackd.core.words import MessageEnd

S, E, A = Sharing, PartEvent, PartAct
CELLS: Final = {
    (S.NONE, E.CAME): (S.OPEN, A.NOTHING),
    (S.NONE, E.LAST_ENDED): (S.ENDED, A.AWAIT),
    (S.OPEN, E.CAME): (S.OPEN, A.NOTHING),
    (S.OPEN, E.ENDED): (S.OPEN, A.NOTHING),
    (S.OPEN, E.LAST_ENDED): (S.ENDED, A.AWAIT),
    (S.OPEN, E.AT_WORK): (S.OPEN, A.NOTHING),
    (S.OPEN, E.FREE): (S.OPEN, A.NOTHING),
    (S.ENDED, E.CAME): (S.OPEN, A.NOTHING),
    (S.ENDED, E.LAST_ENDED): (S.ENDED, A.AWAIT),
    (S.ENDED, E.AT_WORK): (S.ENDED, A.AWAIT),
    (S.ENDED, E.FREE): (S.NONE, A.TELL),
}


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("happened", PartEvent)
def test_every_cell(sharing: Sharing, happened: PartEvent) -> None:
    if (sharing, happened) in CELLS:
        assert step(sharing, happened) == CELLS[sharing, happened]
    else:
        with pytest.raises(ImpossibleEvent):
            step(sharing, happened)


def test_the_holder_is_told_only_when_no_part_is_open() -> None:
    told = [(row, event) for row, cells in TABLE.items() for event, (_, act) in cells.items() if act is A.TELL]
    assert told == [(S.ENDED, E.FREE)]


def end(message_id: str, how: MessageEnd = MessageEnd.COMPLETED, at: float = 1.0, reason: str = "") -> PartEnd:
    return PartEnd("parent", "leader", message_id, "worker", "message", how, at, reason)


def test_the_notice_of_the_same_ends_has_the_same_id_in_whatever_order_they_are_met() -> None:
    ends = [end("m1"), end("m2"), end("m3", at=0.5)]
    one, other = (notice_of("parent", "leader", found, None) for found in (ends, ends[::-1]))
    assert one == other
    assert [part.message_id for part in one.parts] == ["m3", "m1", "m2"]


def test_a_part_that_ended_once_more_makes_another_notice() -> None:
    """It was requeued after its sender was told."""
    first = notice_of("parent", "leader", [end("m1", MessageEnd.DEAD)], None)
    again = notice_of("parent", "leader", [end("m1", MessageEnd.DEAD, at=2.0)], None)
    assert first.notice_id != again.notice_id


def test_the_notice_says_what_came_of_each() -> None:
    ends = [end("m1"), end("m2", MessageEnd.DEAD, reason="refused"), end("m3", MessageEnd.WITHDRAWN)]
    body = draft(notice_of("parent", "leader", ends, "thread")).body
    assert body["parts"] == [
        {"message_id": "m1", "to": "worker", "type": "message", "state": "completed"},
        {"message_id": "m2", "to": "worker", "type": "message", "state": "dead", "reason": "refused"},
        {"message_id": "m3", "to": "worker", "type": "message", "state": "withdrawn"},
    ]
    assert "1 completed, 1 dead, 1 withdrawn" in str(body["summary"])


def test_the_notice_belongs_to_its_parent_and_informs_only() -> None:
    made = draft(notice_of("parent", "leader", [end("m1")], None))
    assert (made.recipient, made.type, made.in_reply_to, made.thread_id) == (
        "leader",
        "notification",
        "parent",
        "parent",
    )


def test_a_notice_of_very_many_parts_lists_some_and_counts_the_rest() -> None:
    body = draft(notice_of("parent", "leader", [end(f"m{n}") for n in range(LISTED + 7)], None)).body
    assert isinstance(body["parts"], list)
    assert len(body["parts"]) == LISTED
    assert body["not_listed"] == 7
