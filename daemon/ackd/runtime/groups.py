"""Mail to a group: what lies in the group's own queue is handed on to its members.

`ackd send` writes each member's copy itself. Everything else that knows one recipient only (a file that is dropped into
``queue/reviewers/``, an escalation, a gateway's mail) comes to the group's queue. There a group is like an agent: its
message is claimed, told and archived. To be told is to copy the message to each member; a copy keeps the Message-ID,
and names the members in place of the group.

The message completes when all copies are durable. A crash in between offers it again, and who has a copy gets no second
one: the engine knows what is in hand or was completed, and what lies on disk is looked at where a telling was begun
before. A member whose queue takes no file fails the telling, after the others have theirs; it is tried again as
everything is, and then dead, which is told of.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.config.groups import readers
from ackd.core import faults
from ackd.core.errors import BadMessage
from ackd.core.events import Hindered, NotTold, Told
from ackd.core.headers import NONE_OF_OURS
from ackd.core.ports import Endpoint
from ackd.core.words import DEADLINE, EXPIRES
from ackd.formats import ignite
from ackd.runtime.intake.copies import as_copy

if TYPE_CHECKING:
    from ackd.config.live import LiveConfig
    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.core.ports import TellAnswer
    from ackd.runtime.intake.copies import Copies
    from ackd.storage.spool import Spool

#: The delivery headers are the group's own; the times that its sender gave a message are everybody's.
_NOT_COPIED: Final = tuple((name, None) for name, _ in NONE_OF_OURS if name not in (EXPIRES, DEADLINE))


@dataclass(kw_only=True)
class Groups:
    """Makes the endpoints of groups. ``since``: wall time at which this daemon started."""

    config: LiveConfig
    spool: Spool
    copies: Copies
    since: float

    def endpoint(self, name: str) -> GroupEndpoint | None:
        """The endpoint of a group; None for an agent."""
        group = self.config.now.group_called(name)
        if group is None:
            return None
        return GroupEndpoint(group=group, around=self, members=self.config.now.group_members(group))


@dataclass(kw_only=True, eq=False)
class GroupEndpoint(Endpoint):
    group: str
    around: Groups
    #: Its members as last seen: a message that is being handed on while the group goes from the config still has them.
    members: tuple[str, ...] = ()
    #: Messages whose handing on was begun.
    _begun: set[int] = field(default_factory=set, init=False)

    async def tell(self, order: TellAgent) -> TellAnswer:
        around, config = self.around, self.around.config.now
        try:
            data = around.spool.read(order.place).data
            again = order.key in self._begun or self._may_be_elsewhere(order, data)
            copy = ignite.rewrite(data, (*_NOT_COPIED, *as_copy(data, config)))
        except (OSError, BadMessage) as error:
            hindered = isinstance(error, OSError) and faults.is_nobodys(error)
            why = f"could not be read: {error}"
            return (Hindered if hindered else NotTold)(order.key, why, attempt=order.attempt)
        self._begun.add(order.key)
        self.members = config.members_of(self.group) or self.members
        members = readers(self.members, order.message.sender)
        answers = await asyncio.gather(*(self._hand_on(member, order, copy, again=again) for member in members))
        failed = [answer for answer in answers if answer is not None]
        if not failed:
            proof = f"handed on to {', '.join(members)}"
            return Told(order.key, proof, seen=True, attempt=order.attempt)
        why = "; ".join(f"{error.filename or 'its queue'} takes no file: {error.strerror}" for error in failed)
        kind = NotTold if any(not faults.is_nobodys(error) for error in failed) else Hindered
        return kind(order.key, why, attempt=order.attempt)

    def _may_be_elsewhere(self, order: TellAgent, data: bytes) -> bool:
        """Say whether members may have the message although the engine does not know it: a daemon before this one began
        to hand it on, or it is a copy of what lies in somebody's queue."""
        is_copy = any(name.lower() == ignite.COPIES.lower() for name, _ in ignite.headers(data))
        return is_copy or self.around.spool.path(order.place).lstat().st_ctime < self.around.since

    async def _hand_on(self, member: str, order: TellAgent, data: bytes, *, again: bool) -> OSError | None:
        """Give one member its copy, unless it has it. Returns why that is impossible."""
        try:
            await self.around.copies.hand_on(member, order.message, order.place, data, may_have_it=again)
        except OSError as error:
            return error
        return None

    async def nudge(self, order: NudgeAgent) -> NotTold:
        return NotTold(order.key, "a group has no ladder", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        """Do nothing: what is handed on is handed on in a moment, or again by the next daemon."""

    def let_go(self, key: int) -> None:
        self._begun.discard(key)
