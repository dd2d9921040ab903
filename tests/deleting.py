"""A copy of the package without some capabilities and endpoint kinds, and what shows that the rest of it works.

A capability or a kind is deleted with its folder, its line of the registry and its public module.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from ackd.coordination.registry import CAPABILITIES
from tests.test_layers import PACKAGE, PUBLIC

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from tests.acceptance.teams import Team

#: Imports every module of the package, except what runs when it is imported, and those that are named.
IMPORT_ALL: Final = """
import importlib, pathlib, sys
package = pathlib.Path(sys.argv[1]) / "ackd"
for path in sorted(package.rglob("*.py")):
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
    if path.name != "__main__.py" and "demo_team" not in path.parts and name not in sys.argv[2:]:
        assert str(package) in importlib.import_module(name).__file__
"""


def with_dependents(names: Collection[str]) -> set[str]:
    """These capabilities, and those that require one of them."""
    gone = set(names)
    for one in CAPABILITIES:  # a capability stands below those that it requires
        if gone & set(one.requires):
            gone.add(one.name)
    return gone


def copy_without(capabilities: Collection[str], kinds: Collection[str], place: Path) -> Path:
    """Copy the package without these, and return the directory that holds the copy."""
    package = place / "ackd"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (*(f"coordination/{name}" for name in capabilities), *(f"endpoints/{kind}" for kind in kinds)):
        shutil.rmtree(package / folder)
    for module, (_, folder) in PUBLIC.items():
        if folder in capabilities:
            (package / f"{module}.py").unlink()
    for name, gone in (("coordination/registry.py", capabilities), ("endpoints/registry.py", kinds)):
        registry = package / name
        registry.write_text(_without_lines(registry.read_text(), gone))
    return place


def _without_lines(source: str, gone: Collection[str]) -> str:
    """The registry without the lines of these capabilities or kinds."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Capability":
            (name,) = (word.value for word in node.keywords if word.arg == "name")
            if ast.literal_eval(name) in gone:
                _blank(lines, node.lineno, node.end_lineno)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                is_kind = isinstance(value, ast.Call) and ast.unparse(value.func) == "Kind"
                if is_kind and key is not None and ast.literal_eval(key) in gone:
                    _blank(lines, key.lineno, value.end_lineno)
    return "".join(lines)


def _blank(lines: list[str], first: int, last: int | None) -> None:
    assert last is not None
    lines[first - 1 : last] = [""] * (last - first + 1)


def assert_imports(copy: Path, team: Team, *, but: Collection[str] = ()) -> None:
    """Assert that every module of the copy can be imported, but these."""
    words = [sys.executable, "-c", IMPORT_ALL, str(copy), *but]
    imported = subprocess.run(words, env=team.environment, capture_output=True, text=True, check=False)
    assert imported.stderr == ""


def assert_checks(team: Team) -> None:
    checked = team.ackd("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
