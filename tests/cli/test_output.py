"""Text for people: nothing in it can play tricks on a terminal."""

from __future__ import annotations

import json

import pytest

from ackd.cli.output import as_it_is, escaped_json, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï", "plain ünï"),
        ("a\x1b[2Jb", "a?[2Jb"),
        ("a\nb\tc", "a b c"),
        ("\u202egpj", "?gpj"),
        ("\x07", "?"),
        ("日\u3000本", "日\u3000本"),
        ("\udcff", "?"),
    ],
)
def test_control_characters_are_shown_as_question_marks(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\nb\x1bc\n") == "a\nb?c\n"


def test_json_means_the_same_and_holds_nothing_that_a_terminal_acts_on() -> None:
    value = {"a": "\u009b31m\x7f\u202e\U000e0001\udcff日本"}
    text = escaped_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert "日本" in text
    assert text.replace("\n", "").isprintable()


def test_a_file_goes_into_a_pipe_as_it_is(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    as_it_is(b"a\x1b[2J\xff\r\nb")
    assert capsysbinary.readouterr().out == b"a\x1b[2J\xff\r\nb"


def test_a_file_on_a_terminal_has_lines_and_no_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    as_it_is(b"a\x1b[2J\xff\r\nb")
    assert capsys.readouterr().out == "a?[2J\ufffd\nb\n"
