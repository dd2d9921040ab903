"""Values made harmless and short."""

from __future__ import annotations

import pytest

from ackd.facts import duration, short_id, visible
from tests.facts.bench import ID


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\udcff", "\\udcff"),
        ("日本語\u3000です", "日本語\u3000です"),
        (["a", "\x1b"], "a, \\x1b"),
        ({"k\n": None}, "k\\n=-"),
    ],
)
def test_what_a_terminal_would_act_on_is_spelled_out(value: object, expected: str) -> None:
    assert visible(value) == expected


def test_the_short_id_is_a_beginning_of_the_id() -> None:
    assert short_id(ID) == "1763.42.ab12"
    assert short_id("x" * 200 + "@h") != "x" * 200 + "@h"
    assert ("x" * 200 + "@h").startswith(short_id("x" * 200 + "@h"))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (3.21, "3.2 s"),
        (7.0, "7 s"),
        (61.4, "61 s"),
        (1800, "30 min"),
        (9000, "2.5 h"),
        (259_200, "3 days"),
        (None, "?"),
    ],
)
def test_durations_are_short(seconds: object, expected: str) -> None:
    assert duration(seconds) == expected
