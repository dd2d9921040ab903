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
from tests.house import Module, modules, types_in_quotes
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


def test_lines_are_made_by_the_constructors_of_their_types_alone() -> None:
    """A line that is made otherwise may have a type or a field that nobody declared."""
    makers = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if makes_facts(path)}
    assert makers == set()


def makes_facts(path: Path) -> bool:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func).rpartition(".")[2] == "Fact" for call in calls)


def test_who_reads_the_log_names_a_type_by_its_constructor() -> None:
    """A type in quotes would go on comparing when the type is renamed."""
    named = {module.name: types for module in modules(PACKAGE) if (types := types_in_quotes(module))}
    assert named == {}


@pytest.mark.parametrize(
    "text",
    [
        'if line.type == "message_told": pass',
        'found = [line for line in lines if line.type in ("message_told", other)]',
        'match type_:\n    case "message_told": pass',
        'self.services.record("message_told", {})',
        'OF_A_TRY = frozenset("message_told".split())',
        "find(containing=b'\"message_told\"')",
        'SHOWN = {message_seen.type, "message_told"}',
        'WORDS = {message_seen.type: "seen", "message_told": "told"}',
    ],
)
def test_a_type_in_quotes_is_seen(text: str, tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(text)
    assert types_in_quotes(Module("probe", path)) == ["message_told"]


def test_a_constructor_knows_its_type() -> None:
    assert message_told.type == "message_told"


def test_the_document_of_the_log_is_what_the_table_says() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make documents`"
