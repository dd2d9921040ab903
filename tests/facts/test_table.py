"""The table of facts: constructors that make lines, one declaration for each type, and the document made from them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ackd.core import fact as fact_module
from ackd.core.fact import Fact, declared_in, fact
from ackd.core.message_facts import COUNTED, message_queued, message_told
from ackd.facts import table
from ackd.facts.table import FACTS
from tests.session_log_document import DOCUMENT, document

PACKAGE = Path(__file__).parents[2] / "daemon" / "ackd"


def test_a_constructor_makes_the_line_of_its_name() -> None:
    made = message_told(message_id="1.2.ab@x", agent="builder", attempt=1, proof="child started")
    data = {"message_id": "1.2.ab@x", "agent": "builder", "attempt": 1, "proof": "child started"}
    assert made == Fact("message_told", data)


def test_what_is_unknown_is_left_out_and_from_is_written_without_its_underscore() -> None:
    made = message_queued(message_id="1", agent="a", from_="b", message_type="t", file="f", priority=None, task_id=None)
    assert made.data == {"message_id": "1", "agent": "a", "from": "b", "message_type": "t", "file": "f"}


def test_no_type_is_declared_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "DECLARING", (*table.DECLARING, __name__))
    with pytest.raises(TypeError, match="two folders declare the fact message_told"):
        table._assembled()


@fact("told", "→", fact_module.CYAN, lambda _: "again")
def _message_told() -> None: ...


_message_told.declares = FACTS["message_told"]._replace(kind="other")  # type: ignore[attr-defined]


def test_a_module_declares_what_it_decorates() -> None:
    assert [row.kind for row in declared_in({"one": _message_told, "other": 3})] == ["other"]


def test_only_facts_about_messages_count_for_totals() -> None:
    assert {row.type: row.counts for row in FACTS.values() if row.counts} == COUNTED


def test_no_fact_is_recorded_by_a_name_in_quotes() -> None:
    """Who writes a line calls its constructor. A type as text is only for what is read from the disk and written again."""
    by_name = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if recorded_by_name(path)}
    assert by_name == set()


def recorded_by_name(path: Path) -> bool:
    recorders = {"record", "_record", "RecordFact", "Fact"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if name in recorders and isinstance(first, ast.Constant) and first.value in FACTS:
                return True
    return False


def test_the_document_of_the_log_is_what_the_table_says() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make documents`"
