"""Turns that are over before anybody looks, and the proof that this telling was taken."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from ackd.endpoints.tmux.screen import InputLine, Mark, answered, input_text, load_profile, mark, profile_of, whose

LINE = "ackd: mail from leader (task_assignment). Run: ackd read 4f2a91c0"
LONG_LINE = (
    "ackd: message 1763254800.4242.a1b2c3@ignite.local from leader, type task_assignment, waits: read "
    "/home/me/project/.ackd/queue/worker/processed/task_assignment_1763254800123456.mime then run: "
    "ackd ack 1763254800.4242.a1b2c3@ignite.local and when finished: ackd done 1763254800.4242.a1b2c3@ignite.local"
)
CAPTURES = Path(__file__).parent / "captures"
OTHER = LINE.replace("4f2a91c0", "77777777")
TABLE: dict[str, Any] = {
    "input": {"marker": "^> ?(?P<text>.*)$"},
    "ready": [{"pattern": "^>", "assumed": "made up"}],
    "told": [{"pattern": "^you: (?P<text>.*)$", "assumed": "made up"}],
    "agent": [{"pattern": "^(?:agent:|tool:)", "assumed": "made up"}],
    "trouble": [{"pattern": "^agent: API Error", "assumed": "made up"}],
}
PROFILE = profile_of(TABLE, "made up")


def shown(*said: str, width: int = 100) -> str:
    rows = [row for one in said for row in textwrap.wrap(one, width, subsequent_indent="  ")]
    return "\n".join([*rows, "", ">", ""])


def seen(now: str, before: str = "") -> bool:
    return answered(mark(now, LINE, PROFILE), mark(before, LINE, PROFILE), PROFILE)


@pytest.mark.parametrize("width", [20, 38, 100])
@pytest.mark.parametrize("reply", ["agent: I read it.", "tool: ackd read 4f2a91c0"])
def test_the_agents_own_words_or_tool_calls_below_this_tellings_line_prove_that_it_was_seen(
    reply: str, width: int
) -> None:
    assert seen(shown("agent: earlier", f"you: {LINE}", reply, width=width), shown("agent: earlier"))


@pytest.mark.parametrize(
    "below",
    [[], ["agent: API Error: 529 Overloaded"], ["■ Conversation interrupted"], [f"you: {OTHER}", "agent: that one"]],
)
def test_an_error_an_interrupt_or_the_answer_to_another_line_is_not_that(below: list[str]) -> None:
    assert not seen(shown(f"you: {LINE}", *below))


def test_an_earlier_tellings_line_with_its_answer_is_not_that() -> None:
    before = shown(f"you: {LINE}", "agent: I am at it.")
    assert not seen(before, before)
    assert not seen(shown(f"you: {LINE}", "agent: I am at it.", "agent: still."), before)
    assert not seen(shown(f"you: {LINE}", "agent: I am at it.", f"you: {LINE}"), before)
    assert seen(shown(f"you: {LINE}", "agent: I am at it.", f"you: {LINE}", "agent: again."), before)


def test_this_tellings_line_is_known_also_when_the_earlier_one_has_left_the_screen() -> None:
    before = shown(f"you: {LINE}", "agent: API Error: 529")
    assert seen(shown(f"you: {LINE}", "agent: I read it."), before)


def test_a_line_that_a_narrow_screen_cuts_is_known_by_its_beginning() -> None:
    assert seen(shown(f"you: {LINE[:30]}…", "agent: I read it."))
    assert not seen(shown(f"you: {LINE[:5]}…", "agent: I read it."))


def test_a_line_whose_beginning_has_left_a_small_screen_is_known_by_its_end() -> None:
    assert seen("  ackd read\n  4f2a91c0\n\nagent: I read it.\n>\n")
    assert seen("4f2a91c0\nagent: I read it.\n>\n")
    assert not seen("f2a91c0\nagent: I read it.\n>\n")
    assert not seen(f"4f2a91c0\nyou: {OTHER}\nagent: that one.\n>\n")
    assert not seen("other words\n4f2a91c0\nagent: I read it.\n>\n")


def test_a_profile_that_does_not_know_its_transcript_proves_nothing() -> None:
    blind = profile_of({key: value for key, value in TABLE.items() if key != "told"}, "blind")
    assert mark(shown(f"you: {LINE}", "agent: yes"), LINE, blind) == Mark()


#: Gemini in 40x12 shows nothing but its input line then: there `ackd read` says it.
ANSWERED = [
    *(("claude-2.1.326", size) for size in ("40x12", "60x15", "80x24")),
    *(("codex-0.169.0", size) for size in ("40x12", "60x15", "80x24")),
    *(("gemini-0.61.0", size) for size in ("60x15", "80x24")),
]


@pytest.mark.parametrize(("program", "size"), ANSWERED)
def test_real_programs_that_answered_our_short_line_in_a_small_pane_have_seen_it(program: str, size: str) -> None:
    profile, line = load_profile(program.partition("-")[0]), LINE
    screen = (CAPTURES / program / f"{size}-short-line-submitted.txt").read_text()
    assert answered(mark(screen, line, profile), Mark(), profile)


@pytest.mark.parametrize("kind", ["line", "short-line"])
@pytest.mark.parametrize("size", ["40x12", "60x15", "80x24"])
@pytest.mark.parametrize("program", ["claude-2.1.326", "codex-0.169.0", "gemini-0.61.0"])
def test_real_programs_show_our_line_as_ours_in_a_small_pane(program: str, size: str, kind: str) -> None:
    profile = load_profile(program.partition("-")[0])
    screen = (CAPTURES / program / f"{size}-{kind}-typed.txt").read_text()
    line = LINE if kind == "short-line" else LONG_LINE
    found = whose(input_text(screen, profile), profile, line, sure=True)
    hidden = (program, size, kind) == ("gemini-0.61.0", "40x12", "line")  # all but its end: taken back by that
    assert found is (InputLine.UNSEEN if hidden else InputLine.OURS)
