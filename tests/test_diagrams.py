"""The pictures in the documents are the tables of the code."""

from __future__ import annotations

import re

import pytest

from ackd.core import availability, delivery
from tests.diagram import pictures, redraw
from tests.redraw_diagrams import DOCUMENTS


@pytest.mark.parametrize("name", pictures())
def test_a_document_shows_the_table_as_it_is(name: str) -> None:
    text = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    found = re.search(rf"<!-- diagram: {name} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert found, f"no document has a place for the picture {name!r}: put the two markers where it belongs"
    assert found[1] == pictures()[name], "the table has changed: redraw with `make diagrams` and read what changed"


def test_redrawing_changes_the_pictures_and_nothing_else() -> None:
    text = "before\n<!-- diagram: delivery -->\nold\n<!-- end -->\nafter <!-- end -->\n"
    redrawn = redraw(text)
    assert redrawn == text.replace("old", pictures()["delivery"])
    assert redraw(redrawn) == redrawn
    assert redraw("no markers") == "no markers"


def test_every_change_of_state_is_an_arrow() -> None:
    for name, table in (("delivery", delivery.TABLE), ("availability", availability.TABLE)):
        arrows = set(re.findall(r"^    (\w+) --> (\w+): ", pictures()[name], re.MULTILINE))
        for before, row in table.items():
            for cell in row.values():
                after = cell[0] if isinstance(cell, tuple) else cell
                assert before is after or (before.value, after.value) in arrows


def test_every_cell_is_in_the_table() -> None:
    rows = [line.split("|")[1:-1] for line in pictures()["delivery table"].splitlines()[2:]]
    filled = sum(bool(cell.strip()) for row in rows for cell in row[1:])
    assert filled == sum(len(row) for row in delivery.TABLE.values())
