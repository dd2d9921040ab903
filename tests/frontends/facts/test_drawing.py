"""Columns, colours, widths, and no control character that was not ours."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.frontends.facts import cells, colour_wanted, cut, render
from ackd.frontends.facts.drawing import LOOKS
from ackd.frontends.facts.harmless import is_harmless
from ackd.frontends.facts.wording import WORDS
from tests.frontends.facts.bench import ANSI, ID, about, line


def test_progress_without_colour_is_the_seeds_format_and_nothing_else() -> None:
    fact = line(
        "progress",
        agent="leader",
        message_id=ID,
        stage="review",
        percent=60,
        message="two of three",
        final=False,
        **{"from": "builder"},
    )
    assert render(fact, colour=False) == "stage=review percent=60 message=two of three"
    coloured = render(fact, colour=True)
    assert (
        ANSI.sub("", coloured)
        == "01:02:03  ▸ progress    1763.42.ab12  builder     stage=review percent=60 message=two of three"
    )
    assert "\x1b[2;36m" in coloured


@pytest.mark.parametrize(
    ("type_", "style"),
    [
        ("message_completed", "32"),
        ("message_acked", "32"),
        ("message_retry", "33"),
        ("message_dead", "1;31"),
        ("escalation", "1;31"),
        ("message_rejected", "1;31"),
        ("agent_state", "34"),
        ("session_start", "34"),
    ],
)
def test_the_kind_has_its_familys_colour(type_: str, style: str) -> None:
    text = render(line(type_, **about()), colour=True)
    assert f"\x1b[{style}m{LOOKS[type_].symbol} {LOOKS[type_].kind}" in text
    assert text.count("\x1b[") == 2 * text.count("\x1b[0m")


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(
    "message_id agent from reason counted retry_count delay_s files recovered totals seconds message stage percent until task_id in_reply_to pid exit".split()
)


@given(
    st.sampled_from([*sorted(WORDS), "\x1b[2Junknown"]),
    st.dictionaries(keys, values),
    st.integers(0, 120),
    st.booleans(),
)
def test_no_value_gets_a_control_character_to_the_terminal(
    type_: str, data: dict[str, Any], width: int, colour: bool
) -> None:
    text = ANSI.sub("", render(line(type_, **data), colour=colour, width=width))
    assert all(is_harmless(char) for char in text)
    assert not width or cells(text) <= width


def test_long_lines_end_in_an_ellipsis_within_the_width() -> None:
    fact = line("message_warning", **about(warning="日本" * 60))
    for width in range(1, 90):
        assert cells(render(fact, colour=False, width=width)) <= width
        assert cells(ANSI.sub("", render(fact, colour=True, width=width))) <= width
    assert render(fact, colour=False, width=60).endswith("…")
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cut("日本語", 4) == "日…"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_and_nobody_who_asked_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colour_wanted(Terminal())
    assert not colour_wanted(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour_wanted(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colour_wanted(Terminal())
