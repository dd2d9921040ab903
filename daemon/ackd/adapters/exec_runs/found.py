"""Run directories as another daemon left them: which runs still live, and what the others came to.

Owns reading a spec back. Refuses to touch a process: a living run is only named, for the endpoint to adopt. Never fails
for what lies in a directory: one without a readable spec, held by no living run, never ran, and is removed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.adapters.exec_runs.run_files import lock_held, read_status
from ackd.adapters.exec_runs.verdict import verdict

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.events import Outcome


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run directory as another daemon left it.

    ``outcome`` is None while it is alive, and when it is dead without a word: unknown, to be offered again.
    """

    agent: str
    message_id: str
    name: str
    box: str
    digest: str
    attempt: int
    path: Path
    alive: bool
    outcome: Outcome | None
    detail: str
    started_at: float
    timeout_s: float


def scan_runs(runs_dir: Path) -> list[FoundRun]:
    """Every run there is. A directory without a readable spec, held by no living run, never ran: it is removed."""
    found = []
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        run = _found(path)
        if run is not None:
            found.append(run)
        elif not lock_held(path):
            shutil.rmtree(path, ignore_errors=True)
    return found


def discard_run(found: FoundRun) -> None:
    """Remove a finished run whose message is nobody's any more."""
    shutil.rmtree(found.path, ignore_errors=True)


def _found(path: Path) -> FoundRun | None:
    try:
        spec = json.loads((path / "spec.json").read_bytes())
        # The lock is asked first: a run that ends in between has then written its status.
        alive = lock_held(path)
        outcome, detail = (None, "running") if alive else verdict(path, read_status(path))
        return FoundRun(
            agent=str(spec["agent"]),
            message_id=str(spec["message_id"]),
            name=str(spec["name"]),
            box=str(spec["box"]),
            digest=str(spec["digest"]),
            attempt=int(spec["attempt"]),
            path=path,
            alive=alive,
            outcome=outcome,
            detail=detail,
            started_at=float(spec["started_at"]),
            timeout_s=float(spec["timeout_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
