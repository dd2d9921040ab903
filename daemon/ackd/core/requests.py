"""What a person may ask of an agent, and who has no answer to it.

Owns which endpoints have nothing to start, stop or wake, and the words for that: they stand on a terminal and in the
log. Refuses to know how a request travels and who carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.words import ReceiptKind

if TYPE_CHECKING:
    from collections.abc import Mapping

K = ReceiptKind

#: Requests that need something living behind the endpoint.
NEED_A_LIFE: Final = frozenset({K.START, K.STOP, K.RESTART, K.NUDGE})

#: What an endpoint is, where nothing lives behind it, and what to use instead.
_LIFELESS: Final[Mapping[str, tuple[str, str]]] = {
    "exec": ("its command is started for every message", "`ackd agent pause {}` holds its mail back"),
    "inbox": ("whoever reads it looks by itself", "`ackd inbox {}` shows what waits"),
    "handler": ("it runs inside the daemon", "`ackd agent pause {}` holds its mail back"),
}


def refusal(kind: ReceiptKind, agent: str, endpoint: str) -> str | None:
    """Why the request means nothing to an agent of that endpoint; None if it means something."""
    if kind not in NEED_A_LIFE or endpoint not in _LIFELESS:
        return None
    what, instead = _LIFELESS[endpoint]
    wake = "wake" if kind is K.NUDGE else kind.value
    return f"nothing to {wake}: {endpoint}, {what}; {instead.format(agent)}"
