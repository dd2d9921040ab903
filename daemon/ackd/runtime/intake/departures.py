"""Decides about files that disappeared: their agent deleted them, which completes the message, or something else did.

A file counts as deleted by its agent if it is still absent after ``settle_s``, its directory is the same as before, the
file is found nowhere else, and the directory is not being emptied. ``rm -rf`` of a large queue takes longer than
``settle_s``, and only its end tells it from an agent that deletes one file after the other. So files that leave a
directory in one go are judged together, when nothing has left it for ``settle_s``. An agent that never pauses is not
kept waiting for longer than ``IN_ONE_GO_S``.

A file that a person moved into another agent's queue was not completed: it is served there. Why a whole directory
disappeared is the intake's question.
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
from ackd.formats import ignite

if TYPE_CHECKING:
    from ackd.config.live import LiveConfig
    from ackd.core.message import Message
    from ackd.core.ports import Services
    from ackd.core.state import Deliveries, Delivery
    from ackd.storage.spool import Spool
    from ackd.system.syscalls import Birth

IN_ONE_GO_S: Final = 30.0
#: Files judged before the event loop is given a turn.
SLICE: Final = 64


class QueueDirectories(Protocol):
    """The queue directories as the intake knows them, and its reading of files that turn up elsewhere."""

    boxes: dict[str, tuple[Birth, Birth] | None]

    def is_losing(self, box: str) -> bool: ...

    def lose_box(self, box: str) -> None: ...

    def came(self, place: Place, *, closed: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Missed:
    at: float
    #: The directory as last seen. If the directory itself was replaced, the file is lost, not completed.
    births: tuple[Birth, Birth] | None


@dataclass
class _Leaving:
    """Files that are leaving one box, oldest first."""

    box: str
    settle_s: float
    missed: dict[Place, _Missed] = field(default_factory=dict)
    quiet_at: float = 0.0

    def add(self, place: Place, missed: _Missed) -> None:
        self.missed.pop(place, None)
        self.missed[place] = missed
        self.quiet_at = missed.at + self.settle_s

    def ready(self, now: float) -> list[Place]:
        """Return all files once nothing more leaves the box; else those that have waited too long."""
        if now >= self.quiet_at:
            return list(self.missed)
        return [place for place, missed in self.missed.items() if now >= self._too_long(missed)]

    def wait_s(self, now: float) -> float:
        return max(0.0, min(self.quiet_at, self._too_long(next(iter(self.missed.values())))) - now)

    def _too_long(self, missed: _Missed) -> float:
        return missed.at + max(IN_ONE_GO_S, self.settle_s)


@dataclass(kw_only=True)
class Departures:
    spool: Spool
    deliveries: Deliveries
    services: Services
    config: LiveConfig
    directories: QueueDirectories
    _leaving: dict[str, _Leaving] = field(default_factory=dict)

    def left(self, place: Place, *, told: bool) -> None:
        """Note that a known file is gone, to be judged when the box is quiet.

        ``told``: a hint said so. It may be about our own rewriting of the file, so the disk is looked at first. Without
        a hint, a file that was already missed is not noted again.
        """
        known = self.deliveries.at(place)
        # Where a move of ours is under way, its answer says what became of the file.
        if known is None or known.state in MOVING or (told and not self.spool.is_gone(place)):
            return
        leaving = self._leaving.get(place.box)
        if leaving is not None and place in leaving.missed and not told:
            return
        if leaving is None:
            leaving = self._leaving[place.box] = _Leaving(place.box, self.config.now.watch.settle_s)
            self.services.tasks.start_soon(self._judge, leaving, name=f"gone from {place.box}")
        leaving.add(place, _Missed(self.services.clock.now().mono, self.directories.boxes.get(place.box)))

    async def _judge(self, leaving: _Leaving) -> None:
        while leaving.missed:
            await anyio.sleep(leaving.wait_s(self.services.clock.now().mono))
            for number, place in enumerate(leaving.ready(self.services.clock.now().mono)):
                if number % SLICE == SLICE - 1:
                    await anyio.lowlevel.checkpoint()
                self._prove_gone(place, leaving.missed.pop(place))
        del self._leaving[leaving.box]

    # --- moved into another agent's queue -----------------------------------------------------------------------------
    def moved_here(self, event: events.Arrived) -> list[Place]:
        """Return the places that a message has just left, if it came into a queue that it is not addressed to.

        The kernel reports the departure first, so without departures there is nothing to look for.
        """
        if not self._leaving:
            return []
        gone = [one.place for one in self._elsewhere(event.message) if self.spool.is_gone(one.place)]
        return gone if gone and self._is_not_addressed(event.place, event.message.addressee) else []

    def _elsewhere(self, message: Message) -> list[Delivery]:
        """List the same message of other agents: copies that its sender made, or one that was moved."""
        others = (agent for agent in self.deliveries.agents if agent not in (message.recipient, message.addressee))
        found = (one for agent in others for one in self.deliveries.of_id(message.message_id, agent))
        on_its_way = (Folder.QUEUE, Folder.PROCESSED)
        return [one for one in found if one.message.digest == message.digest and one.place.folder in on_its_way]

    def _is_not_addressed(self, place: Place, agent: str) -> bool:
        """True if its headers name only other agents: then it was not its sender who put it there."""
        try:
            fields = ignite.split_head(self.spool.head(place)).fields
        except (OSError, BadMessage):
            return False
        names = f"{fields.get('to', '')},{fields.get('cc', '')}".split(",")
        return identity(agent) not in {identity(name.strip()) for name in names}

    def _given_to_another(self, place: Place) -> Place | None:
        gone = self.deliveries.at(place)
        if gone is None:
            return None
        later = (one for one in self._elsewhere(gone.message) if one.met_at >= gone.met_at)
        return next((one.place for one in later if self._is_not_addressed(one.place, one.addressee)), None)

    # --- proof --------------------------------------------------------------------------------------------------------
    def _prove_gone(self, place: Place, missed: _Missed) -> None:
        if self.deliveries.at(place) is None or not self.spool.is_gone(place) or self.directories.is_losing(place.box):
            return  # a file that goes with its whole directory was not deleted by its agent
        try:
            births = self.spool.births(place.box)
        except OSError:
            return  # the directory cannot be looked at: the next scan misses the file again
        if births != missed.births:
            self.directories.lose_box(place.box)
            return
        if (moved_to := self._given_to_another(place)) is not None:
            self.services.post(events.Vanished(place, moved_to=moved_to))
            return
        other = Folder.QUEUE if place.folder is Folder.PROCESSED else Folder.PROCESSED
        elsewhere = Place(place.box, other, place.name)
        if self.spool.exists(elsewhere) and self.deliveries.at(elsewhere) is None:
            self.services.post(events.Vanished(place, moved_to=elsewhere))
            self.directories.came(elsewhere, closed=True)
        else:
            self.services.post(events.Vanished(place))
