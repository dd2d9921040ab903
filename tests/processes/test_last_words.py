"""Exits and output, as one harmless line."""

from __future__ import annotations

import pytest

from ackd.processes import exit_words, last_lines


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit 0"), (1, "exit 1"), (137, "exit 137 (SIGKILL)"), (255, "exit 255")]
)
def test_an_exit_names_its_signal(code: int, words: str) -> None:
    assert exit_words(code) == words


def test_what_a_terminal_would_act_on_is_left_out() -> None:
    assert last_lines(b"one\n\x1b[31mred\x1b[0m\x07 \xff\n\n", 100, lines=1) == "red �"


def test_only_the_end_is_kept() -> None:
    assert last_lines(b"a\nb\nc\nd\n", 100) == "b | c | d"
    assert last_lines(b"x" * 100, 10) == "x" * 10
