"""Keys that may be pressed: every state, every content of the input line, every key."""

from __future__ import annotations

import itertools

import pytest

from ackd.endpoints.tmux.screen import (
    Busy,
    InputLine,
    Key,
    Limit,
    Menu,
    Prompt,
    Ready,
    Shell,
    State,
    Unknown,
    allowed,
    input_text,
    load_profile,
    profile_of,
    transcript,
    whose,
)
from ackd.endpoints.tmux.screen.input_line import STATES

LINE = "ackd: mail from leader (task_assignment). Run: ackd read 4f2a91c0"
STATE: dict[type[State], State] = {
    Ready: Ready(),
    Busy: Busy("works"),
    Prompt: Prompt("Bash: rm x"),
    Limit: Limit("5 h"),
    Menu: Menu("which model"),
    Shell: Shell("$"),
    Unknown: Unknown("?"),
}
#: The rules as a person would state them. A combination that is not listed is not allowed.
ALLOWED = {
    "ready, empty: text",
    "ready, ours: submit",
    "ready, ours: take back",
    "ready, ours: interrupt",
    "ready, part: take back",
    "busy, empty: end hang",
    "busy, ours: end hang",
    "busy, ours: take back",
    "busy, part: end hang",
    "busy, part: take back",
    "busy, unseen: end hang",
    "unknown, ours: take back",
    "unknown, part: take back",
}
CELLS = [*itertools.product(STATES, InputLine, Key)]


def name(state: type[State], line: InputLine, key: Key) -> str:
    return f"{state.__name__.lower()}, {line.value}: {key.value}"


@pytest.mark.parametrize(("state", "line", "key"), CELLS, ids=[name(*cell) for cell in CELLS])
def test_a_key_is_pressed_only_where_it_can_answer_nobody_and_spoil_no_words(
    state: type[State], line: InputLine, key: Key
) -> None:
    assert allowed(STATE[state], line, key) == (name(state, line, key) in ALLOWED)


@pytest.mark.parametrize(("state", "line", "key"), CELLS, ids=[name(*cell) for cell in CELLS])
def test_a_profile_that_wants_it_has_the_interrupt_at_the_empty_prompt_and_nothing_else(
    state: type[State], line: InputLine, key: Key
) -> None:
    wanted = ALLOWED | {"ready, empty: interrupt"}
    assert allowed(STATE[state], line, key, always=True) == (name(state, line, key) in wanted)


def test_nobodys_words_are_ours_unless_we_typed_them() -> None:
    profile = load_profile("codex")
    assert whose(None, profile) is InputLine.UNSEEN
    assert whose("", profile, LINE) is InputLine.EMPTY
    assert whose(LINE, profile) is InputLine.OTHERS
    assert whose(LINE.replace(" ", "\n"), profile, LINE) is InputLine.OURS
    for words in (LINE[:20], LINE[-20:], "[Pasted Content 1024 chars]", "a"):
        assert whose(words, profile, LINE) is InputLine.OTHERS
    for mixed in (f"please{LINE}", f"{LINE} please", LINE[:30] + "x" + LINE[30:]):
        assert whose(mixed, profile, LINE, sure=True) is InputLine.OTHERS


def test_what_we_have_just_typed_is_known_by_a_piece_of_it() -> None:
    profile = load_profile("codex")
    assert whose(LINE[:5], profile, LINE, sure=True) is InputLine.PART
    assert whose(LINE[9:40], profile, LINE, sure=True) is InputLine.PART
    assert whose(LINE[-20:], profile, LINE, sure=True) is InputLine.OURS
    assert whose("[Pasted Content 1024 chars]", profile, LINE, sure=True) is InputLine.OURS
    assert whose("please", profile, LINE, sure=True) is InputLine.OTHERS


def test_an_input_without_a_mark_of_its_own_is_found_by_its_region() -> None:
    table = {
        "input": {"region": r"^ *┃?\n(?P<text>(?: *\S.*\n)*) *\n *Build · .*\n *╹▀+"},
        "ready": [{"pattern": "commands", "assumed": "a box without a pointer"}],
    }
    profile = profile_of(table, "box")
    for typed in ("", "hello there"):
        said, box = (
            "  ┃\n  ┃  what was said\n  ┃\n\n     an answer\n\n",
            f"  ┃\n  ┃  {typed}\n  ┃\n  ┃  Build · model\n",
        )
        screen = f"{said}{box}  ╹▀▀▀▀▀▀▀\n commands"
        assert input_text(screen, profile) == typed
        assert "an answer" in transcript(screen, profile)
        assert "Build" not in transcript(screen, profile)
