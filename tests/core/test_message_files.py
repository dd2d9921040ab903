"""Names of message files, for the daemon and every command."""

from __future__ import annotations

import pytest

from ackd.coordination.ensemble.rules import plain_words
from ackd.core.message_files import STRAY_CURE, STRAY_WORDS, is_message_file, is_stray


@pytest.mark.parametrize("name", ["a.mime", "task_assignment_1763254800000000.mime", "ü.mime", "a.b.mime"])
def test_a_message_ends_in_mime(name: str) -> None:
    assert is_message_file(name)
    assert not is_stray(name)


@pytest.mark.parametrize("name", ["a.eml", "noext", "a.mime~", "a.mime.bak", "a.MIME", "#a.mime#", "mime"])
def test_whatever_else_lies_in_a_queue_is_a_stray(name: str) -> None:
    assert not is_message_file(name)
    assert is_stray(name)


@pytest.mark.parametrize("name", [".a.mime", ".a.mime.tmp", ".gitkeep", "processed"])
def test_hidden_names_are_writers_own_and_processed_is_ours(name: str) -> None:
    assert not is_message_file(name)
    assert not is_stray(name)


def test_what_is_said_of_a_stray_is_plain() -> None:
    assert not plain_words.vague_words(f"{STRAY_WORDS} {STRAY_CURE}")


def test_what_a_gateway_reads_there_is_no_stray() -> None:
    assert not is_stray("dispatch-instruction.yaml")
    assert not is_message_file("dispatch-instruction.yaml")
