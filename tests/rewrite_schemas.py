"""Writes the JSON Schemas of the worker's language from its models: ``make schemas``."""

from __future__ import annotations

import json
from pathlib import Path

import ackd.endpoints.process.wire
from ackd.endpoints.process.wire.models import KINDS, schema

SCHEMAS = Path(ackd.endpoints.process.wire.__file__).parent / "schemas"


def pages() -> dict[str, str]:
    """File name → text."""
    return {f"{kind}.json": json.dumps(schema(kind), indent=2) + "\n" for kind in KINDS}


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in pages().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
