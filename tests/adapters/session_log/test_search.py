"""All lines of one message, across sessions and whatever its id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.session_log import choose_id, find_message_lines, matching_ids, reading
from ackd.core.errors import AmbiguousMessage, UnknownMessage
from tests.adapters.session_log.bench import fact, put

if TYPE_CHECKING:
    from pathlib import Path


def test_a_message_is_found_across_sessions_by_id_and_by_beginning(logs: Path) -> None:
    wanted = "1770263544.12345.abcdef@ignite.local"
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id=wanted),
        fact(2, message_id="1770263544.999.ff@ignite.local"),
    )
    put(logs, "session-20261116-020000.ndjson", fact(3, message_id=wanted), b'{"torn ' + wanted.encode())
    for text in (wanted, "1770263544.12345.abcdef", "1770263544.1"):
        assert [line.seq for line in find_message_lines(logs, text)] == [1, 3]


def test_answers_and_the_escalation_itself_belong_to_a_message_but_mere_mention_does_not(logs: Path) -> None:
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id="m"),
        fact(2, message_id="answer", in_reply_to="m"),
        fact(3, message_id="other", escalation_id="m"),
        fact(4, message_id="other", reason="m"),
        fact(5, agent="m"),
    )
    assert [line.seq for line in find_message_lines(logs, "m")] == [1, 2, 3]


def test_a_beginning_that_fits_several_names_them(logs: Path) -> None:
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id="17.1.aa@x"),
        fact(2, message_id="17.1.ab@x"),
        fact(3, agent="17.1.ac"),
    )
    with pytest.raises(AmbiguousMessage) as caught:
        find_message_lines(logs, "17.1")
    assert caught.value.candidates == ("17.1.aa@x", "17.1.ab@x")
    with pytest.raises(UnknownMessage):
        find_message_lines(logs, "18")
    with pytest.raises(UnknownMessage):
        find_message_lines(logs, "")


def test_an_id_with_json_in_it_is_found(logs: Path) -> None:
    odd = 'a"b\\c\td.*é@x'
    put(logs, "session-20261116-010000.ndjson", fact(1, message_id=odd), fact(2, message_id="axb"))
    assert [line.seq for line in find_message_lines(logs, odd)] == [1]
    assert matching_ids(logs, 'a"b') == {odd}


def test_a_log_written_with_spaces_is_searched_too(logs: Path) -> None:
    put(logs, "session-20261116-010000.ndjson", json.dumps(fact(1, message_id="17.1.aa@x")).encode() + b"\n")
    assert [line.seq for line in find_message_lines(logs, "17.1")] == [1]


def test_lines_at_the_edges_of_chunks_are_found(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK_BYTES", 64)
    put(
        logs,
        "session-20261116-010000.ndjson",
        *(fact(n, message_id="even" if n % 2 == 0 else "odd", pad="x" * n) for n in range(100)),
    )
    assert [line.seq for line in find_message_lines(logs, "ev")] == list(range(0, 100, 2))


def test_whole_ids_and_whole_local_parts_win_over_beginnings() -> None:
    assert choose_id("1.2.ab", ["1.2.ab@x", "1.2.abc@x"]) == "1.2.ab@x"
    assert choose_id("1.2", ["1.2", "1.2.abc@x"]) == "1.2"
    with pytest.raises(AmbiguousMessage):
        choose_id("1.2.ab", ["1.2.ab@x", "1.2.ab@y"])


def test_the_hash_of_an_id_finds_its_lines(logs: Path) -> None:
    one, other = "17.29247.7c1f00d00001@x", "17.29247.7c1fbeef0002@x"
    put(
        logs,
        "session-20261116-010000.ndjson",
        fact(1, message_id=one),
        fact(2, message_id=other),
        fact(3, agent="7c1f"),
    )
    assert matching_ids(logs, "7c1f") == {one, other}
    assert [line.seq for line in find_message_lines(logs, "7c1f00d0")] == [1]
    assert matching_ids(logs, "29247") == set()
