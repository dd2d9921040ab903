"""The demo's sentences: each said once, before the line that it is about."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ackd.cli.demo_story import SENTENCES, DemoStory
from ackd.facts.table import FACTS
from ackd.storage.session_log import Line


def line(type_: str, agent: str = "a", **data: Any) -> Line:
    return Line("2026-11-16T01:02:03.000000Z", "s", 1, "daemon", type_, {"agent": agent, **data}, b"")


def queued(agent: str, message_id: str, kind: str) -> Line:
    return line("message_queued", agent, message_id=message_id, message_type=kind, **{"from": "user"})


def story(*, width: int = 0, quiet: bool = False, colour: bool = False) -> DemoStory:
    return DemoStory(agents=["leader"], colour=colour, width=width, quiet=quiet)


def test_there_are_about_twelve_sentences_about_lines_that_exist() -> None:
    assert 11 <= len(SENTENCES) <= 14
    assert {one.type for one in SENTENCES} <= FACTS.keys()


def test_a_sentence_is_said_once_and_the_line_it_is_about_comes_below_it() -> None:
    told = story()
    first = list(told.told(queued("leader", "1", "user_goal")))
    assert [is_sentence for _, is_sentence in first] == [True, False]
    assert first[0][0].startswith("\nYou give the leader a goal")
    assert "user_goal" in first[1][0]
    again = list(told.told(queued("leader", "2", "user_goal")))
    assert [is_sentence for _, is_sentence in again] == [False]


def test_a_later_try_is_told_of_when_it_comes() -> None:
    told = story(quiet=True)
    assert not list(told.told(line("message_told", "builder", message_id="1", attempt=1)))
    assert [text for text, _ in told.told(line("message_told", "builder", message_id="1", attempt=2))]


def test_messages_about_messages_are_left_out() -> None:
    told = story()
    assert not list(told.told(queued("coordinator", "1", "task_completed")))
    assert not list(told.told(line("message_completed", "coordinator", message_id="1")))
    assert not list(told.told(line("worker_assign", "x", message_id="1")))


def test_quiet_leaves_only_the_sentences() -> None:
    told = story(quiet=True)
    assert [is_sentence for _, is_sentence in told.told(queued("leader", "1", "user_goal"))] == [True]


@pytest.mark.parametrize("columns", [0, 40, 80, 200])
def test_sentences_are_as_wide_as_the_terminal_and_never_wider_than_80_columns(columns: int) -> None:
    for one in SENTENCES:
        lines = story(width=columns).sentence(one.words).splitlines()
        assert max(map(len, lines)) <= min(columns or 80, 80)
        assert " ".join(lines) == one.words


def test_sentences_are_bold_where_colours_are_wanted() -> None:
    shown = story(colour=True).sentence("one " * 40)
    assert all(re.fullmatch(r"\x1b\[1m.*\x1b\[0m", row) for row in shown.splitlines())


def test_the_new_builder_is_told_of_also_if_a_telling_came_to_nothing() -> None:
    told = story()
    assert not list(told.told(line("message_told", "builder", message_id="1", attempt=1)))
    assert [
        text
        for text, is_sentence in told.told(line("message_told", "builder", message_id="1", attempt=3))
        if is_sentence
    ]
