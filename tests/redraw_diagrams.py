"""Redraw the state diagrams of the documents from the tables: ``make diagrams``."""

from __future__ import annotations

from pathlib import Path

from tests.diagram import redraw

#: The documents that have pictures: beside the tables that they are drawn from.
DOCUMENTS = tuple(
    Path(__file__).parents[1] / "daemon" / "ackd" / folder / "README.md"
    for folder in ("core", "coordination/board", "coordination/pipeline")
)

if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(redraw(document.read_text(encoding="utf-8")), encoding="utf-8")
