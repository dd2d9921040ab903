"""Tables for people."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from ackd.cli.table import age, folded_under, print_table, say_folded

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (89, "89s"), (90, "1m"), (5399, "89m"), (5400, "1h"), (129_600, "1d"), (9e6, "104d")],
)
def test_ages_in_one_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on(monkeypatch: pytest.MonkeyPatch, columns: int, act: Callable[[], None]) -> list[str]:
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    act()
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_a_narrow_terminal_gets_a_paragraph_for_each_row_and_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = ["ID", "AGE", "FROM", "IN FLIGHT", "SUBJECT"]
    rows = [
        ["1795052855.25726.4def27f9119a", "5m", "leader", "12", "one that is longer than such a line can be"],
        ["1795052855.25726.aaaaaaaaaaaa", "6m", "-", "0", ""],
    ]
    lines = shown_on(monkeypatch, 40, lambda: print_table(titles, rows, {}, ["pid 12", ""]))
    assert lines == [
        "1795052855.25726.4def27f9119a",
        "  age 5m, from leader, in flight 12",
        "  pid 12",
        "  one that is longer than such a line",
        "  can be",
        "1795052855.25726.aaaaaaaaaaaa",
        "  age 6m",
    ]
    assert max(map(len, lines)) <= 40


def test_a_sentence_is_folded_on_a_narrow_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "stray: /a/path/that/is/longer/than/any/line/of/it: move it away"
    folded = ["stray:", "  /a/path/that/is/longer/than/any/line/of/it:", "  move it away"]
    assert shown_on(monkeypatch, 40, lambda: say_folded(text)) == folded
    assert shown_on(monkeypatch, 80, lambda: say_folded(text)) == [text]
    totals = "0 queued  12 in flight  13 unread  4 completed"
    parted = ["0 queued 12 in flight 13 unread", "  4 completed"]
    assert shown_on(monkeypatch, 40, lambda: say_folded(totals, in_pairs=True)) == parted
    assert shown_on(monkeypatch, 80, lambda: say_folded(totals, in_pairs=True)) == [totals]


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_force_color_colours_what_goes_into_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], env: dict[str, str], coloured: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    print_table(["A", "B"], [["down", "x"]], {"down": "bold red"})
    down = "\x1b[1;31mdown\x1b[0m" if coloured else "down"
    assert capsys.readouterr().out == f"A     B\n{down}  x\n"


def test_into_a_pipe_go_plain_columns_untruncated(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "B"], [["x", "y" * 300], ["long", ""]])
    assert capsys.readouterr().out == f"A     B\nx     {'y' * 300}\nlong\n"


def test_a_text_is_folded_below_itself_between_words_and_around_commands() -> None:
    text = "no daemon is running:  start it with `ackd run --quiet` or not"
    assert list(folded_under(text, "  next  ", "        ", 30)) == [
        "  next  no daemon is running:",
        "        start it with",
        "        `ackd run --quiet` or",
        "        not",
    ]
    assert list(folded_under(text, "", "", 0)) == [text]
    assert list(folded_under("a `never closed and long", "", " ", 12)) == ["a `never", " closed and", " long"]
    assert list(folded_under("aaaaaaaaaaaaaaa b", "", " ", 5)) == ["aaaaaaaaaaaaaaa", " b"]
    assert list(folded_under("/a/long/path here", "      ", "  ", 12)) == ["", "  /a/long/path", "  here"]
