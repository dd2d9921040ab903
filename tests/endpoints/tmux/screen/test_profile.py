"""Profiles as data: their problems, building one on another, and the command that starts an agent."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.endpoints.tmux.screen import SHIPPED, BadProfile, load_profile, started_with

LEAST: dict[str, Any] = {"input": {"marker": "^> "}, "ready": [{"pattern": "^>", "assumed": "mine"}]}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_load_and_never_quit_what_they_interrupt(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.interrupt.keys.count("C-c") <= 1  # a second one quits codex, claude and gemini


def test_a_users_own_needs_little() -> None:
    profile = load_profile("mine", {"mine": LEAST})
    assert profile.submit.tries == ("Enter", "Enter", "CR")
    assert profile.reset.type == "/clear"


def test_a_users_own_may_build_on_a_shipped_one_and_replace_it() -> None:
    own = {"claude": {"like": "claude", "submit": {"tries": ["CR"], "pause_s": 1}}}
    profile = load_profile("claude", own)
    assert profile.submit.tries == ("CR",)
    assert profile.prompt == load_profile("claude").prompt


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({"ready": []}, "ready"),
        ({"ready": [{"pattern": "(", "assumed": "x"}]}, "pattern: no regular expression"),
        ({"ready": [{"pattern": "x"}]}, "say how it is known"),
        ({"submit": {"tries": ["Enter; kill-server"]}}, "not the name of a key"),
        ({"reset": {"type": "/clear\n"}}, "pressed as keys, not typed"),
        ({"reste": {}}, "reste: unknown key `reste`: did you mean `reset`?"),
        ({"line": "short"}, "line: must be 'read' or 'path'"),
        ({"interrupt": {"wenn": 1}}, "interrupt.wenn: unknown key `wenn`"),
        ({"like": "emacs"}, "like: is one of claude, codex, gemini, opencode, shell"),
    ],
)
def test_what_is_wrong_is_said(differs: dict[str, Any], said: str) -> None:
    with pytest.raises(BadProfile, match="profile mine") as caught:
        load_profile("mine", {"mine": LEAST | differs})
    assert said in str(caught.value)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadProfile, match="claude, codex, gemini, mine, opencode, shell"):
        load_profile("cloude", {"mine": LEAST})


# --- the command that starts an agent ---------------------------------------------------------------------------------
OFF = "-c features.daemon_auto_start=false"


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("codex", f"codex {OFF}"),
        ("codex resume --last", f"codex {OFF} resume --last"),
        ("exec codex -m x", f"exec codex {OFF} -m x"),
        ("/usr/local/bin/codex", f"/usr/local/bin/codex {OFF}"),
        ("CODEX_HOME='/a b' LANG=C codex", f"CODEX_HOME='/a b' LANG=C codex {OFF}"),
        ('exec env -i A="$A" codex', f'exec env -i A="$A" codex {OFF}'),
    ],
)
def test_codex_that_ackd_starts_has_an_app_server_of_its_own(command: str, started: str) -> None:
    assert started_with(command, load_profile("codex")) == started
    assert started_with(started, load_profile("codex")) == started


@pytest.mark.parametrize(
    "command",
    [
        "./start-codex.sh",
        "codex-wrapper",
        "cd x && codex",
        "codex --enable daemon_auto_start",
        "echo codex",
        "A=1;codex",
    ],
)
def test_a_command_that_is_something_else_or_has_settled_it_is_left_alone(command: str) -> None:
    assert started_with(command, load_profile("codex")) == command


def test_others_are_started_as_they_are_written() -> None:
    assert started_with("claude --continue", load_profile("claude")) == "claude --continue"
