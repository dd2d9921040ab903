"""Lets a child that is written in Python find ``ackd.worker``, whichever Python runs it.

ackd may be a tool of its own (pipx, uv), of which the worker's Python knows nothing. So each child gets a directory at
the end of its PYTHONPATH that offers ``ackd.worker`` and nothing else (worker/on_pythonpath). It hides nothing: an ackd
that is installed for that Python is taken first, and what the user put on the PYTHONPATH stays before it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFERED: Final = Path(__file__).parents[3] / "worker" / "on_pythonpath"


def with_worker_sdk(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with ``ackd.worker`` on its PYTHONPATH. A directory with a colon in its name cannot be."""
    own = str(OFFERED)
    if os.pathsep in own:
        return dict(environment)
    given = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": f"{given}{os.pathsep}{own}" if given else own}
