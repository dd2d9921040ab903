"""Requests of a person to an agent (start, stop, nudge …), and the answer of endpoints to which they mean nothing.

The answer stands on a terminal and in the log.
"""

from __future__ import annotations

from typing import Final

from ackd.core.words import ReceiptKind

K = ReceiptKind

#: Requests that need something living behind the endpoint.
NEED_A_LIFE: Final = frozenset({K.START, K.STOP, K.RESTART, K.NUDGE})


def refusal(kind: ReceiptKind, agent: str, endpoint: str, lifeless: tuple[str, str] | None) -> str | None:
    """Say why the request means nothing to an agent of that kind of endpoint; None if it means something.

    ``lifeless``: of a kind behind which nothing lives: what it is, and what to use instead (``endpoints.registry``).
    """
    if kind not in NEED_A_LIFE or lifeless is None:
        return None
    what, instead = lifeless
    wake = "wake" if kind is K.NUDGE else kind.value
    return f"nothing to {wake}: {endpoint}, {what}; {instead.format(agent)}"
