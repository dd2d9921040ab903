"""The agents that live inside the daemon: ``system`` answers questions about the team, ``queue_monitor`` hears replies.

Ordinary handlers with ordinary mail. What makes a reply to an escalation close it is the engine, when the monitor has
completed it; here it is only received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.handlers import Refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.handlers import Context, Mail


class SystemHandler:
    """``status_check`` → a reply with the team's status. Anything else is not for it."""

    def __init__(self, status: Callable[[], dict[str, object]]) -> None:
        self._status = status

    async def __call__(self, mail: Mail, ctx: Context) -> None:
        if mail.type != "status_check":
            raise Refuse(f"system answers status_check, not {mail.type}")
        await ctx.reply_automatically(type="message", body={"content": "status", **self._status()})


async def queue_monitor(mail: Mail, _ctx: Context) -> None:
    """Receipt is all: the engine closes the escalation that this mail replies to."""
    if mail.in_reply_to is None:
        raise Refuse("queue_monitor takes replies to its escalations; this is no reply (no In-Reply-To)")
