"""Meaning of the headers: every fault is found, and only faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackd.core.errors import BadMessage
from ackd.core.message import KNOWN_TYPES, Priority
from ackd.formats import ignite

PLAIN = (Path(__file__).parents[1] / "corpus" / "good" / "plain.mime").read_bytes()


def codes(data: bytes, extra_types: frozenset[str] = frozenset()) -> list[str]:
    return [fault.code for fault in ignite.faults(ignite.split(data), extra_types)]


def test_all_faults_of_a_message_are_found_at_once() -> None:
    data = PLAIN.replace(b"high", b"urgent").replace(b"task_assignment", b"poem").replace(b"To: ignitian_1", b"To: a/b")
    assert codes(data) == ["unknown_type", "unknown_priority", "bad_name"]


@pytest.mark.parametrize("kind", sorted(KNOWN_TYPES))
def test_every_known_type_is_taken(kind: str) -> None:
    assert codes(PLAIN.replace(b"task_assignment", kind.encode())) == []


@pytest.mark.parametrize("priority", [priority.value for priority in Priority])
def test_every_priority_is_taken(priority: str) -> None:
    assert ignite.decode(PLAIN.replace(b"high", priority.encode()), "leader").priority is Priority(priority)


def test_a_type_of_the_config_is_taken_where_the_config_is_known() -> None:
    data = PLAIN.replace(b"task_assignment", b"poem")
    assert codes(data) == ["unknown_type"]
    assert codes(data, frozenset({"poem"})) == []
    assert ignite.decode(data, "leader", extra_types=frozenset({"poem"})).type == "poem"


def test_the_quick_look_and_the_close_look_agree_on_a_bad_reply() -> None:
    data = PLAIN.replace(b"Date:", b"In-Reply-To: <a b>\nDate:")
    with pytest.raises(BadMessage, match="not a message id"):
        ignite.decode(data, "leader")


def test_an_empty_reply_or_Cc_left_behind_by_a_template_counts_as_absent() -> None:
    data = PLAIN.replace(b"Date:", b"In-Reply-To:\nCc:\nDate:")
    assert ignite.decode(data, "leader").in_reply_to is None


def test_a_hostile_value_is_quoted_short_in_the_reason() -> None:
    faults = list(ignite.faults(ignite.split(PLAIN.replace(b"To: ignitian_1", b"To: " + b"/" * 5000))))
    assert len(faults) == 1
    assert len(faults[0].detail) < 300


@pytest.mark.parametrize("ident", ["a@b", "1770263544.12345.abcdef@ignite.local", "owner/repo/issues/1@github.com"])
def test_ids_are_bare_inside_and_may_come_with_or_without_brackets(ident: str) -> None:
    for written in (ident, f"<{ident}>"):
        data = PLAIN.replace(b"<1790000000.4242.0a1b2c@ignite.local>", written.encode())
        assert ignite.decode(data, "leader").message_id == ident
