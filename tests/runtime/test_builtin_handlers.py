"""The two agents inside the daemon, called as their endpoint calls them."""

from __future__ import annotations

import pytest

from ackd.core.message import Draft, Priority
from ackd.handlers import Context, Mail, Refuse
from ackd.runtime.builtin_handlers import SystemHandler, queue_monitor


def mail(kind: str, in_reply_to: str | None = None) -> Mail:
    return Mail("1.1.a@ignite.local", "leader", "system", kind, Priority.HIGH, "", in_reply_to=in_reply_to)


async def test_system_answers_a_status_check_with_the_status() -> None:
    written: list[Draft] = []

    async def write(draft: Draft) -> None:
        written.append(draft)

    asked = mail("status_check")
    await SystemHandler(lambda: {"totals": {"queued": 3}})(asked, Context("system", asked, write))
    (reply,) = written
    assert (reply.recipient, reply.in_reply_to, reply.type) == ("leader", asked.message_id, "message")
    assert dict(reply.body) == {"content": "status", "totals": {"queued": 3}}


async def test_system_refuses_what_is_no_question() -> None:
    async def write(draft: Draft) -> None:
        raise AssertionError(draft)

    other = mail("task_list")
    with pytest.raises(Refuse, match="not task_list"):
        await SystemHandler(dict)(other, Context("system", other, write))


async def test_the_monitor_takes_replies_only() -> None:
    async def write(draft: Draft) -> None:
        raise AssertionError(draft)

    reply = mail("message", in_reply_to="e@ignite.local")
    await queue_monitor(reply, Context("queue_monitor", reply, write))
    other = mail("message")
    with pytest.raises(Refuse, match="no reply"):
        await queue_monitor(other, Context("queue_monitor", other, write))
