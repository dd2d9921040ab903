"""The record of a story: reading returns the written value, or fails with a named reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.pipeline.rules.record import (
    MAX_DETAIL_CHARS,
    BadStoryRecord,
    Doubt,
    Result,
    Story,
    Try,
    clipped,
    decode,
    encode,
)
from ackd.coordination.pipeline.rules.story import StoryState

TRIED = Try(
    1, 0, 5.0, executed=True, ended_at=6.0, result=Result.COMPLETE, score="3.5", report_id="1.2@x", acked_at=6.1
)
RUNNING = Try(2, 1, 7.0, executed=True, asks=1, asked_at=8.0, doubt=Doubt.QUIET)
STORY = Story("A-1", StoryState.STAGE_1, 4.0, 1, 1, ("B-2",), (TRIED, RUNNING), since=7.0, started_by="leader")


def test_a_story_comes_back_as_it_was() -> None:
    assert decode(encode(STORY), "A-1") == STORY
    assert STORY.current == RUNNING
    assert STORY.worker == "story-A-1-s1"


def test_a_key_of_a_later_version_is_passed_over() -> None:
    data = json.loads(encode(STORY))
    data["colour"] = "red"
    data["tries"][0]["weight"] = 3
    assert decode(json.dumps(data).encode(), "A-1") == STORY


def test_a_record_from_before_it_was_known_who_started_it_is_nobodys() -> None:
    data = json.loads(encode(STORY))
    assert data.pop("started_by") == "leader"
    assert decode(json.dumps(data).encode(), "A-1") == STORY._replace(started_by=None)
    assert decode(encode(STORY._replace(started_by=None)), "A-1").started_by is None


@pytest.mark.parametrize(
    "change",
    [
        {"story_id": "B-1"},
        {"state": "asleep"},
        {"stage": 2},
        {"stage": 7},
        {"tries": []},
        {"tries": "x"},
        {"created_at": "noon"},
        {"created_at": float("nan")},
        {"reason": 3},
        {"earlier": 4},
        {"earlier": -1},
        {"earlier": "x"},
        {"started_by": 3},
        {"started_by": ["leader"]},
    ],
)
def test_a_record_that_makes_no_sense_is_named(change: dict[str, Any]) -> None:
    data = json.loads(encode(STORY)) | change
    with pytest.raises(BadStoryRecord, match="A-1"):
        decode(json.dumps(data).encode(), "A-1")


@given(st.binary(max_size=200))
def test_whatever_lies_there_is_read_or_named(data: bytes) -> None:
    with pytest.raises(BadStoryRecord):
        decode(data, "A-1")


def test_tries_are_found_by_their_generation() -> None:
    assert STORY.of(1) is TRIED
    assert STORY.of(0) is STORY.of(3) is None
    assert STORY.with_try(RUNNING._replace(asks=2)).tries[1].asks == 2


def test_generations_go_on_after_an_earlier_life() -> None:
    tries = tuple(one._replace(generation=one.generation + 6) for one in STORY.tries)
    again = STORY._replace(tries=tries, earlier=6)
    assert decode(encode(again), "A-1") == again
    assert (again.generation, again.of(7), again.of(1)) == (8, tries[0], None)
    assert again.with_try(tries[1]._replace(asks=2)).tries[1].asks == 2


def test_long_details_are_cut() -> None:
    assert len(clipped("x" * 9_999)) == MAX_DETAIL_CHARS
    assert clipped("short") == "short"
