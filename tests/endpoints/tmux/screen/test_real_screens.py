"""Every screen that ``make captures`` has taken reads as what it is: each capture has a row here, or a test fails.

A row says the state and, where that can be typed into, what stands on the input line.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from ackd.endpoints.tmux.screen import (
    Busy,
    InputLine,
    Key,
    Limit,
    Mark,
    Menu,
    Prompt,
    Reading,
    Ready,
    State,
    Unknown,
    allowed,
    answered,
    classify,
    compact,
    input_text,
    load_profile,
    mark,
    read,
    steady,
    whose,
)
from tests.real_clis.captures import HELD, LINE, SHORT_LINE
from tests.real_clis.releases import RELEASES

CAPTURES: Final = Path(__file__).parent / "captures"
NIGHT: Final = datetime(2026, 11, 18, 3, 50).astimezone().timestamp()
SIZES: Final = ("40x12", "60x15", "80x24")

READY: Final = {
    "claude": "ready answered ctrl-c-draft ctrl-c line-submitted interrupt-queued after-clear after-interrupt after-mcp after-menus"
    " permission-refused plan-mode error-400 error-401 error-429 error-500 error-529 error-context status-line context",
    "codex": "ready answered ctrl-c-draft line-submitted after-interrupt permission-refused after-clear context"
    " error-400 error-401 error-500 error-503",
    "gemini": "ready ready-60 answered line-submitted after-interrupt permission-refused after-clear context error-400 error-401"
    " menu-permissions",
    "opencode": "ready-home answered line-submitted after-interrupt permission-refused after-new",
}
TYPED: Final = {
    "claude": {
        "typed": "hello there",
        "draft": "and a second row\nof a person's own words",
        "line-typed": LINE,
        "interrupt-taken-back": HELD,
    },
    "codex": {"typed": "hello there", "draft": "a first row\nand a person's second", "line-typed": LINE},
    "gemini": {"typed": "hello there", "line-typed": LINE, "one-burst": "one burst", "after-escape": "and more"},
    "opencode": {
        "typed-home": "hello there",
        "typed": "and a person's words",
        "line-typed": LINE,
    },
}
BUSY: Final = {
    "claude": "busy busy-typed busy-queued busy-tool error-retrying status-line-busy",
    "codex": "busy busy-typed",
    "gemini": "busy busy-typed",
    "opencode": "busy",
}
PROMPTS: Final = {
    "claude": {
        "permission-bash": "Bash: touch made-by-claude",
        "permission-write": "Do you want to create new.txt?",
        "permission-read": "Read file: Read(/etc/hostname)",
        "permission-fetch": "Fetch: url: https://example.org/ prompt: what is there",
        "40x12-permission": "Do you want to proceed?",
        "60x15-permission": "rm -rf ./build",
        "80x24-permission": "Bash: rm -rf ./build",
        "ask-user-question": "Which colour?",
        "plan-approval": "Exit plan mode?",
        "dialog-auto-mode": "Make auto mode your default permission mode?",
        "dialog-key": "Do you want to use this API key?",
        "dialog-trust": "Quick safety check: Is this a project you created or one you trust?",
    },
    "codex": {
        "permission": "command: rm -rf ./build",
        "40x12-permission": "Would you like to run the following command?",
        "60x15-permission": "command: rm -rf ./build",
        "80x24-permission": "command: rm -rf ./build",
        "dialog-trust": "Trust this folder?",
    },
    "gemini": {
        "permission": "Shell: rm -rf ./build",
        "permission-60": "Shell: touch made.txt",
        "permission-write": "Apply this change?",
        **{f"{size}-permission": "Shell: rm -rf ./build" for size in SIZES},
        "trust": "Do you trust the files in this folder?",
    },
    "opencode": {
        "permission": "Shell: rm -rf ./build",
        "80x24-permission": "Shell: rm -rf ./build",
    },
}
MENUS: Final = {
    "claude": "dialog-bypass escape-escape slash-menu slash-clear menu-config menu-help menu-hooks menu-login menu-memory"
    " menu-model menu-permissions menu-resume menu-status menu-theme",
    "codex": "dialog-hooks dialog-login escape-escape slash-menu menu-agents menu-experimental menu-hooks menu-keymap"
    " menu-model menu-permissions menu-plugins menu-resume menu-skills menu-statusline menu-theme",
    "gemini": "auth escape-escape ctrl-c slash-menu slash-clear menu-auth menu-editor menu-model menu-resume menu-settings"
    " menu-theme",
    "opencode": "slash-menu menu-commands menu-commands-in-session menu-models",
}
LIMITS: Final = {"claude": "error-credit", "codex": "limit", "gemini": "limit limit-at after-limit", "opencode": ""}
PROGRAMS: Final = tuple(RELEASES)
#: So small a pane shows only the end of the long line, or not even its input line's mark.
CUT: Final = {("claude", "40x12"), ("claude", "60x15"), ("codex", "40x12"), ("gemini", "40x12")}
#: opencode draws one part of its first screen over another in smaller ones.
SIZED: Final = [(program, size) for program in PROGRAMS for size in SIZES if program != "opencode" or size == "80x24"]


def shown(program: str, name: str) -> str:
    return (CAPTURES / RELEASES[program].label / f"{name}.txt").read_text()


def reading(program: str, name: str) -> Reading:
    command = "node" if RELEASES[program].by_node else program
    return read(shown(program, name), load_profile(program), NIGHT, command)


def rows(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(program, name) for program, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("program", "name"), rows(READY))
def test_it_waits_for_a_line_and_nobodys_words_stand_there(program: str, name: str) -> None:
    found = reading(program, name)
    assert (found.state, found.typed) == (Ready(), "")
    assert found.is_idle


@pytest.mark.parametrize(
    ("program", "name", "text"), [(program, *row) for program, of in TYPED.items() for row in of.items()]
)
def test_words_on_the_input_line_are_read_and_nothing_is_typed_into_them(program: str, name: str, text: str) -> None:
    found = reading(program, name)
    assert found.state == Ready()
    assert found.typed is not None
    assert compact(found.typed) == compact(text)
    assert not found.is_idle
    assert not allowed(found.state, whose(found.typed, load_profile(program), LINE), Key.TEXT)


@pytest.mark.parametrize(("program", "name"), rows(BUSY))
def test_it_works(program: str, name: str) -> None:
    assert isinstance(reading(program, name).state, Busy)


@pytest.mark.parametrize(
    ("program", "name", "text"), [(program, *row) for program, of in PROMPTS.items() for row in of.items()]
)
def test_it_asks_and_what_it_asks_is_quoted(program: str, name: str, text: str) -> None:
    assert reading(program, name).state == Prompt(text)


@pytest.mark.parametrize(
    ("program", "name"), [(program, name) for program in ("claude", "gemini", "opencode") for name in PROMPTS[program]]
)
def test_a_question_leaves_no_input_line_and_what_was_said_is_not_taken_for_one(program: str, name: str) -> None:
    """Otherwise a line whose turn asks a question at once would seem to stand there still, and be told a second
    time."""
    assert reading(program, name).typed is None


@pytest.mark.parametrize(("program", "name"), rows(MENUS))
def test_a_menu_is_no_input_line(program: str, name: str) -> None:
    assert isinstance(reading(program, name).state, Menu)


@pytest.mark.parametrize(("program", "name"), rows(LIMITS))
def test_a_limit_is_one(program: str, name: str) -> None:
    assert isinstance(reading(program, name).state, Limit)


def test_codex_says_when_its_limit_ends() -> None:
    limit = reading("codex", "limit").state
    assert isinstance(limit, Limit)
    assert limit.until is not None


@pytest.mark.parametrize(("program", "size"), SIZED)
def test_a_small_pane_is_read_and_our_short_line_in_it(program: str, size: str) -> None:
    assert reading(program, f"{size}-ready").is_idle
    assert isinstance(reading(program, f"{size}-busy").state, Busy)
    typed = reading(program, f"{size}-short-line-typed")
    assert typed.state == Ready()
    assert whose(typed.typed, load_profile(program), SHORT_LINE) is InputLine.OURS
    for name in ("short-line-submitted", "line-submitted"):
        assert reading(program, f"{size}-{name}").is_idle
    long = reading(program, f"{size}-line-typed")
    assert not long.is_idle
    if (program, size) not in CUT:
        assert whose(long.typed, load_profile(program), LINE) is InputLine.OURS


@pytest.mark.parametrize(
    ("program", "name", "used"),
    [
        ("claude", "context", 0.98),
        ("claude", "status-line", 0.42),
        ("claude", "status-line-busy", 0.42),
        ("codex", "context", 0.58),
        ("opencode", "answered", 0.01),
    ],
)
def test_it_says_how_full_its_context_is(program: str, name: str, used: float) -> None:
    assert reading(program, name).context_usage == pytest.approx(used)


def test_gemini_says_how_full_its_context_is() -> None:
    used = reading("gemini", "context").context_usage
    assert used is not None
    assert used > 0.4


@pytest.mark.parametrize(
    ("program", "name", "turns"),
    [
        ("claude", "busy", "Tip"),
        ("claude", "error-retrying", "attempt"),
        ("codex", "busy", "Working"),
        ("gemini", "busy", "Thinking"),
    ],
)
def test_what_only_says_that_it_is_busy_is_no_sign_of_life(program: str, name: str, turns: str) -> None:
    profile, screen = load_profile(program), shown(program, name)
    other = "\n".join(row.replace(turns, "Other") for row in screen.splitlines())
    assert other != screen.rstrip("\n")
    assert turns not in steady(screen, profile)
    assert steady(other, profile) == steady(screen, profile)
    assert steady(shown(program, "answered"), profile) != steady(screen, profile)


# --- whether a line was answered
ANSWERED: Final = [
    *((program, "line-submitted") for program in ("claude", "codex", "gemini")),
    *(("claude", f"{size}-short-line-submitted") for size in SIZES),
    *(("codex", f"{size}-short-line-submitted") for size in SIZES[1:]),  # in smaller ones the line is out of view
    *(("gemini", f"{size}-short-line-submitted") for size in SIZES[2:]),
]


@pytest.mark.parametrize(("program", "name"), ANSWERED)
def test_a_turn_that_is_over_was_seen_by_what_stands_below_the_line(program: str, name: str) -> None:
    profile, line = load_profile(program), SHORT_LINE if "short" in name else LINE
    before = mark(shown(program, name.replace("submitted", "typed")), line, profile)
    assert before == Mark()
    assert answered(mark(shown(program, name), line, profile), before, profile)


TROUBLE: Final = [
    ("claude", "error-429", "try error-429"),
    ("claude", "error-500", "try error-500"),
    ("claude", "error-401", "try error-401"),
    ("claude", "error-credit", "try error-credit"),
    ("claude", "error-retrying", "try it again and again"),
    ("codex", "limit", "try limit"),
    ("codex", "error-503", "try error-503"),
    ("codex", "after-interrupt", HELD),
    ("codex", "busy", HELD),
    ("gemini", "error-400", "try error-400"),
    ("gemini", "after-interrupt", HELD),
]


@pytest.mark.parametrize(("program", "name", "line"), TROUBLE)
def test_an_error_a_limit_an_interrupt_and_a_spinner_are_no_answer(program: str, name: str, line: str) -> None:
    profile = load_profile(program)
    found = mark(shown(program, name), line, profile)
    assert found.times == 1
    assert not answered(found, Mark(), profile)


# --- all of it
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_capture_has_a_row(program: str) -> None:
    there = {path.stem for path in (CAPTURES / RELEASES[program].label).glob("*.txt")}
    sizes = {f"{size}-{name}" for of, size in SIZED if of == program for name in POSES}
    named = {name for table in (READY, BUSY, MENUS, LIMITS) for name in table[program].split()}
    assert there == named | set(TYPED[program]) | set(PROMPTS[program]) | sizes


POSES: Final = "ready busy line-typed line-submitted short-line-typed short-line-submitted permission".split()


def test_what_of_claude_is_assumed_needs_an_account() -> None:
    assumed = [
        one.assumed for patterns in load_profile("claude").patterns().values() for one in patterns if one.assumed
    ]
    assert len(assumed) == 1
    assert "needs an account" in assumed[0]


@pytest.mark.parametrize(
    "said",
    [
        "❯ /clear",
        "❯ 1. Yes",
        "● Do you want to proceed?\n  ❯ 1. Yes",
        "● it says Esc to cancel",
        "  ❯ a list of my own",
        "● Context limit reached · /compact or /clear to continue",
        "✻ Cooked for 3s · done 3:40 AM",
    ],
)
def test_what_was_said_above_the_input_line_of_claude_is_not_taken_for_what_it_shows(said: str) -> None:
    screen = shown("claude", "answered").replace("● All done.", said)
    assert said in screen
    found = classify(screen, load_profile("claude"), NIGHT, "claude")
    assert (found, input_text(screen, load_profile("claude"))) == (Ready(), "")


def test_a_screen_of_nothing_but_its_logo_is_not_typed_into() -> None:
    screen = shown("claude", "ready").partition("────")[0]
    assert isinstance(classify(screen, load_profile("claude"), NIGHT, "claude"), Unknown)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_screen_takes_long(program: str) -> None:
    """Screens hold text of anybody, so no pattern may take time that grows faster than the text."""
    rule, dashes = "─" * 120, "╌" * 120
    hostile: list[State] = []
    began = time.process_time()
    for row in (
        rule,
        dashes,
        f"{rule}\n❯\u00a0x",
        f" Bash command\n{dashes}",
        "❯ 1. a?",
        " hello",
        "✻ a…",
        "Do you want to?",
        "\n",
    ):
        hostile.append(classify("\n".join([row] * 400), load_profile(program), NIGHT, program))
        input_text("\n".join([row] * 400), load_profile(program))
    assert len(hostile) == 9
    assert time.process_time() - began < 2
