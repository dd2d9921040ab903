"""Screens that real programs have shown: each is what it is, and every pattern that claims a capture is made of it."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from ackd.dialects.screen import (
    SHIPPED,
    Busy,
    Limit,
    Menu,
    Pattern,
    Prompt,
    Ready,
    Shell,
    State,
    Unknown,
    classify,
    compact,
    input_text,
    load_profile,
    transcript,
)
from ackd.dialects.screen.rows import foot, rows_of

CAPTURES = Path(__file__).parent / "captures"
NOON = datetime(2026, 11, 16, 12, 6).astimezone().timestamp()
LINE = (
    "ackd: message 1763254800.4242.a1b2c3@ignite.local from leader, type task_assignment, waits: read "
    "/home/me/project/.ackd/queue/worker/processed/task_assignment_1763254800123456.mime then run: "
    "ackd ack 1763254800.4242.a1b2c3@ignite.local and when finished: ackd done 1763254800.4242.a1b2c3@ignite.local"
)

READY = "after-clear after-slash answered busy-queued ctrl-c line-submitted permission-refused ready".split()
TYPED = {
    "typed": "hello there",
    "one-burst": "one burst",
    "typed-after-escapes": "after escapes",
    "line-typed": LINE,
}


def shown(name: str) -> str:
    return (CAPTURES / name).read_text()


def codex(name: str, now: float = NOON) -> State:
    return classify(shown(f"codex-0.166.0/{name}.txt"), load_profile("codex"), now, "node")


@pytest.mark.parametrize("name", [*READY, *TYPED])
def test_codex_waits_for_a_line(name: str) -> None:
    assert codex(name) == Ready()


@pytest.mark.parametrize("name", ["busy", "busy-typed"])
def test_codex_works(name: str) -> None:
    assert isinstance(state := codex(name), Busy)
    assert "esc to interrupt" in state.text


def test_codex_asks_for_a_permission() -> None:
    assert codex("permission") == codex("permission-40") == Prompt("Would you like to run the following command?")
    assert codex("trust") == Prompt("Trust this folder?")


@pytest.mark.parametrize("name", ["login", "slash-menu", "slash-new", "after-new", "escape-escape"])
def test_codex_shows_a_menu(name: str) -> None:
    assert isinstance(codex(name), Menu)


def test_codex_has_hit_its_limit_until_the_time_it_names_and_no_longer() -> None:
    limit = codex("limit")
    assert isinstance(limit, Limit)
    assert limit.until == datetime(2026, 11, 16, 13, 36).astimezone().timestamp()
    assert limit.text.startswith("You’ve hit your usage limit.")
    assert codex("limit", limit.until) == Ready()
    assert codex("limit", limit.until + 3600) == Ready()
    assert isinstance(codex("after-new-escape"), Limit)


@pytest.mark.parametrize(("name", "minute"), [("limit-160", 17), ("limit-40", 18)])
def test_the_end_of_a_limit_is_read_however_its_words_are_wrapped(name: str, minute: int) -> None:
    limit = codex(name)
    assert isinstance(limit, Limit)
    assert limit.until == datetime(2026, 11, 16, 14, minute).astimezone().timestamp()


@pytest.mark.parametrize("name", READY)
def test_the_input_line_of_codex_is_empty(name: str) -> None:
    assert input_text(shown(f"codex-0.166.0/{name}.txt"), load_profile("codex")) == ""


@pytest.mark.parametrize(("name", "typed"), TYPED.items())
def test_what_was_typed_is_read_back_however_it_is_wrapped(name: str, typed: str) -> None:
    found = input_text(shown(f"codex-0.166.0/{name}.txt"), load_profile("codex"))
    assert found is not None
    assert compact(found) == compact(typed)


def test_a_line_that_was_submitted_stands_above_the_input_line() -> None:
    profile = load_profile("codex")
    assert compact(LINE) in compact(transcript(shown("codex-0.166.0/line-submitted.txt"), profile))
    assert compact(LINE) not in compact(transcript(shown("codex-0.166.0/line-typed.txt"), profile))


def test_gemini_asks_whether_it_is_trusted_and_how_to_sign_in() -> None:
    gemini = load_profile("gemini")
    trust = classify(shown("gemini-0.61.0/trust.txt"), gemini, NOON, "node")
    assert trust == Prompt("Do you trust the files in this folder?")
    menu = classify(shown("gemini-0.61.0/auth.txt"), gemini, NOON, "node")
    assert menu == Menu("How would you like to authenticate for this project?")


def test_claude_without_network_is_not_typed_into_and_gone_once_a_shell_shows() -> None:
    claude, offline = load_profile("claude"), shown("claude-2.1.325/offline.txt")
    assert isinstance(classify(offline, claude, NOON, "claude"), Unknown)
    assert isinstance(classify(offline, claude, NOON), Unknown)
    assert classify(offline.rstrip() + "\nme@host:~/project$ ", claude, NOON, "bash") == Shell("me@host:~/project$")


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_shell_is_where_the_agent_was_and_the_shell_profile_is_ready_there(name: str) -> None:
    bash = shown("shell/bash.txt")
    assert isinstance(classify(bash, load_profile(name), NOON, "bash"), Shell)
    assert classify(bash, load_profile("shell"), NOON, "bash") == Ready()
    assert classify(bash, load_profile("shell"), NOON, "make") == Busy("make runs")


# --- what profiles claim
CLAIMS = [
    (name, kind, one)
    for name in SHIPPED
    for kind, patterns in load_profile(name).patterns().items()
    for one in patterns
]


@pytest.mark.parametrize(("name", "kind", "one"), CLAIMS, ids=[f"{name} {kind}" for name, kind, _ in CLAIMS])
def test_a_pattern_fits_the_captures_that_it_names(name: str, kind: str, one: Pattern) -> None:
    for capture in one.captured:
        assert one.pattern.search(foot(rows_of(shown(capture)), one.rows)), f"{capture} does not show it"
    assert one.captured or one.assumed


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_no_capture_takes_long(name: str) -> None:
    """Patterns meet what anyone has said: none may take time that grows with it."""
    hostile = [
        "Would you like to " * 400,
        "Do you want to" * 500,
        "› " * 2000,
        "You’ve hit your usage limit" * 300,
        "a" * 9000,
    ]
    began = time.process_time()
    for text in hostile:
        rows = "\n".join(text[at : at + 160] for at in range(0, len(text), 160))
        classify(rows, load_profile(name), NOON, "node")
    assert time.process_time() - began < 2
