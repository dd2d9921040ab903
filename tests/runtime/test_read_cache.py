from __future__ import annotations

from ackd.core.message import Message, Priority
from ackd.runtime.read_cache import ReadCache


def message(number: int, digest: str = "d") -> Message:
    return Message(f"{number}@x", "user", "leader", "message", Priority.NORMAL, digest)


def test_what_was_read_is_there_once() -> None:
    fresh = ReadCache()
    fresh.keep(message(1), b"one")
    assert fresh.take(message(1, "other content")) is None
    assert fresh.take(message(1)) == b"one"
    assert fresh.take(message(1)) is None


def test_no_more_is_kept_than_was_allowed_and_the_oldest_goes_first() -> None:
    fresh = ReadCache(max_bytes=10)
    for number in range(4):
        fresh.keep(message(number), b"1234")
    assert [fresh.take(message(n)) for n in range(4)] == [None, None, b"1234", b"1234"]
    fresh.keep(message(9), b"x" * 11)
    assert fresh.take(message(9)) is None


def test_read_twice_is_kept_once() -> None:
    fresh = ReadCache(max_bytes=10)
    for _ in range(9):
        fresh.keep(message(1), b"123456")
    fresh.keep(message(2), b"1234")
    assert (fresh.take(message(1)), fresh.take(message(2))) == (b"123456", b"1234")
