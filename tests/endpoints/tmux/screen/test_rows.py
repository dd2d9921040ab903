"""Rows of a screen whose change is a sign of work: not the rows that only show that it is busy, nor its foot."""

from __future__ import annotations

from ackd.endpoints.tmux.screen import load_profile, profile_of, steady

FAKE = {
    "input": {"marker": r"^> ?(?P<text>.*)$"},
    "ready": [{"pattern": r"^\? help\Z", "assumed": "a test"}],
    "busy": [
        {"pattern": r"^\* Working \(.*esc to interrupt\)", "assumed": "a test"},
        {"pattern": r"^Thinking\n(?:  .*\n)+", "assumed": "a test"},
    ],
}
PROFILE = profile_of(FAKE, "fake")


def screen(*above: str, foot: str = "? help") -> str:
    return "\n".join([*above, "", "> ", "", foot])


def test_a_spinner_and_a_clock_beside_it_are_no_work() -> None:
    first = steady(screen("you: go", "* Working (1s, esc to interrupt)"), PROFILE)
    assert first == steady(screen("you: go", "* Working (2s, esc to interrupt)"), PROFILE) == "you: go"


def test_busy_rows_may_be_several() -> None:
    first = steady(screen("you: go", "Thinking", "  1 s", "  12 tokens"), PROFILE)
    assert first == steady(screen("you: go", "Thinking", "  2 s", "  40 tokens"), PROFILE)


def test_a_status_line_at_the_foot_is_no_work() -> None:
    assert steady(screen("you: go", foot="12:01:07 ? help"), PROFILE) == steady(screen("you: go"), PROFILE)


def test_new_rows_above_the_input_line_are() -> None:
    busy = "* Working (1s, esc to interrupt)"
    assert steady(screen("you: go", busy), PROFILE) != steady(screen("you: go", "agent: a word", busy), PROFILE)


def test_going_busy_and_back_without_a_word_is_none() -> None:
    assert steady(screen("you: go", "* Working (1s, esc to interrupt)"), PROFILE) == steady(screen("you: go"), PROFILE)


def test_every_shipped_profile_reads_an_empty_screen() -> None:
    assert [steady("", load_profile(name)) for name in ("claude", "codex", "gemini", "shell")] == [""] * 4
