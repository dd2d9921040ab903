"""The list of tests that may be run twice: short, reasoned, and true."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import second_run

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
#: How many the list has. A test that is mended leaves it, and this number goes down with it; it never goes up.
MOST: Final = 17


def test_the_list_only_shrinks() -> None:
    assert len(second_run.named(second_run.NAMED.read_text())) <= MOST


def test_each_line_names_a_test_that_exists() -> None:
    for name in second_run.named(second_run.NAMED.read_text()):
        path, _, test = name.partition("::")
        assert test in set(_functions(HERE.parent / path)), name


def test_a_line_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no reason is given for tests/test_a\.py::test_b"):
        second_run.named("tests/test_a.py::test_b\n")


def test_only_what_the_list_names_may_be_run_again() -> None:
    reasons = second_run.named("# why\n\ntests/test_a.py::test_b # waits for another program\n")
    assert second_run.refused(["tests/test_a.py::test_b[one]", "tests/test_a.py::test_c"], reasons) == [
        "tests/test_a.py::test_c"
    ]


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        pytest.param('{"tests/test_a.py::test_b[one]": true}', 0, id="named"),
        pytest.param('{"tests/test_a.py::test_b": true, "tests/test_a.py::test_c": true}', 1, id="one is not named"),
        pytest.param("{}", 1, id="the run failed and no test did"),
        pytest.param(None, 1, id="the run noted nothing"),
    ],
)
def test_ci_runs_again_what_is_named_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: str | None, code: int
) -> None:
    monkeypatch.setattr(second_run, "NAMED", tmp_path / "second_run.txt")
    monkeypatch.setattr(second_run, "LAST_FAILED", tmp_path / "lastfailed")
    second_run.NAMED.write_text("tests/test_a.py::test_b # waits for another program\n")
    if failed is not None:
        second_run.LAST_FAILED.write_text(failed)
    assert second_run.main() == code


def _functions(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
