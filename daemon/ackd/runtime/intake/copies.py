"""Copies a message that was dropped into one queue by hand to the other recipients that it names.

`ackd send` writes a file for each recipient and says so in a header. A person who writes files may do the same, or may
think that naming the recipients is enough. So, after ``settle_s``, each other recipient is checked: whether it has or
had a file with the same Message-ID, or with the same From, type and body, in its queue, among the dead letters, in the
archive of the last days, or in the log. A copy keeps the id, so that the sender's own file is recognised as a duplicate
if it comes after all. A group that is named gets one copy, which it hands on. On a fault of the machine writing is
tried again until it succeeds; a queue that takes no file for another reason is logged.
"""

from __future__ import annotations

import datetime as dt
import errno
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.daemon_facts import io_error
from ackd.core.dedup import FRESH, Repeated
from ackd.core.errors import AmbiguousMessage, BadMessage, UnknownMessage
from ackd.core.faults import is_nobodys
from ackd.core.message import Folder, identity
from ackd.core.message_facts import message_copied, message_queued, message_warning
from ackd.formats import ignite
from ackd.storage import message_lookup, session_log
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.config.model import Config
    from ackd.core.message import Message, Place
    from ackd.core.ports import Services
    from ackd.core.state import EngineState
    from ackd.storage.message_lookup import FoundMessage
    from ackd.storage.spool import Spool

AGAIN_S: Final = 2.0
#: A disk that has failed may fail once: so often a copy is written before it is given up.
_TRIES: Final = 3
#: Days of the archive that are searched. Messages of earlier days are found in the log, by their ids.
_DAYS: Final = 2


@dataclass(kw_only=True)
class Copies:
    root: Path
    logs: Path
    spool: Spool
    state: EngineState
    services: Services
    called: Callable[[str], str | None]
    config: LiveConfig
    put: Callable[[str, str, bytes], Awaitable[Place]]

    async def make(self, message: Message, place: Place) -> bool:
        """Give the message to everyone it names, as far as possible. False if its file is not there any more."""
        try:
            data = self.spool.read(place).data
            copy = ignite.rewrite(data, ((ignite.COPIES, "all"),))
        except (OSError, BadMessage):
            return False
        for name in message.others:
            agent = self.called(name)
            if agent is None:
                self._warn(message, f"it names {name}, who is no agent here: nobody of that name gets it")
                continue
            # Nobody writes a file for a group and one for somebody else: the same words again are another message.
            same_words = not self.config.now.members_of(name)
            if agent != message.recipient and not await self._has(agent, message, data, same_words=same_words):
                await self._copy(agent, message, place, copy)
        return True

    async def hand_on(self, agent: str, message: Message, place: Place, data: bytes, *, may_have_it: bool) -> None:
        """Give an agent its copy of a message to a group, unless it has it: in hand, completed, or, if it may have been
        given one before, anywhere on disk. Another message of the same id does not count. Raises OSError."""
        name = self.called(agent) or agent
        state, of_id = self.state, self.state.deliveries.of_id(message.message_id, name)
        verdict = state.completed.verdict(message.message_id, name, message.digest, state.steady_wall)
        if isinstance(verdict, Repeated) or any(one.message.digest == message.digest for one in of_id):
            return
        if may_have_it and await in_thread(self._lies, name, message.message_id, data):
            return
        made = await self.put(name, message.type, data)
        self.services.record(message_copied(message_id=message.message_id, agent=name, file=str(made), of=str(place)))

    async def _copy(self, agent: str, message: Message, place: Place, data: bytes) -> None:
        for number in itertools.count(1):
            try:
                made = await self.put(agent, message.type, data)
            except OSError as error:
                self.services.record(io_error(what=f"copy of {place} for {agent}", error=str(error)))
                if not is_nobodys(error) and (error.errno != errno.EIO or number == _TRIES):
                    self._warn(message, f"it names {agent}, whose queue takes no file: {error}")
                    return
                await anyio.sleep(AGAIN_S)
            else:
                self.services.record(
                    message_copied(message_id=message.message_id, agent=agent, file=str(made), of=str(place))
                )
                return

    def _warn(self, message: Message, warning: str) -> None:
        self.services.record(message_warning(message_id=message.message_id, agent=message.recipient, warning=warning))

    # --- does a recipient have the message ----------------------------------------------------------------------------
    async def _has(self, agent: str, message: Message, data: bytes, *, same_words: bool) -> bool:
        """``same_words``: a message of another id that says the same counts, too."""
        known = self.state.completed.verdict(message.message_id, agent, message.digest, self.state.steady_wall)
        if known is not FRESH or self.state.deliveries.of_id(message.message_id, agent):
            return True
        while True:
            try:
                return await in_thread(self._was_there, agent, message.message_id, data, same_words)
            except OSError as error:  # a place that cannot be looked at proves no absence
                self.services.record(io_error(what=f"look for {message.message_id} with {agent}", error=str(error)))
                if not is_nobodys(error):  # waiting does not help; a second copy is recognised by its id
                    self._warn(message, f"nobody can see whether {agent} has it: it is copied all the same ({error})")
                    return False
                await anyio.sleep(AGAIN_S)

    def _was_there(self, agent: str, message_id: str, data: bytes, same_words: bool) -> bool:
        gist, most = ignite.gist(data), len(data) + ignite.MAX_HEADER_BYTES
        for one in self._lying(agent):
            if one.message_id == message_id:
                return True
            head = message_lookup.read_head(one.path, most) if same_words else None
            if head is not None and ignite.gist(head) == gist:
                return True
        return self._is_in_log(agent, message_id)

    def _lies(self, agent: str, message_id: str, data: bytes) -> bool:
        """Say whether a file with this id and content lies among the agent's mail, dealt with or not."""
        gist, most = ignite.gist(data), len(data) + ignite.MAX_HEADER_BYTES
        for one in self._lying(agent):
            if one.message_id == message_id:
                head = message_lookup.read_head(one.path, most)
                if head is not None and ignite.gist(head) == gist:
                    return True
        return False

    def _lying(self, agent: str) -> Iterator[FoundMessage]:
        live = (Folder.QUEUE, Folder.PROCESSED, Folder.DEAD)
        yield from message_lookup.in_folders(self.root, live, agent)
        now = dt.datetime.fromtimestamp(self.services.clock.now().wall, dt.UTC)
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
            if line.type == message_queued.type and line.data.get("message_id") == message_id
        )
        return any(isinstance(name, str) and identity(name) == wanted for name in whose)


def as_copy(data: bytes, config: Config) -> tuple[tuple[str, str], ...]:
    """The headers by which a copy differs from the message: everyone has one; in To and Cc the members stand in place
    of a group, each once; and whoever sends parts to a group hears when all have ended, unless the message says."""
    fields = ignite.headers(data)
    changes = [(ignite.COPIES, "all")]
    named: set[str] = set()
    of_group = False
    for header, value in fields:
        if header.lower() not in ("to", "cc"):
            continue
        before = ignite.names(value)
        after = [one for name in before for one in (config.members_of(name) or (name,))]
        new = [one for one in dict.fromkeys(after) if identity(one) not in named]
        named.update(map(identity, new))
        of_group = of_group or any(config.members_of(name) for name in before)
        if new and before != new:
            changes.append((header, ", ".join(new)))
    has = {header.lower() for header, _ in fields}
    if of_group and ignite.PART_OF.lower() in has and ignite.NOTIFY.lower() not in has:
        changes.append((ignite.NOTIFY, "yes"))
    return tuple(changes)
