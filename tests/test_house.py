"""The figures of ``make house``, on a package small enough to count by hand; and the walk, on the real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.house import (
    CAPABILITIES,
    PACKAGE,
    Module,
    class_names,
    collaborators,
    docstrings,
    fed_from_tuples,
    figures,
    functions_in_two_modules,
    imported_from,
    importers,
    is_subjectless,
    modules,
    of_capability,
    room_of,
)
from tests.house_walk import walk

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "__init__.py": "",
    "site.py": "from ackd.core import engine\n\nclass Site:\n    'What it is.'\n",
    "core/__init__.py": "from ackd.core.engine import Engine\n",
    "core/engine.py": ("class Engine:\n    'The engine.'\n    def __init__(self, a, b, *, c):\n        'Its parts.'\n"),
    "coordination/leases/room.py": (
        "from dataclasses import dataclass\n"
        "import ackd.core.engine\n"
        "import ackd.site\n"
        "@dataclass\nclass Site:\n    one: int\n    other: int\n    third: int = 0\n"
        "def make(both):\n    return Site(*both, 3), both\n"
    ),
}


@pytest.fixture
def small(tmp_path: Path) -> list[Module]:
    for name, text in FILES.items():
        path = tmp_path / "ackd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return modules(tmp_path / "ackd")


def test_modules_are_named_and_lie_in_rooms(small: list[Module]) -> None:
    assert {module.name: module.room for module in small} == {
        "": "ackd",
        "core": "core",
        "core.engine": "core",
        "coordination.leases.room": "coordination",
        "site": "ackd",
    }
    assert room_of(small[0].path) == "ackd"


def test_an_importer_is_counted_once_and_a_folders_init_not_at_all(small: list[Module]) -> None:
    assert importers(small) == {
        "core.engine": {"site", "coordination.leases.room"},
        "site": {"coordination.leases.room"},
    }


def test_names_constructors_and_docstrings(small: list[Module]) -> None:
    assert class_names(small) == {"Site": 2, "Engine": 1}
    assert collaborators(small) == {"site.Site": 0, "core.engine.Engine": 3, "coordination.leases.room.Site": 2}
    assert fed_from_tuples(small) == ["coordination.leases.room:10"]
    assert [text for text in docstrings(small) if is_subjectless(text)] == ["Its parts.", "What it is."]
    assert [module.name for module in of_capability(small, "leases")] == ["coordination.leases.room"]


def test_who_imports_a_capability_is_named_by_folder(small: list[Module]) -> None:
    assert imported_from(small, [module for module in small if module.name == "site"]) == ["leases"]
    assert imported_from(small, of_capability(small, "leases")) == []


def test_a_function_that_stands_in_two_modules_is_named_whatever_it_is_called_there(tmp_path: Path) -> None:
    body = (
        '    "{}"\n    found = [one for one in names if one.startswith(name)]\n    return found[0] if found else None\n'
    )
    texts = {
        "one": f"def called(names, name):\n{body.format('Say it.')}",
        "other": f"def _found(names, name):\n{body.format('In other words.')}\ndef small():\n    return None\n",
        "third": "def small():\n    return None\n",
    }
    small = []
    for name, text in texts.items():
        path = tmp_path / "ackd" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        small.append(Module(name, path))
    assert functions_in_two_modules(small) == [["one.called", "other._found"]]


def test_no_function_of_ours_stands_in_two_modules() -> None:
    assert functions_in_two_modules(modules(PACKAGE)) == []


def test_records_are_no_collaborators(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(
        "@value\nclass One:\n    a: int\n@dataclass(frozen=True)\nclass Other:\n    b: int\nclass Third: pass"
    )
    assert collaborators([Module("probe", path)]) == {"probe.Third": 0}


def test_the_table_has_a_row_for_each_thing_that_was_measured_when_the_rooms_were_planned() -> None:
    rows = {row.what: row.now for row in figures(modules(PACKAGE))}
    assert rows["a new endpoint kind changes, beside its own files"] == "endpoints/registry.py"
    assert rows["a new front door changes, beside its own files"] == "no file"
    assert rows["types of log lines"] == "one table; in quotes 0 in 0 modules"
    assert rows["constructors fed from tuples"] == "0 calls"
    assert {f"{name} lies in" for name in CAPABILITIES} <= rows.keys()


def test_a_message_walks_through_the_rooms_of_a_real_daemon() -> None:
    walked = walk()
    assert walked.functions > walked.modules > 10
    assert walked.changes > 10
