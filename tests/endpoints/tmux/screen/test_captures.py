"""Screens that real programs have shown: each is what it is, and every pattern that claims a capture is made of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackd.endpoints.tmux.screen import (
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
from ackd.endpoints.tmux.screen.rows import foot, rows_of

CAPTURES = Path(__file__).parent / "captures"
NOON = datetime(2026, 11, 16, 12, 6).astimezone().timestamp()
NIGHT = datetime(2026, 11, 17, 3, 6, tzinfo=UTC).timestamp()
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
    assert codex("permission") == Prompt("command: touch /etc/ackd-test")
    assert codex("permission-40") == Prompt("command: touch /etc/ackd-test")
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


# --- gemini
GEMINI_READY = "after-clear answered context line-submitted permission-refused ready ready-60".split()
GEMINI_TYPED = {"typed": "hello there", "one-burst": "one burst", "after-escape": "and more", "line-typed": LINE}


def gemini(name: str, now: float = NOON) -> State:
    return classify(shown(f"gemini-0.61.0/{name}.txt"), load_profile("gemini"), now, "node")


def test_gemini_asks_whether_it_is_trusted_and_how_to_sign_in() -> None:
    assert gemini("trust") == Prompt("Do you trust the files in this folder?")
    assert gemini("auth") == Menu("How would you like to authenticate for this project?")


@pytest.mark.parametrize("name", [*GEMINI_READY, *GEMINI_TYPED])
def test_gemini_waits_for_a_line(name: str) -> None:
    assert gemini(name) == Ready()
    found = input_text(shown(f"gemini-0.61.0/{name}.txt"), load_profile("gemini"))
    assert found is not None
    assert compact(found) == compact(GEMINI_TYPED.get(name, ""))


def test_gemini_works() -> None:
    assert isinstance(gemini("busy"), Busy)
    assert isinstance(gemini("busy-typed"), Busy)


def test_gemini_asks_for_a_permission() -> None:
    assert gemini("permission-60") == Prompt("Shell: touch made.txt")
    assert gemini("permission-write") == Prompt("Apply this change?")


@pytest.mark.parametrize("name", ["slash-menu", "slash-clear", "escape-escape", "ctrl-c"])
def test_gemini_shows_a_menu(name: str) -> None:
    assert isinstance(gemini(name), Menu)


def test_gemini_has_hit_its_limit_and_what_it_offers_then_is_never_chosen_from() -> None:
    limit = gemini("limit-at", NIGHT)
    assert isinstance(limit, Limit)
    assert limit.until == datetime(2026, 11, 17, 4, 35, tzinfo=UTC).timestamp()
    assert gemini("limit") == Limit("Usage limit reached for all Pro models.", None)
    assert isinstance(gemini("limit-at", limit.until), Unknown)  # its box is still there
    assert gemini("after-limit") == Limit("You have exhausted your daily quota on this model.", None)


@pytest.mark.parametrize(
    "said",
    [
        " > /rewind",
        "✦ Allow execution of [Shell]?\n  1. Allow once",
        "✦ it says (Use Enter to select)",
        "✦ Thinking... (esc to cancel, 4s)",
        "✦ Usage limit reached for all Pro models.",
    ],
)
def test_what_was_said_above_the_input_line_of_gemini_is_not_taken_for_what_it_shows(said: str) -> None:
    screen = shown("gemini-0.61.0/answered.txt").replace("✦ All done.", said)
    assert said in screen
    assert classify(screen, load_profile("gemini"), NOON, "node") == Ready()


def test_a_line_that_was_submitted_to_gemini_stands_above_its_input_line() -> None:
    profile = load_profile("gemini")
    assert compact(LINE) in compact(transcript(shown("gemini-0.61.0/line-submitted.txt"), profile))
    assert compact(LINE) not in compact(transcript(shown("gemini-0.61.0/line-typed.txt"), profile))


# --- others


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
    """Screens hold text of anybody, so no pattern may take time that grows faster than the text."""
    hostile = [
        "Would you like to " * 400,
        "Do you want to" * 500,
        "› " * 2000,
        "You’ve hit your usage limit" * 300,
        "a" * 9000,
        "╭───╮\n● 1. a?\n" * 500,
        "Usage limit reached\nAllow?\n1. Allow ╰───╯ x" * 300,
        "(Use Enter to select)\n────────────\n a\n" * 300,
    ]
    began = time.process_time()
    for text in hostile:
        rows = "\n".join(text[at : at + 160] for at in range(0, len(text), 160))
        classify(rows, load_profile(name), NOON, "node")
    assert time.process_time() - began < 2
