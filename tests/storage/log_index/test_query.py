"""Which lines a query takes, and that each of them can be looked up and is not passed over."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.storage.log_index import LineQuery
from ackd.storage.log_index.query import keys_of, marks_of
from ackd.storage.session_log import Line, parse_line
from tests.storage.log_index.scanning import encoded

ID = "1763.42.ab12cd@ignite.local"


def line(type_: str = "message_queued", **data: Any) -> Line:
    found = parse_line(encoded(1, type_, 30, **data)[:-1])
    assert found is not None
    return found


TAKEN: list[tuple[LineQuery, Line]] = [
    (LineQuery(), line()),
    (LineQuery(about=ID), line(message_id=ID)),
    (LineQuery(about=ID), line(message_id="other", in_reply_to=ID)),
    (LineQuery(about=ID), line(type_="escalation", escalation_id=ID)),
    (LineQuery(message=ID), line(message_id=ID)),
    (LineQuery(message="1763.4"), line(message_id=ID)),
    (LineQuery(message="ab12"), line(message_id=ID)),
    (LineQuery(message='a"ü'), line(message_id='a"üb')),
    (LineQuery(in_reply_to=ID), line(in_reply_to=ID)),
    (LineQuery(thread="t-1"), line(thread_id="t-1")),
    (LineQuery(escalation=ID), line(escalation_id=ID)),
    (LineQuery(agent="worker-1"), line(agent="worker_1")),
    (LineQuery(agent="leader"), line(**{"agent": "worker", "from": "leader"})),
    (LineQuery(agent="b"), line(type_="loop_detected", a="a", b="b")),
    (LineQuery(alone="worker"), line(type_="agent_state", agent="worker")),
    (LineQuery(types=("dead", "queued")), line()),
    (LineQuery(types=("message",)), line()),
    (LineQuery(agent="worker", types=("message_queued",), about=ID), line(message_id=ID, agent="worker")),
    (LineQuery(about="x" * 500), line(message_id="x" * 500)),
]
NOT_TAKEN: list[tuple[LineQuery, Line]] = [
    (LineQuery(about=ID), line(message_id=f"{ID}x")),
    (LineQuery(about=ID), line(thread_id=ID)),
    (LineQuery(message="763"), line(message_id=ID)),
    (LineQuery(message="7"), line(message_id=7)),
    (LineQuery(in_reply_to=ID), line(message_id=ID)),
    (LineQuery(agent="worker"), line(agent="worker-1")),
    (LineQuery(alone="worker"), line(agent="worker", message_id=ID)),
    (LineQuery(alone="leader"), line(**{"agent": "worker", "from": "leader"})),
    (LineQuery(types=("dead",)), line()),
    (LineQuery(agent="worker", types=("dead",)), line(agent="worker")),
    (LineQuery(about="x" * 500), line(message_id="x" * 499)),
]


@pytest.mark.parametrize(("query", "one"), TAKEN)
def test_a_line_that_is_taken_has_a_key_of_each_condition_and_what_the_hint_looks_for(
    query: LineQuery, one: Line
) -> None:
    assert query.takes(one)
    keys = {key for mark in marks_of(one) for key in keys_of(*mark)}
    for lookups in query.lookups():
        assert any(key == two.key or (two.beginning and key.startswith(two.key)) for key in keys for two in lookups)
    hint = query.hint()
    assert hint is None or hint.search(one.raw)


@pytest.mark.parametrize(("query", "one"), NOT_TAKEN)
def test_what_is_only_alike_is_not_taken(query: LineQuery, one: Line) -> None:
    assert not query.takes(one)


def test_both_limits_of_a_time_are_within_it() -> None:
    one = line()
    assert LineQuery(since=one.at, until=one.at).takes(one)
    assert not LineQuery(since=one.at + 0.001).takes(one)
    assert not LineQuery(until=one.at - 0.001).takes(one)
