"""Count what was completed over all sessions, when no daemon runs that could tell.

A daemon saves its totals in state/totals.json when it stops, with the log and the offset up to which it has counted.
Lines after that are counted here: none after a clean stop, one session's after a crash. The archive is not counted,
because messages that their agent deleted, or that are older than archive_days, are not in it. A file that cannot be
read counts for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.message_facts import COUNTED
from ackd.storage import session_log
from ackd.storage.json_state import load_or_empty

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.storage.log_index import LogSearch


def saved_totals(state_dir: Path, logs: LogSearch) -> dict[str, int] | None:
    """Return the totals; None where there are neither saved totals nor a log."""
    saved, files = load_or_empty(state_dir / "totals.json"), session_log.session_files(logs.logs_dir)
    if not saved and not files:
        return None
    counted_log, offset = str(saved.get("log", "")), _number(saved.get("offset"))
    since = session_log.age_order(counted_log)
    uncounted = (path for path in files if session_log.age_order(path.name) >= since)
    starts = {path: offset if path.name == counted_log else 0 for path in uncounted}
    found = logs.counts(COUNTED, starts)
    return {name: _number(saved.get(name)) + found[type_] for type_, name in COUNTED.items()}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < 1 << 63 else 0
