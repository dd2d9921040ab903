"""Names of agents: what a name may be, and when two spellings are one agent.

Names come from hostile text and become directories, so ``agent_name`` is the only way to make one. Fails with
``BadName``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Iterable

RESERVED_NAMES: Final = frozenset({"dead_letter", "corrupt", "processed"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: The sender of mail from ackd. Mail from it never leads to more mail (a null sender), or dead letters would never end.
MONITOR: Final = "queue_monitor"
USER: Final = "user"


def agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> str:
    """Return the name, proven harmless as a directory name."""
    if not _NAME.fullmatch(text):
        raise BadName(
            text, "a name is 1 to 64 letters, digits, dots, dashes or underscores, and starts with a letter or digit"
        )
    if text in reserved:
        raise BadName(text, "the name is reserved for ackd's own directories")
    return text


def is_agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> bool:
    """Return whether this could be a name, for callers that need no reason why not."""
    return _NAME.fullmatch(text) is not None and text not in reserved


def identity(name: str) -> str:
    """Return the form in which spellings of one agent are equal: ``ignitian-1`` and ``ignitian_1`` are the same."""
    return name.replace("-", "_")


def called(name: str, names: Iterable[str]) -> str | None:
    """Return which of the names this spelling means; None: none of them."""
    return next((one for one in names if identity(one) == identity(name)), None)


def dead_letter_recipient(recipient: str | None, to: str | None) -> str | None:
    """Name the agent that a dead letter was for, by its headers X-IGNITE-Recipient and To; None if they do not tell.

    ackd writes X-IGNITE-Recipient on every dead letter. A letter of another program's making may lack it, and then To
    counts if it names one agent only. Where To names several, nobody knows whose copy this is. Taking the first name
    was rejected: the message could go to an agent that has dealt with it already, while a letter that stays where it is
    can still be moved by hand.
    """
    return recipient or (to if to and "," not in to else None)
