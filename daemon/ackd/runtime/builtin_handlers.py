"""The agents that live inside the daemon: ``system`` answers questions about the team, ``queue_monitor`` takes replies.

Both are ordinary handlers with ordinary mail. A reply to an escalation is only received here: the engine closes the
escalation when the monitor has completed the reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.handlers import Refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.handlers import Context, Mail


class SystemHandler:
    """Answers ``status_check`` with the team's status, and refuses every other type."""

    def __init__(self, status: Callable[[], dict[str, object]]) -> None:
        self._status = status

    async def __call__(self, mail: Mail, ctx: Context) -> None:
        if mail.type != "status_check":
            raise Refuse(f"system answers status_check, not {mail.type}")
        await ctx.reply_automatically(type="message", body={"content": "status", **self._status()})


async def queue_monitor(mail: Mail, _ctx: Context) -> None:
    """Accept a reply, and do nothing with it: the engine closes the escalation that it replies to."""
    if mail.in_reply_to is None:
        raise Refuse("queue_monitor takes replies to its escalations; this is no reply (no In-Reply-To)")
