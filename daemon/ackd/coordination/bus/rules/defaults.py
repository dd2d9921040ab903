"""The defaults of times in the table [bus]: for its settings, and for commands, which do not load the settings."""

from __future__ import annotations

from typing import Final

HEARTBEAT_TIMEOUT_S: Final = 600
LEASE_S: Final = 1800
