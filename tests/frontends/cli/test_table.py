"""Text for people: nothing in it can play tricks on a terminal."""

from __future__ import annotations

import pytest

from ackd.frontends.cli.table import age, print_table, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain ünï", "plain ünï"), ("a\x1b[2Jb", "a?[2Jb"), ("a\nb\tc", "a b c"), ("\u202egpj", "?gpj"), ("\x07", "?")],
)
def test_control_characters_are_shown_as_question_marks(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\nb\x1bc\n") == "a\nb?c\n"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (89, "89s"), (90, "1m"), (5399, "89m"), (5400, "1h"), (129_600, "1d"), (9e6, "104d")],
)
def test_ages_in_one_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_into_a_pipe_go_plain_columns_untruncated(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "B"], [["x", "y" * 300], ["long", ""]])
    assert capsys.readouterr().out == f"A     B\nx     {'y' * 300}\nlong\n"
