"""Writes the JSON Schemas of the worker's language from its models: ``make schemas``."""

from __future__ import annotations

import json
from pathlib import Path

import ackd.dialects.worker_json
from ackd.dialects.worker_json.models import KINDS, schema

SCHEMAS = Path(ackd.dialects.worker_json.__file__).parent / "schemas"


def pages() -> dict[str, str]:
    """File name → text."""
    return {f"{kind}.json": json.dumps(schema(kind), indent=2) + "\n" for kind in KINDS}


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in pages().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
