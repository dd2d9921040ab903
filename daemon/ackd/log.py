"""A session log for the programs of a team: one line of JSON per fact, from any number of processes. Public Python.

    log = NDJSONLogger()
    log.log_event("task_start", {"task_id": "task-001", "worker_id": 1})
    log.log_task_complete("task-001", 1, "success", duration_seconds=12.5)
    log.get_session_summary()

The file is ``session-<session id>.ndjson`` in ``log_dir``. By default that is the directory in ACKD_LOG_DIR, else
``log_dir`` in ``[ensemble]`` of the ackd.toml here or above, else ``.ensemble/logs`` in the current directory.
Processes with the same session id (given, or in ACKD_SESSION_ID) write one file. Without an id a new session begins,
and two that begin within a second are told apart by a number. The daemon's own log appears there as a link, through
which nothing is written.

Lines have the form of the daemon's own (storage/session_log), so that all our readers can read them. The seed's types
are ``EventType``. Any other type is written as it is, because a team may have facts of its own; readers show types that
they do not know key by key. Fails with ``BadSessionId`` and, if the disk refuses, with OSError.
"""

from __future__ import annotations

import enum
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.config.site import find_site, read_toml
from ackd.core.errors import BadConfig, TheirFault
from ackd.storage.session_log import append, begin_session, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["BadSessionId", "EventType", "NDJSONLogger", "default_log_dir"]

DEFAULT_LOG_DIR: Final = ".ensemble/logs"
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class EventType(enum.StrEnum):
    """The types of the seed (ensemble-v3, "NDJSON log")."""

    TASK_START = "task_start"
    TASK_COMPLETE = "task_complete"
    TASK_FAILED = "task_failed"
    WORKER_ASSIGN = "worker_assign"
    WORKER_RELEASE = "worker_release"
    REVIEW_START = "review_start"
    REVIEW_RESULT = "review_result"
    ESCALATION = "escalation"
    LOOP_DETECTED = "loop_detected"
    SESSION_START = "session_start"
    SESSION_END = "session_end"


_ENDS: Final = frozenset({EventType.TASK_COMPLETE, EventType.TASK_FAILED})
_FAILED: Final = frozenset({"failed", "error"})


class BadSessionId(TheirFault, ValueError):  # noqa: N818 - the tree names the condition
    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return f"{self.session_id!r} cannot be a session's id: letters, digits and ._- only, 100 at most"


class NDJSONLogger:
    """A logger. ``writer``: its name in each line, followed by the pid; by default ACKD_AGENT, else ``python``."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        writer: str | None = None,
    ) -> None:
        self.log_dir = Path(os.path.abspath(log_dir if log_dir is not None else default_log_dir()))  # noqa: PTH100
        wanted = session_id or os.environ.get("ACKD_SESSION_ID")
        self.session_id = _checked(wanted) if wanted else begin_session(self.log_dir, time.time())
        self.path = self.log_dir / f"session-{self.session_id}.ndjson"
        self._name = writer or os.environ.get("ACKD_AGENT") or "python"

    def log_event(self, type: str, data: Mapping[str, object] | None = None) -> None:  # noqa: A002 - the line's own word
        """Append a line; the kernel has all of it when this returns. Values that JSON cannot express are written as
        text."""
        append(self.path, self.session_id, f"{self._name}:{os.getpid()}", str(type), dict(data or {}))

    # --- the usual facts. Fields that are not known are left out: no line contains null
    def log_task_start(self, task_id: str, worker_id: str | int, files: Iterable[str] | None = None) -> None:
        self.log_event(EventType.TASK_START, {"task_id": task_id, "worker_id": worker_id, "files": list(files or ())})

    def log_task_complete(
        self, task_id: str, worker_id: str | int, status: str, duration_seconds: float | None = None
    ) -> None:
        took = {} if duration_seconds is None else {"duration_seconds": duration_seconds}
        data = {"task_id": task_id, "worker_id": worker_id, "status": status, **took}
        self.log_event(EventType.TASK_COMPLETE, data)

    def log_review_result(self, task_id: str, reviewer: str, result: str, findings_count: int = 0) -> None:
        data = {"task_id": task_id, "reviewer": reviewer, "result": result, "findings_count": findings_count}
        self.log_event(EventType.REVIEW_RESULT, data)

    def log_escalation(self, worker_id: str | int, phase: int, reason: str = "") -> None:
        self.log_event(EventType.ESCALATION, {"worker_id": worker_id, "phase": phase, "reason": reason})

    def log_loop_detected(self, task_id: str, iteration_count: int, max_iterations: int) -> None:
        data = {"task_id": task_id, "iteration_count": iteration_count, "max_iterations": max_iterations}
        self.log_event(EventType.LOOP_DETECTED, data)

    # --- what was written
    def get_log_path(self) -> Path:
        return self.path

    def read_events(self, event_type: str | None = None) -> list[dict[str, object]]:
        """Return the session's lines in order, of one type or of all; text that is no line of a log is passed over."""
        if not self.path.exists():
            return []
        return [
            {"timestamp": line.timestamp, "session_id": line.session_id, "type": line.type, "data": line.data}
            for line in read_lines(self.path)
            if event_type is None or line.type == str(event_type)
        ]

    def get_session_summary(self) -> dict[str, object]:
        """Sum up the tasks in the session's log. ``task_count``: tasks that have ended; ``duration_seconds``: from the
        first line until now."""
        lines = list(read_lines(self.path)) if self.path.exists() else []
        ended = [line for line in lines if line.type in _ENDS]
        failed = sum(line.type == EventType.TASK_FAILED or line.data.get("status") in _FAILED for line in ended)
        began = lines[0].at if lines else time.time()
        return {
            "session_id": self.session_id,
            "total_events": len(lines),
            "task_count": len({str(line.data["task_id"]) for line in ended if line.data.get("task_id")}),
            "success_count": sum(line.data.get("status") == "success" for line in ended),
            "failed_count": failed,
            "escalation_count": sum(line.type == EventType.ESCALATION for line in lines),
            "duration_seconds": max(0.0, time.time() - began),
        }


def default_log_dir() -> Path:
    """Return the directory of a logger that was given none."""
    if said := os.environ.get("ACKD_LOG_DIR"):
        return Path(said)
    try:
        site = find_site()
        table = read_toml(site.config_path).get("ensemble") if site.config_path is not None else None
    except BadConfig:  # no config, or a broken one, of which `ackd check` complains; logging goes on all the same
        return Path(DEFAULT_LOG_DIR)
    said = table.get("log_dir") if isinstance(table, dict) else None
    return site.base / said if isinstance(said, str) and said else Path(DEFAULT_LOG_DIR)


def _checked(session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise BadSessionId(session_id)
    return session_id
