"""Lines without a meaning are logged a few at a time. (The meaning of the others: test_endpoint.py.)"""

from __future__ import annotations

from ackd.endpoints.process.inbound import RateLimit, shown


def test_the_first_few_are_let_through_and_the_rest_counted() -> None:
    few = RateLimit()
    assert [few.let_through(100.0) for _ in range(7)] == [0, 0, 0, 0, 0, None, None]
    assert few.let_through(109.9) is None
    assert few.let_through(110.0) == 3
    assert few.let_through(110.0) == 0


def test_what_is_shown_of_a_line_is_short_and_harmless() -> None:
    assert shown(b"\x1b[2Jx\xff\x00y") == " [2Jx� y"
    assert len(shown(b"x" * 10_000)) == 300
