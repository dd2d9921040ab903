"""Takes out of a restored root what belongs to the processes of the root that its backup was taken of.

A run that was not over is none of the restored root's: its command goes on for the original, or is dead. Its message
lies in the agent's hands and is offered again; no attempt is counted. A run that was over keeps its directory, because
its result decides the message, and the message is not worked on again.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ackd.endpoints.exec.run_files import read_status, verdict

if TYPE_CHECKING:
    from pathlib import Path


def let_go_of_processes(state_dir: Path) -> int:
    """Remove the directories of runs that were not over; return how many there were."""
    runs = [path for path in (state_dir / "runs").glob("*") if verdict(path, read_status(path))[0] is None]
    for path in runs:
        shutil.rmtree(path)
    return len(runs)
