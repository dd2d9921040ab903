"""Which work a word is about."""

from __future__ import annotations

import pytest

from ackd.dialects.worker_json import Words
from ackd.runtime.workers.hand import Hand, Work
from tests.runtime.workers.shop import message, tell


def work(key: int, task_id: str, attempt: int = 1) -> Work:
    return Work(key, message(key), tell(key).place, attempt, task_id, "/spec", "/tree", 600)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (Words(task_id="T-1"), 1),
        (Words(task_id="T-2", attempt=3, message_id="m2@ignite.local", generation=4), 2),
        (Words(), None),  # about either
        (Words(message_id="m2@ignite.local"), 2),
        (Words(task_id="T-9"), None),
        (Words(task_id="T-1", attempt=2), None),
        (Words(task_id="T-1", message_id="m2@ignite.local"), None),
        (Words(task_id="T-1", generation=3), None),
    ],
)
def test_a_word_is_about_what_it_names(words: Words, key: int | None) -> None:
    hand = Hand()
    hand.take(work(1, "T-1"))
    hand.take(work(2, "T-2", attempt=3))
    meant = hand.about(words, generation=4)
    assert (meant.key if meant is not None else None) == key


def test_a_word_without_a_name_is_about_the_only_work_there_is() -> None:
    hand = Hand()
    hand.take(work(1, "T-1"))
    meant = hand.about(Words(), generation=1)
    assert meant is not None
    assert meant.key == 1


def test_two_of_one_task_get_two_names_and_one_told_again_keeps_its() -> None:
    hand = Hand()
    assert hand.task_id_for(1, message(1)) == "T-1"
    hand.take(work(1, "T-1"))
    assert hand.task_id_for(1, message(1)) == "T-1"
    assert hand.task_id_for(2, message(2)) == "m2@ignite.local"
    assert hand.task_id_for(3, message(3, task_id=None)) == "m3@ignite.local"


async def test_a_clock_that_was_halted_goes_on_with_what_was_left() -> None:
    one = work(1, "T-1")
    one.run_clock(lambda _: None)
    first = one._clock
    one.run_clock(lambda _: None)
    assert one._clock is first
    one.halt_clock()
    assert 599 < one._left_s <= 600
    one.halt_clock()
    assert first is not None
    assert first.cancelled()
