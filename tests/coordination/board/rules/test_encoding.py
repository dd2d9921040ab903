from __future__ import annotations

import json

import pytest

from ackd.coordination.board.rules.encoding import decode, encode
from ackd.core.errors import BadMeeting
from tests.coordination.board.rules.sample_meetings import called, voted, voting


def test_a_meeting_comes_back_as_it_was() -> None:
    for meeting in (called(), voting(), voted(voting(), conditions=["é"]), called(quick=True)):
        assert decode(encode(meeting), "x") == meeting


BROKEN = [b"", b"{", b"[]", b"null", b"{}", b"[" * 100_000]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_record_is_named(data: bytes) -> None:
    with pytest.raises(BadMeeting, match="x: no record of a meeting"):
        decode(data, "x")


@pytest.mark.parametrize(
    ("key", "value"),
    [("phase", "LUNCH"), ("assessments", {"CA": {}}), ("directors", ["CA"]), ("opened_at", "noon"), ("turns", [1])],
)
def test_a_record_that_does_not_add_up_is_named(key: str, value: object) -> None:
    with pytest.raises(BadMeeting):
        decode(json.dumps(json.loads(encode(called())) | {key: value}).encode(), "x")


@pytest.mark.parametrize(
    ("context", "why"),
    [(json.loads("[" * 900 + "]" * 900), "nested more than 31 deep"), ([0] * 10_001, "more than 10000 values")],
)
def test_a_context_that_no_request_can_hold_is_no_meetings(context: object, why: str) -> None:
    """A person or an older ackd may have written such a record, and reading it must not fail in an unnamed way."""
    record = json.loads(encode(called())) | {"context": context}
    with pytest.raises(BadMeeting, match=why):
        decode(json.dumps(record).encode(), "meeting.json")
