"""Deleting a capability's folder deletes the capability, and nothing else.

Each test copies the package, deletes one capability with everything that requires it (folder, registry line, public
module), and shows that what is left imports, passes `ackd check` and delivers a message with a real daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from ackd.coordination.registry import CAPABILITIES
from tests.acceptance.teams import Team
from tests.deleting import assert_checks, assert_imports, copy_without, with_dependents

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = [one.name for one in CAPABILITIES]


def test_each_capability_stands_below_those_it_requires() -> None:
    for place, one in enumerate(CAPABILITIES):
        assert set(one.requires) <= set(NAMES[:place])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_without_a_capability_imports_checks_and_delivers(name: str, tmp_path: Path) -> None:
    gone = with_dependents({name})
    copy = copy_without(gone, (), tmp_path / "copy")
    team = Team(tmp_path / "team", '[agents.builder]\nendpoint = "exec"\ncommand = ["sh", "-c", "cat > delivered"]')
    team.extra_env["PYTHONPATH"] = str(copy)
    assert_imports(copy, team)
    assert_checks(team)
    assert commands_of(gone) & listed(team) == set()
    team.start()
    sent = team.ackd("send", "builder", "--body", "hello", "--wait", "completed", "--timeout", "30")
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert (tmp_path / "team/delivered").exists()
    assert team.stop() == 0
    assert team.facts("session_end") != []


def commands_of(names: set[str]) -> set[str]:
    return {command for one in CAPABILITIES if one.name in names for command in one.commands}


def listed(team: Team) -> set[str]:
    """The commands that `ackd --help` names."""
    shown = team.ackd("--help").stdout.split("Commands:\n", 1)[1].split("\n\n", 1)[0]
    return {line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2] != " "}
