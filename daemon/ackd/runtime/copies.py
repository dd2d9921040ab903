"""A message that somebody dropped into one queue by hand, and that names others too: each of them gets a file of it.

`ackd send` writes one for each and says so in a header. Who writes files may do the same, or think that naming them is
enough: so it is looked, after ``settle_s``, whether each of them has or had it, by its Message-ID, or by the same From,
type and body; in the queues, among the dead letters, in the archive of these days, in the log. Copies keep the id, so
that whatever comes after all is recognised. Refuses to know when it is asked (intake.py). Tried until it is written; a
queue that takes no file is said.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters import message_lookup, session_log
from ackd.core.dedup import FRESH
from ackd.core.errors import AmbiguousMessage, BadMessage, UnknownMessage
from ackd.core.faults import is_nobodys
from ackd.core.message import Folder, identity
from ackd.dialects import ignite
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from ackd.adapters.message_lookup import Found
    from ackd.adapters.spool import Spool
    from ackd.core.desk import Desk
    from ackd.core.message import Message, Place
    from ackd.ports import Clock

AGAIN_S: Final = 2.0
#: Older days of the archive are not read for the sake of a copy; the log tells of ids from before.
_DAYS: Final = 2


@dataclass
class Copies:
    root: Path
    logs: Path
    spool: Spool
    desk: Desk
    clock: Clock
    called: Callable[[str], str | None]
    put: Callable[[str, str, bytes], Awaitable[Place]]
    record: Callable[[str, dict[str, object]], None]

    async def make(self, message: Message, place: Place) -> bool:
        """True when everyone whom it names has it, as far as that can be. False: it is not there any more."""
        try:
            data = self.spool.read(place).data
            copy = ignite.rewrite(data, ((ignite.COPIES, "all"),))
        except (OSError, BadMessage):
            return False
        for name in message.others:
            agent = self.called(name)
            if agent is None:
                self._warn(message, f"it names {name}, who is no agent here: nobody of that name gets it")
            elif agent != message.recipient and not await self._has(agent, message, data):
                await self._copy(agent, message, place, copy)
        return True

    async def _copy(self, agent: str, message: Message, place: Place, data: bytes) -> None:
        while True:
            try:
                made = await self.put(agent, message.type, data)
            except OSError as error:
                self.record("io_error", {"what": f"copy of {place} for {agent}", "error": str(error)})
                if not is_nobodys(error):
                    self._warn(message, f"it names {agent}, whose queue takes no file: {error}")
                    return
                await anyio.sleep(AGAIN_S)
            else:
                about: dict[str, object] = {"message_id": message.message_id, "agent": agent}
                self.record("message_copied", {**about, "file": str(made), "of": str(place)})
                return

    def _warn(self, message: Message, warning: str) -> None:
        about: dict[str, object] = {"message_id": message.message_id, "agent": message.recipient}
        self.record("message_warning", {**about, "warning": warning})

    # --- who has it ---------------------------------------------------------------------------------------------------
    async def _has(self, agent: str, message: Message, data: bytes) -> bool:
        known = self.desk.completed.verdict(message.message_id, agent, message.digest, self.desk.steady)
        if known is not FRESH or self.desk.book.of_id(message.message_id, agent):
            return True
        while True:
            try:
                return await in_thread(self._was_there, agent, message.message_id, data)
            except OSError as error:  # what cannot be looked at is not absent
                self.record("io_error", {"what": f"look for {message.message_id} with {agent}", "error": str(error)})
                if not is_nobodys(error):  # waiting mends nothing; one that it has is known again by its id
                    self._warn(message, f"nobody can see whether {agent} has it: it is copied all the same ({error})")
                    return False
                await anyio.sleep(AGAIN_S)

    def _was_there(self, agent: str, message_id: str, data: bytes) -> bool:
        gist, most = ignite.gist(data), len(data) + ignite.MAX_HEADER_BYTES
        for one in self._lying(agent):
            if one.message_id == message_id:
                return True
            head = message_lookup.read_head(one.path, most)
            if head is not None and ignite.gist(head) == gist:
                return True
        return self._is_in_log(agent, message_id)

    def _lying(self, agent: str) -> Iterator[Found]:
        live = (Folder.QUEUE, Folder.PROCESSED, Folder.DEAD)
        yield from message_lookup.in_folders(self.root, live, agent)
        now = dt.datetime.fromtimestamp(self.clock.now().wall, dt.UTC)
        since = (now - dt.timedelta(days=_DAYS)).strftime("%Y%m%d")
        for one in message_lookup.in_folders(self.root, (Folder.ARCHIVE,), agent):
            if one.path.parent.parent.name < since:  # the newest day comes first
                return
            yield one

    def _is_in_log(self, agent: str, message_id: str) -> bool:
        try:
            lines = session_log.find_message_lines(self.logs, message_id)
        except (UnknownMessage, AmbiguousMessage):
            return False
        wanted = identity(agent)
        whose = (
            line.data.get("agent")
            for line in lines
            if line.type == "message_queued" and line.data.get("message_id") == message_id
        )
        return any(isinstance(name, str) and identity(name) == wanted for name in whose)
