from __future__ import annotations

from ackd.core.effects import NudgeAgent, TellAgent
from ackd.core.events import NotTold, Told
from ackd.core.message import Folder, Message, Place, Priority
from ackd.endpoints.inbox.endpoint import PLACED, InboxEndpoint

MESSAGE = Message("1.1.a@ignite.local", "leader", "user", "message", Priority.NORMAL, "d")
PLACE = Place("user", Folder.PROCESSED, "message_1.mime")


async def test_telling_claims_no_more_than_that_it_was_placed() -> None:
    told = InboxEndpoint().tell(TellAgent("user", 7, MESSAGE, PLACE, 1))
    assert told == Told(7, PLACED, seen=False, attempt=1)


async def test_an_inbox_cannot_be_nudged_and_has_nothing_to_stop() -> None:
    inbox = InboxEndpoint()
    assert isinstance(await inbox.nudge(NudgeAgent("user", 7, MESSAGE, PLACE, 1)), NotTold)
    await inbox.stop(0)
