"""Columns, colours, widths, and no control character that was not ours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.message_ids import choose
from ackd.facts import agent_width, cells, colour_wanted, cut, render
from ackd.facts.harmless import is_harmless
from ackd.facts.table import FACTS
from tests.facts.bench import ANSI, ID, about, line

if TYPE_CHECKING:
    from ackd.storage.session_log import Line


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
        == "01:02:03  ▸ progress    1763.42.ab12  builder       stage=review percent=60 message=two of three"
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
    assert f"\x1b[{style}m{FACTS[type_].symbol} {FACTS[type_].kind}" in text
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
    st.sampled_from([*sorted(FACTS), "\x1b[2Junknown"]),
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


LONG_ID = "1794794802.29247.7c1f00d00001@ignite.local"


def retry(agent: str, **data: Any) -> Line:
    told = {"reason": "exit 3: no connection to the site", "retry_count": 2, "retry_limit": 3, "delay_s": 7}
    return line("message_retry", message_id=LONG_ID, agent=agent, **told, **data)


def test_eighty_columns_have_room_for_the_words_and_an_id_that_is_taken_for_the_whole() -> None:
    agents = agent_width(["leader", "coordinator", "user"])
    shown = render(retry("coordinator"), colour=False, width=80, agents=agents)
    assert shown == "01:02:03 retry      7c1f00d0 coordinator 2 of 3, again in 7 s: exit 3: no conne…"
    assert choose("7c1f00d0", [LONG_ID]) == LONG_ID
    other = render(
        line("agent_state", agent="leader", state="parked", reason="x"), colour=False, width=80, agents=agents
    )
    assert other == "01:02:03 agent               leader      parked: x"
    assert shown.index("2 of 3") == other.index("parked")


def test_a_wide_terminal_shows_the_id_up_to_its_host() -> None:
    shown = render(retry("leader"), colour=False, width=110)
    assert shown.startswith("01:02:03  retry       1794794802.29247.7c1f00d00001  leader        2 of 3")


def test_forty_columns_have_who_and_what() -> None:
    assert render(retry("leader"), colour=False, width=40) == "↻ retry leader 2 of 3, again in 7 s: ex…"


def test_a_name_too_long_for_a_narrow_line_is_cut_and_shifts_nothing() -> None:
    shown = render(retry("a_name_of_no_small_length"), colour=False, width=80, agents=12)
    assert shown.startswith("01:02:03 retry      7c1f00d0 a_name_of_n… 2 of 3")
    assert agent_width(["a_name_of_no_small_length"]) == 20
    assert agent_width([]) == 12


@pytest.mark.parametrize(
    "type_", ["message_claimed", "worker_assign", "worker_release", "child_started", "child_ended"]
)
def test_what_only_surrounds_the_story_is_dim_from_end_to_end(type_: str) -> None:
    shown = render(line(type_, **about(pid=1, exit=0)), colour=True, width=80)
    assert set(re.findall(r"\x1b\[([0-9;]+)m", shown)) == {"2", "0"}
    assert re.sub(r"\x1b\[2m.*?\x1b\[0m", "", shown).strip() == ""
