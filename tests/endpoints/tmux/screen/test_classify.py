"""Screens as states, and when a limit ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ackd.endpoints.tmux.screen import (
    Busy,
    Limit,
    Menu,
    Prompt,
    Ready,
    Shell,
    Unknown,
    classify,
    context_usage,
    load_profile,
    profile_of,
    read,
)
from ackd.endpoints.tmux.screen.classify import moment

NOW = 1_763_254_800.0
CLAUDE = load_profile("claude")
BOX = "────────────\n❯\u00a0{}\n────────────\n  ? for shortcuts"
FAKE = profile_of(
    {
        "input": {"marker": r"^> ?(?P<text>.*)$"},
        "ready": [{"pattern": "^>", "rows": 2, "assumed": "test"}],
        "busy": [{"pattern": "working", "rows": 3, "assumed": "test"}],
        "prompt": [{"pattern": "(?P<text>Allow .*)", "rows": 3, "assumed": "test"}],
        "menu": [{"pattern": "Choose", "rows": 3, "assumed": "test"}],
        "limit": [{"pattern": r"limit(?: resets at (?P<at>.*)| in (?P<within>.*))?", "rows": 3, "assumed": "test"}],
        "context": [{"pattern": r"(?P<used>\d+)% used", "rows": 4, "assumed": "test"}],
    },
    "fake",
)


def test_an_empty_screen_is_unknown_and_so_is_anything_that_fits_nothing() -> None:
    assert classify("", FAKE, NOW) == Unknown("")
    assert classify("\n\n  compiling…\n\n", FAKE, NOW) == Unknown("compiling…")


@pytest.mark.parametrize(
    ("screen", "state"),
    [
        ("> ", Ready()),
        ("working\n> ", Busy("working")),
        ("working\nAllow this? y/n\n> ", Prompt("Allow this? y/n")),
        ("Choose one\n> ", Menu("Choose")),
        ("limit\nworking\n> ", Limit("limit")),
        ("limit in 2h 5m\n> ", Limit("limit in 2h 5m", NOW + 7500)),
        ("Allow it\nChoose one\nlimit", Prompt("Allow it")),
    ],
)
def test_what_a_key_would_answer_goes_before_all_else(screen: str, state: object) -> None:
    assert classify(screen, FAKE, NOW) == state


def test_only_the_foot_of_the_screen_counts() -> None:
    """A message that quotes a prompt must not stop its agent's mail for ever, nor one that says "ready" open it."""
    assert classify("Allow me\nChoose\nworking\n1\n2\n3\n> ", FAKE, NOW) == Ready()
    assert isinstance(classify("> \n1\n2\n3", FAKE, NOW), Unknown)


def test_a_prompt_of_an_agent_is_no_shell_while_the_agent_runs() -> None:
    assert isinstance(classify("me@host:~$", FAKE, NOW, "node"), Unknown)
    assert classify("me@host:~$", FAKE, NOW, "bash") == Shell("me@host:~$")
    assert classify("me@host:~$", FAKE, NOW) == Shell("me@host:~$")
    assert isinstance(classify("45%", FAKE, NOW, "bash"), Unknown)


def test_a_fancy_prompt_is_a_shell_only_with_a_shell_before_it() -> None:
    assert classify("~/project main ❯", FAKE, NOW, "zsh") == Shell("~/project main ❯")
    assert isinstance(classify("~/project main ❯", FAKE, NOW), Unknown)


def test_what_is_told_to_people_is_one_printable_line() -> None:
    state = classify("Allow \x1b[31m" + "x" * 500 + "\x07", FAKE, NOW)
    assert isinstance(state, Prompt)
    assert state.text.isprintable()
    assert len(state.text) == 160


@pytest.mark.parametrize(
    ("screen", "state"),
    [
        (BOX.format(""), Ready()),
        (BOX.format('Try "refactor <filepath>"'), Ready()),
        ("✻ Thinking… (3s)\n" + BOX.format("half a thought"), Busy("Thinking… (3s)")),
        ("Bash command\n  rm x\nDo you want to proceed?\n❯ 1. Yes\n  2. No\n", Prompt("Do you want to proceed?")),
        ("Select login method:\n❯ 1. Account\n  2. API", Menu("❯ 1. Account")),
        ("5-hour limit reached ∙ resets 5am (UTC)\n" + BOX.format(""), Limit("limit reached ∙ resets 5am (UTC)", 1_763_269_200.0)),
        ("Claude AI usage limit reached|1763260000\n" + BOX.format(""), Limit("limit reached|1763260000", 1_763_260_000.0)),
    ],
)  # fmt: skip
def test_claude_as_it_looks_and_its_limits_as_they_are_assumed_to(screen: str, state: object) -> None:
    assert classify(screen, CLAUDE, NOW, "claude") == state


def test_how_much_context_is_used() -> None:
    assert context_usage("71% used\n> ", FAKE) == 0.71
    assert context_usage("    12% until auto-compact\n" + BOX.format(""), CLAUDE) == 0.88
    assert context_usage("> ", FAKE) is None
    assert context_usage("400% used", FAKE) is None


def test_one_reading_says_all() -> None:
    reading = read("80% used\n> half a line\n  and more\n\nfoot", FAKE, NOW, "python3")
    assert (reading.typed, reading.context_usage) == ("half a line\nand more", 0.8)


# --- when a limit ends ------------------------------------------------------------------------------------------------
LIMIT_SEEN_AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def utc(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ({"at": "1:36 PM (UTC)"}, utc(2026, 11, 16, 13, 36)),
        ({"at": "3pm (UTC)"}, utc(2026, 11, 16, 15)),
        ({"at": "11:30am UTC"}, utc(2026, 11, 16, 11, 30)),  # over
        ({"at": "12am (UTC)"}, utc(2026, 11, 16, 0)),
        ({"at": "11:00 PM UTC"}, utc(2026, 11, 16, 23)),
        ({"at": "15:30 (Europe/Berlin)"}, utc(2026, 11, 16, 14, 30)),
        ({"at": "Nov 20th, 2026 1:36 PM UTC"}, utc(2026, 11, 20, 13, 36)),
        ({"at": "Jan 2, 3pm (UTC)"}, utc(2027, 1, 2, 15)),
        ({"at": "2026-11-17 08:00 UTC"}, utc(2026, 11, 17, 8)),
        ({"within": "2 hours 5 minutes"}, utc(2026, 11, 16, 14, 5)),
        ({"within": "1d 1s"}, utc(2026, 11, 17, 12, 0) + 1),
        ({"epoch": "1794830400"}, 1_794_830_400.0),
        ({"at": "25:99 UTC"}, None),
        ({"at": "soon"}, None),
        ({"at": "3pm (No/Where)"}, None),
        ({"within": "a while"}, None),
        ({"at": None}, None),
        ({}, None),
    ],
)
def test_words_become_a_time_or_none(words: dict[str, str | None], then: float | None) -> None:
    assert moment(words, LIMIT_SEEN_AT.timestamp()) == then


def test_late_in_the_day_an_early_hour_is_tomorrow() -> None:
    assert moment({"at": "1am UTC"}, utc(2026, 11, 16, 22)) == utc(2026, 11, 17, 1)
    assert moment({"at": "11pm UTC"}, utc(2026, 11, 17, 1)) == utc(2026, 11, 16, 23)
