"""What was completed over all sessions, when no daemon is there to tell.

Reads state/totals.json, which a daemon writes at its stop with the log and the offset up to which it has counted, and
counts the lines after that: none after a clean stop, one session's after a crash. Refuses to count the archive: what
its agent deleted, and what is older than archive_days, is not there. What cannot be read counts for nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from ackd.adapters import session_log

if TYPE_CHECKING:
    from pathlib import Path

#: The daemon's name for each end → the line that tells of one (runtime/memory.py).
_TOLD_BY: Final = {
    "completed": "message_completed",
    "withdrawn": "message_withdrawn",
    "duplicates": "message_duplicate",
}


def saved_totals(state_dir: Path, logs_dir: Path) -> dict[str, int] | None:
    """None where neither totals nor a log are."""
    saved, files = _read(state_dir / "totals.json"), session_log.session_files(logs_dir)
    if not saved and not files:
        return None
    totals = {name: _number(saved.get(name)) for name in _TOLD_BY}
    counted_log, offset = str(saved.get("log", "")), _number(saved.get("offset"))
    for path in files:
        if _age(path.name) < _age(counted_log):
            continue
        for line in session_log.read_lines(path, offset if path.name == counted_log else 0):
            for name, type_ in _TOLD_BY.items():
                totals[name] += line.type == type_
    return totals


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < 1 << 63 else 0


def _age(name: str) -> tuple[str, int]:
    """As text ``…-2.ndjson`` would come before ``….ndjson``, which is the older one."""
    found = re.fullmatch(r"session-(\d{8}-\d{6})(?:-(\d{1,9}))?\.ndjson", name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)
