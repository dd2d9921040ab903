"""Moving a message's file, and saying what became of it: one rename, or, to another file system, a copy.

Owns that every move is answered exactly once: done, nothing to move, or refused by the disk. A rename is done at once;
a copy is made and flushed in a thread while its lane waits, and the loop goes on. Refuses to know why something moves.
What somebody has written over is kept in quarantine, and the message is lost.

A name may be given to another file between the look and the move, by senders that always use the same one. So a claim
looks whether it has moved the file that was meant, and whatever ends unclaimed is looked at before: the other is a
message of its own.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ackd.core import effects, events
from ackd.core.errors import BadMessage
from ackd.core.message import Folder
from ackd.dialects import ignite
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from anyio.abc import TaskGroup

    from ackd.adapters.spool import Spool
    from ackd.core.events import Arrived, Unreadable
    from ackd.core.message import Message, Place
    from ackd.ports import Clock, Post

    Moving = effects.ClaimMessage | effects.ArchiveMessage | effects.BuryMessage | effects.ReviveMessage

WRITTEN_OVER: Final = "written over by its sender: something else lies in its place"


@dataclass
class Moves:
    spool: Spool
    clock: Clock
    post: Post
    tasks: TaskGroup
    report: Callable[[str, OSError | BadMessage], None]
    #: Told of each rename, from where to where: the watcher hears of it, too.
    renamed: Callable[[Place, Place], None]
    #: What lies at a place, as intake reads it.
    look: Callable[[Place], Arrived | Unreadable]
    #: What could not be put into quarantine, and was reported.
    _unkept: set[Place] = field(default_factory=set, init=False)

    def claim(self, effect: effects.ClaimMessage) -> Place | None:
        """Where it is now, if that is known at once."""
        try:
            moved = self.spool.move(effect.place, Folder.PROCESSED)
        except (OSError, BadMessage) as error:
            if _is_across(error):
                self.tasks.start_soon(self._carry, effect, Folder.PROCESSED, name=f"carry {effect.place}")
            else:
                self._not_moved(effect, error)
            return None
        self.renamed(effect.place, moved)
        if effect.stamp and self._is_another(effect, moved):
            return moved
        self.post(events.Claimed(effect.key, moved))
        return moved

    def _is_another(self, effect: effects.ClaimMessage, moved: Place) -> bool:
        """Another message was moved in its place, and goes on from there. What was only touched, or is a copy on
        another mount, is the same by what it says."""
        try:
            if self.spool.stamp(moved) == effect.stamp:
                return False
            found = self.look(moved)
        except OSError:
            return False  # gone by its agent's hand, or not to be read: whoever is told finds out
        if isinstance(found, events.Arrived) and _same(found.message, effect.message):
            return False
        self.post(events.MoveLost(effect.key, WRITTEN_OVER))
        self.post(found)
        return True

    def is_replaced(self, effect: Moving) -> bool:
        """Whether something else lies where one waited that is to end unclaimed: another message, be it of the same id,
        or what is not yet one, for its writer is still at it. It is found by the next scan."""
        if effect.place.folder is not Folder.QUEUE:
            return False
        try:
            found = self.look(effect.place)
        except OSError:
            return False
        if isinstance(found, events.Arrived) and _same(found.message, effect.message):
            return False
        self.post(events.MoveLost(effect.key, WRITTEN_OVER))
        return True

    def move(self, effect: Moving, folder: Folder, date: str | None = None) -> Coroutine[None, None, None] | None:
        try:
            moved = self.spool.move(effect.place, folder, date=date)
        except (OSError, BadMessage) as error:
            if _is_across(error):
                return self._carry(effect, folder, date)
            self._not_moved(effect, error)
            return None
        self.renamed(effect.place, moved)
        self.post(events.Moved(effect.key, moved))
        return None

    def quarantine(self, effect: effects.QuarantineFile) -> Coroutine[None, None, None] | None:
        with self._keeping(effect):
            try:
                self._kept(effect, self.spool.quarantine(*self._reason(effect)))
            except OSError as error:
                if not _is_across(error):
                    raise
                return self._quarantine_across(effect)
        return None

    def _reason(self, effect: effects.QuarantineFile) -> tuple[Place, str, str, str]:
        return effect.place, effect.code, effect.detail, ignite.iso_seconds(self.clock.now().wall)

    def _kept(self, effect: effects.QuarantineFile, kept_as: str) -> None:
        self._unkept.discard(effect.place)
        self.post(events.Quarantined(effect.place, kept_as, effect.code, effect.detail, effect.sender))

    async def _carry(self, effect: Moving, folder: Folder, date: str | None = None) -> None:
        """To another file system: the loop goes on while it is copied and flushed; the lane waits. A copy takes what
        bears the name when it begins, as a rename does."""
        with self.answering(effect):
            move = partial(self.spool.move, effect.place, folder, date=date, across=True)
            moved = await in_thread(move)
            if not isinstance(effect, effects.ClaimMessage):
                self.post(events.Moved(effect.key, moved))
            elif not self._is_another(effect, moved):
                self.post(events.Claimed(effect.key, moved))

    async def _quarantine_across(self, effect: effects.QuarantineFile) -> None:
        with self._keeping(effect):
            keep = partial(self.spool.quarantine, *self._reason(effect), across=True)
            self._kept(effect, await in_thread(keep))

    @contextlib.contextmanager
    def answering(self, effect: Moving) -> Iterator[None]:
        """A move is answered, whatever becomes of it: that it was done, inside; every other way, here."""
        try:
            yield
        except (OSError, BadMessage) as error:
            self._not_moved(effect, error)

    def _not_moved(self, effect: Moving, error: OSError | BadMessage) -> None:
        if isinstance(error, BadMessage):
            self._give_up_on(effect, error)
        elif isinstance(error, FileNotFoundError):
            self.post(events.MoveLost(effect.key))
        else:
            self.post(events.SpoolFailed(effect.key, words_of(error)))

    def _give_up_on(self, effect: Moving, bad: BadMessage) -> None:
        """Somebody has written over it. What lies there now is kept as what it is; of the message nothing is left."""
        slow = self.quarantine(effects.QuarantineFile(effect.lane, effect.place, bad.code, str(bad)))
        if slow is not None:
            self.tasks.start_soon(lambda: slow, name=f"quarantine {effect.place}")
        self.post(events.MoveLost(effect.key, f"overwritten with what is no message ({bad.code})"))

    @contextlib.contextmanager
    def _keeping(self, effect: effects.QuarantineFile) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # removed meanwhile: nothing to keep
        except OSError as error:  # the next scan meets it again, and this is said once
            if effect.place not in self._unkept:
                self._unkept.add(effect.place)
                self.report(f"quarantine {effect.place}", error)


def _same(one: Message, other: Message) -> bool:
    return (one.message_id, one.digest) == (other.message_id, other.digest)


def _is_across(error: OSError | BadMessage) -> bool:
    """Whether a rename will not do: it lies on another file system than where it is to go."""
    return isinstance(error, OSError) and error.errno == errno.EXDEV


def words_of(error: OSError | BadMessage) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
