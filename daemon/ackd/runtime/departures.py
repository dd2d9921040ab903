"""Files that went: whether their agents deleted them, which completes, or something else happened to them.

Owns the proof: still absent after ``settle_s``, same directory, found nowhere else, and the directory is not being
emptied. ``rm -rf`` of a large queue takes longer than any file may take to settle, and only its end tells it from an
agent that deletes one file after the other: so what leaves a directory in one go is judged together, when nothing has
left it for ``settle_s``. An agent that never pauses is not kept waiting for longer than ``IN_ONE_GO_S``. What a person
moved into another agent's queue was completed by nobody, and is served there.

Refuses to know why a directory went (intake).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.lowlevel

from ackd.core import events
from ackd.core.delivery import MOVING
from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place, identity
from ackd.dialects import ignite

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from ackd.adapters.spool import Spool
    from ackd.core.book import Book, Delivery
    from ackd.core.message import Message
    from ackd.ports import Clock, Post
    from ackd.syscalls import Birth

IN_ONE_GO_S: Final = 30.0
#: Files judged between two breaths of the loop.
SLICE: Final = 64


class Doorkeeper(Protocol):
    """Who knows the directories, and reads what turns up elsewhere."""

    boxes: dict[str, tuple[Birth, Birth] | None]

    def is_losing(self, box: str) -> bool: ...

    def lose_box(self, box: str) -> None: ...

    def came(self, place: Place, *, closed: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Missed:
    at: float
    #: Of its directory as that was last seen whole: another one has lost it, its agent has not deleted it.
    births: tuple[Birth, Birth] | None


@dataclass
class _Exodus:
    """What is leaving one box, oldest first."""

    box: str
    settle_s: float
    missed: dict[Place, _Missed] = field(default_factory=dict)
    quiet_at: float = 0.0

    def add(self, place: Place, missed: _Missed) -> None:
        self.missed.pop(place, None)
        self.missed[place] = missed
        self.quiet_at = missed.at + self.settle_s

    def ready(self, now: float) -> list[Place]:
        """All of it once nothing more leaves; else what has waited too long."""
        if now >= self.quiet_at:
            return list(self.missed)
        return [place for place, missed in self.missed.items() if now >= self._too_long(missed)]

    def wait_s(self, now: float) -> float:
        return max(0.0, min(self.quiet_at, self._too_long(next(iter(self.missed.values())))) - now)

    def _too_long(self, missed: _Missed) -> float:
        return missed.at + max(IN_ONE_GO_S, self.settle_s)


@dataclass
class Departures:
    spool: Spool
    book: Book
    clock: Clock
    post: Post
    tasks: TaskGroup
    settle_s: float
    door: Doorkeeper
    _leaving: dict[str, _Exodus] = field(default_factory=dict)

    def left(self, place: Place, *, told: bool) -> None:
        """``told``: by a hint, which may be about our own rewriting of the file. Found missing again is no news."""
        known = self.book.at(place)
        # Where a move of ours is under way, its answer says what became of the file.
        if known is None or known.state in MOVING or (told and not self.spool.is_gone(place)):
            return
        exodus = self._leaving.get(place.box)
        if exodus is not None and place in exodus.missed and not told:
            return
        if exodus is None:
            exodus = self._leaving[place.box] = _Exodus(place.box, self.settle_s)
            self.tasks.start_soon(self._judge, exodus, name=f"gone from {place.box}")
        exodus.add(place, _Missed(self.clock.now().mono, self.door.boxes.get(place.box)))

    async def _judge(self, exodus: _Exodus) -> None:
        while exodus.missed:
            await anyio.sleep(exodus.wait_s(self.clock.now().mono))
            for number, place in enumerate(exodus.ready(self.clock.now().mono)):
                if number % SLICE == SLICE - 1:
                    await anyio.lowlevel.checkpoint()
                self._prove_gone(place, exodus.missed.pop(place))
        del self._leaving[exodus.box]

    # --- moved into another agent's queue -----------------------------------------------------------------------------
    def moved_here(self, event: events.Arrived) -> list[Place]:
        """Where a message that came into a queue it is not addressed to has just left another. The kernel tells of the
        leaving first, so that nobody is looked for who is not leaving."""
        if not self._leaving:
            return []
        gone = [one.place for one in self._elsewhere(event.message) if self.spool.is_gone(one.place)]
        return gone if gone and self._is_not_addressed(event.place, event.message.recipient) else []

    def _elsewhere(self, message: Message) -> list[Delivery]:
        """The same message, of other agents: copies that its sender made, or one that was moved."""
        others = (agent for agent in self.book.agents if agent != message.recipient)
        found = (one for agent in others for one in self.book.of_id(message.message_id, agent))
        on_its_way = (Folder.QUEUE, Folder.PROCESSED)
        return [one for one in found if one.message.digest == message.digest and one.place.folder in on_its_way]

    def _is_not_addressed(self, place: Place, agent: str) -> bool:
        """Whether its headers name others only: so it was not its sender who put it there."""
        try:
            fields = ignite.split_head(self.spool.head(place)).fields
        except (OSError, BadMessage):
            return False
        names = f"{fields.get('to', '')},{fields.get('cc', '')}".split(",")
        return identity(agent) not in {identity(name.strip()) for name in names}

    def _given_to_another(self, place: Place) -> Place | None:
        gone = self.book.at(place)
        if gone is None:
            return None
        later = (one for one in self._elsewhere(gone.message) if one.met_at >= gone.met_at)
        return next((one.place for one in later if self._is_not_addressed(one.place, one.agent)), None)

    # --- proof --------------------------------------------------------------------------------------------------------
    def _prove_gone(self, place: Place, missed: _Missed) -> None:
        if self.book.at(place) is None or not self.spool.is_gone(place) or self.door.is_losing(place.box):
            return  # with the whole directory: that is not its agent's word
        try:
            births = self.spool.births(place.box)
        except OSError:
            return  # it cannot be seen: the next scan misses the file again
        if births != missed.births:
            self.door.lose_box(place.box)
            return
        if (moved_to := self._given_to_another(place)) is not None:
            self.post(events.Vanished(place, moved_to=moved_to))
            return
        other = Folder.QUEUE if place.folder is Folder.PROCESSED else Folder.PROCESSED
        elsewhere = Place(place.box, other, place.name)
        if self.spool.exists(elsewhere) and self.book.at(elsewhere) is None:
            self.post(events.Vanished(place, moved_to=elsewhere))
            self.door.came(elsewhere, closed=True)
        else:
            self.post(events.Vanished(place))
