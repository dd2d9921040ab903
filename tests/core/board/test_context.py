from __future__ import annotations

import json

import pytest

from ackd.core.board.context import MAX_DEPTH, MAX_VALUES, TOO_DEEP, TOO_MANY, excess_of


def nested(depth: int) -> object:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    "context", [None, "text", 7, {"a": [1, {"b": None}]}, nested(MAX_DEPTH), [0] * (MAX_VALUES - 1)]
)
def test_what_every_request_can_hold_is_not_too_much(context: object) -> None:
    assert excess_of(context) is None


@pytest.mark.parametrize("context", [nested(MAX_DEPTH + 1), nested(900), {"a": nested(MAX_DEPTH)}])
def test_what_is_nested_too_deep_is_said_to_be(context: object) -> None:
    assert excess_of(context) == TOO_DEEP


@pytest.mark.parametrize("context", [[0] * MAX_VALUES, {str(number): 0 for number in range(MAX_VALUES // 2)}])
def test_names_and_values_are_counted(context: object) -> None:
    assert excess_of(context) == TOO_MANY
