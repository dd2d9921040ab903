"""Who can have an address: the names of agents.

Owns what a name may be and when two spellings are one agent. Names come from hostile text and become directories, so
``agent_name`` is the only way to make one. Fails with ``BadName``.
"""

from __future__ import annotations

import re
from typing import Final

from ackd.core.errors import BadName

RESERVED_NAMES: Final = frozenset({"dead_letter", "corrupt", "processed"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: Who speaks for ackd itself. Mail from it never causes mail (a null sender), or dead letters would breed.
MONITOR: Final = "queue_monitor"
USER: Final = "user"


def agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> str:
    """The name itself, proven harmless as a directory name."""
    if not _NAME.fullmatch(text):
        raise BadName(
            text, "a name is 1 to 64 letters, digits, dots, dashes or underscores, and starts with a letter or digit"
        )
    if text in reserved:
        raise BadName(text, "the name is reserved for ackd's own directories")
    return text


def is_agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> bool:
    """For those who only pass over what is no name, where ``agent_name`` would say why."""
    return _NAME.fullmatch(text) is not None and text not in reserved


def identity(name: str) -> str:
    """What makes two spellings one agent: ``ignitian-1`` and ``ignitian_1`` are the same."""
    return name.replace("-", "_")
