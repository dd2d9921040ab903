"""Redraws the state diagrams of daemon/README.md from the tables: ``make diagrams``."""

from __future__ import annotations

from pathlib import Path

from ackd.core.diagram import redraw

README = Path(__file__).parent.parent / "daemon" / "README.md"

if __name__ == "__main__":
    README.write_text(redraw(README.read_text(encoding="utf-8")), encoding="utf-8")
