"""A checkpoint goes with its message, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters.checkpoints import Checkpoints
from ackd.core.book import Agent, Book
from ackd.core.message import Folder, Place
from ackd.core.policy import AgentPolicy
from ackd.runtime.kept_work import KeptWork
from tests.core.driving import letter

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.book import Delivery


def book() -> Book:
    found = Book()
    found.agents["worker"] = Agent("worker", AgentPolicy(), "process")
    return found


def opened(of: Book, name: str) -> Delivery:
    return of.open(letter("m1"), Place("worker", Folder.PROCESSED, name), 0, 0)


async def test_it_goes_when_its_message_has_ended(tmp_path: Path) -> None:
    work = KeptWork(Checkpoints(tmp_path / "kept"), book())
    delivery = opened(work.book, "a.mime")
    await work.store.keep("worker", "m1", {"text": "half way"})
    work.book.close(delivery)
    work.ended("worker", "m1")
    assert list(work.store.kept()) == []


async def test_the_end_of_a_duplicate_takes_nothing_from_its_twin(tmp_path: Path) -> None:
    work = KeptWork(Checkpoints(tmp_path / "kept"), book())
    opened(work.book, "a.mime")
    duplicate = opened(work.book, "b.mime")
    await work.store.keep("worker", "m1", {"text": "half way"})
    work.book.close(duplicate)
    work.ended("worker", "m1")
    assert work.store.read("worker", "m1") == {"text": "half way"}


async def test_what_a_crash_left_of_ended_messages_is_cleared_at_the_next_start(tmp_path: Path) -> None:
    work = KeptWork(Checkpoints(tmp_path / "kept"), book())
    opened(work.book, "a.mime")
    for message_id in ("m1", "m2"):
        await work.store.keep("worker", message_id, {"text": "half way"})
    await work.store.keep("nobody", "m1", {"text": "of an agent that has gone"})
    await work.store.keep("worker", "m3", {"text": "of a message that cannot be read yet"})
    await work.clear(unread={"m3"})
    assert sorted(work.store.kept()) == [("worker", "m1"), ("worker", "m3")]
