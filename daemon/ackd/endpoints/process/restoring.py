"""Takes out of a restored root what belongs to the processes of the root that its backup was taken of.

The records of children say which processes a start has to end, because their daemon was killed. Those of the original
must not be ended: its daemon may still run.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def let_go_of_processes(state_dir: Path) -> int:
    """Remove the records of children; return how many there were."""
    children = state_dir / "children"
    count = len(list(children.glob("*"))) if children.is_dir() else 0
    shutil.rmtree(children, ignore_errors=True)
    return count
