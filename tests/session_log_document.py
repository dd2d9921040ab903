"""The document of the session log's format, made from the table of facts: ``make documents`` writes it."""

from __future__ import annotations

import importlib
import inspect
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from ackd.facts.table import FACTS

if TYPE_CHECKING:
    from ackd.core.fact import FactType

DOCUMENT = Path(__file__).parents[1] / "docs" / "session-log.md"

BEGINNING = """\
# The session log

Everything that happens is one line of JSON in `logs/session-YYYYMMDD-HHMMSS.ndjson` below the root (`.ackd/`):

```json
{"timestamp": "2026-11-16T01:15:23.123456Z", "session_id": "20261116-011523", "seq": 1, "writer": "daemon", "type": "message_told", "data": {"message_id": "…", "agent": "builder", "attempt": 1, "proof": "…"}}
```

`timestamp` is UTC; `seq` counts the lines of one writer in one session. A line is appended whole. `ackd tail`,
`ackd explain` and `ackd status` read it. Below are all types of lines and the fields of their `data`. A field in *italics* may be
absent, which means unknown or no; no field is ever null. Readers must pass over types and fields that they do not know.
`tests/session_log_document.py` makes this page from the code.
"""


def document() -> str:
    parts = [BEGINNING]
    for module, rows in itertools.groupby(FACTS.values(), key=lambda row: row.declared.__module__):
        title = inspect.getdoc(importlib.import_module(module)) or module
        parts.append(f"\n## {title.splitlines()[0].rstrip('.').removeprefix('The facts about ').capitalize()}\n\n")
        parts.append("| type | written when | fields |\n|---|---|---|\n")
        parts.extend(map(_row, rows))
    return "".join(parts)


def _row(row: FactType) -> str:
    when = " ".join((inspect.getdoc(row.declared) or "").replace("``", "`").split())
    marks = "".join(f" Counted as `{row.counts}` in `state/totals.json`." if row.counts else "")
    return f"| `{row.type}` | {when}{marks} | {', '.join(_fields(row))} |\n"


def _fields(row: FactType) -> list[str]:
    found = []
    for name, parameter in inspect.signature(row.declared).parameters.items():
        key = f"`{name.removesuffix('_')}`"
        kind = str(parameter.annotation).removesuffix(" | None").replace("|", "or")
        words = f"{key} {_KINDS.get(kind, kind)}"
        found.append(words if parameter.default is inspect.Parameter.empty else f"*{words}*")
    return found


_KINDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "true",
    "list[str]": "list of texts",
    "list[int]": "list of integers",
    "Mapping[str, int]": "object of integers",
    "Mapping[str, str]": "object of texts",
    "list[Mapping[str, Any]]": "list of objects",
    "list[dict[str, object]]": "list of objects",
}


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(), encoding="utf-8")
