"""What is put on the command line of an agent that ackd starts."""

from __future__ import annotations

import pytest

from ackd.dialects.screen import load_profile, started_with

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
