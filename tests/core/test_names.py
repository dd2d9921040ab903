"""Names of agents, and whom a dead letter was for."""

from __future__ import annotations

import pytest

from ackd.core.names import called, dead_letter_recipient


@pytest.mark.parametrize(
    ("recipient", "to", "agent"),
    [
        ("worker", "leader, worker", "worker"),
        (None, "worker", "worker"),
        ("", "worker", "worker"),
        (None, "leader, worker", None),  # nobody knows whose copy it is
        (None, "", None),
        (None, None, None),
    ],
)
def test_a_dead_letter_was_for_its_recipient_else_for_the_only_name_in_to(
    recipient: str | None, to: str | None, agent: str | None
) -> None:
    assert dead_letter_recipient(recipient, to) == agent


@pytest.mark.parametrize(("spelling", "meant"), [("a_1", "a-1"), ("a-1", "a-1"), ("A-1", None), ("b", None)])
def test_a_spelling_means_the_name_that_is_the_same_agent(spelling: str, meant: str | None) -> None:
    assert called(spelling, ["leader", "a-1"]) == meant
