"""`ackd help`: the same pages as `--help`, under the name that a newcomer types."""

from __future__ import annotations

from typing import Any

import pytest

Team = Any  # conftest.py's: test files do not import each other


@pytest.mark.parametrize("words", [[], ["send"], ["dead"], ["dead", "list"], ["help"]])
def test_help_prints_the_page_of_the_command_that_is_named(team: Team, words: list[str]) -> None:
    page = team.ackd(*words, "--help").stdout
    assert page.startswith("Usage: ackd")
    assert team.ackd("help", *words).stdout == page
    assert team.json("help", *words) == {"help": page.removesuffix("\n")}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sned"], "no command 'sned': did you mean `send`?"),
        (["dead", "lits"], "no command 'lits': did you mean `list`?"),
    ],
)
def test_help_for_a_command_that_does_not_exist_is_wrong_usage(team: Team, words: list[str], says: str) -> None:
    result = team.ackd("help", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
