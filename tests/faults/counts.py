"""How much the tests of faults do: little in CI, all of it by ``make faults``.

``ACKD_FAULTS=full`` is read when a test module is imported, before the tests' environment is cleaned.
"""

from __future__ import annotations

import os
from typing import Final

_FULL: Final = os.environ.get("ACKD_FAULTS", "") == "full"


def full() -> bool:
    return _FULL


def pick(ci: int, full: int) -> int:
    """``full`` of them when everything is asked for, else ``ci``."""
    return full if _FULL else ci
