"""Deleting a capability's folder deletes the capability, and nothing else.

Each test copies the package, deletes one capability with everything that requires it (folder, registry line, public
module), and shows that what is left imports, passes `ackd check` and delivers a message with a real daemon.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from ackd.coordination.registry import CAPABILITIES
from tests.acceptance.teams import Team
from tests.test_layers import PACKAGE, PUBLIC

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = [one.name for one in CAPABILITIES]

#: Imports every module of the package, except what runs when it is imported.
IMPORT_ALL: Final = """
import importlib, pathlib, sys
package = pathlib.Path(sys.argv[1]) / "ackd"
for path in sorted(package.rglob("*.py")):
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
    if path.name != "__main__.py" and "demo_team" not in path.parts:
        assert str(package) in importlib.import_module(name).__file__
"""


def with_dependents(name: str) -> set[str]:
    gone = {name}
    for one in CAPABILITIES:  # a capability stands below those that it requires
        if gone & set(one.requires):
            gone.add(one.name)
    return gone


def copy_without(gone: set[str], place: Path) -> Path:
    """Copy the package without these capabilities, and return the directory that holds the copy."""
    package = place / "ackd"
    shutil.copytree(PACKAGE, package)
    for name in gone:
        shutil.rmtree(package / "coordination" / name)
    for module, (_, folder) in PUBLIC.items():
        if folder in gone:
            (package / f"{module}.py").unlink()
    registry = package / "coordination/registry.py"
    registry.write_text(without_lines(registry.read_text(), gone))
    return place


def without_lines(source: str, gone: set[str]) -> str:
    """The registry without the lines of these capabilities."""
    lines = source.splitlines(keepends=True)
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Capability":
            (name,) = (word.value for word in call.keywords if word.arg == "name")
            if ast.literal_eval(name) in gone:
                assert call.end_lineno is not None
                lines[call.lineno - 1 : call.end_lineno] = [""] * (call.end_lineno - call.lineno + 1)
    return "".join(lines)


def test_each_capability_stands_below_those_it_requires() -> None:
    for place, one in enumerate(CAPABILITIES):
        assert set(one.requires) <= set(NAMES[:place])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_without_a_capability_imports_checks_and_delivers(name: str, tmp_path: Path) -> None:
    gone = with_dependents(name)
    copy = copy_without(gone, tmp_path / "copy")
    team = Team(tmp_path / "team", '[agents.builder]\nendpoint = "exec"\ncommand = ["sh", "-c", "cat > delivered"]')
    team.extra_env["PYTHONPATH"] = str(copy)
    imported = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(copy)], env=team.environment, capture_output=True, text=True, check=False
    )
    assert imported.stderr == ""
    checked = team.ackd("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
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
