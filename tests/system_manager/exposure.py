"""What `systemd-analyze security` says of a unit."""

from __future__ import annotations

import re
from typing import Final

#: The system unit's limit, of 10; less is better.
MOST_EXPOSED: Final = 3.5


def exposure(said: str) -> float:
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    return float(found[1])
