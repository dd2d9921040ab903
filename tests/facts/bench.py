"""Lines of a log, about one message."""

from __future__ import annotations

import re
from typing import Any

from ackd.storage.session_log import Line

ID = "1763.42.ab12@ignite.local"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def line(type_: str, **data: Any) -> Line:
    return Line("2026-11-16T01:02:03.400000Z", "20261116-010000", 7, "daemon", type_, data, b"")


def about(**data: Any) -> dict[str, Any]:
    return {"message_id": ID, "agent": "builder", **data}
