"""Names of agents, which come from hostile text."""

from __future__ import annotations

import pytest

from ackd.core.errors import BadName
from ackd.core.message import agent_name, identity, is_agent_name


@pytest.mark.parametrize("text", ["a", "ignitian_1", "ignitian-1", "4.2", "X" * 64, "a..b"])
def test_names(text: str) -> None:
    assert agent_name(text) == text
    assert is_agent_name(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", ".hidden", "-x", "_x", "a/b", "../a", "a b", "a\n", "a\0", "é", "X" * 65, "dead_letter"]
)
def test_no_names(text: str) -> None:
    with pytest.raises(BadName):
        agent_name(text)
    assert not is_agent_name(text)


def test_who_reserves_more_refuses_more() -> None:
    assert is_agent_name("tasks")
    assert not is_agent_name("tasks", frozenset({"tasks"}))
    with pytest.raises(BadName):
        agent_name("tasks", frozenset({"tasks"}))


def test_a_dash_and_an_underscore_are_one_agent() -> None:
    assert identity("ignitian-1") == identity("ignitian_1") != identity("ignitian1")
