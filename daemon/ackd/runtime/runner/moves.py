"""Moves a message's file, by one rename or, to another file system, by a copy, and answers with the result.

Every move is answered exactly once: done, nothing to move, or refused by the disk. A rename is done at once; a copy is
made and flushed in a thread while its lane waits, and the loop goes on. If somebody has written something over the file
that is no message, that is kept in quarantine, and the message is lost.

Senders that always use the same name may put another file there between our look and our move. So a claim checks that
it has moved the right file, and a file that ends unclaimed is checked before its move. The other file is a message of
its own.
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
from ackd.formats import ignite
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from ackd.core.events import Arrived, Unreadable
    from ackd.core.message import Message, Place
    from ackd.core.ports import Flusher, Services
    from ackd.storage.spool import PreparedDrop, PreparedRewrite, Spool

    Moving = (
        effects.ClaimMessage
        | effects.ArchiveMessage
        | effects.BuryMessage
        | effects.ReviveMessage
        | effects.ReturnMessage
    )

WRITTEN_OVER: Final = "written over by its sender: something else lies in its place"


@dataclass(kw_only=True)
class FileMoves:
    spool: Spool
    services: Services
    report: Callable[[str, OSError | BadMessage], None]
    #: Returns an agent's directory in queue/.
    box: Callable[[str], str]
    #: Called with the old and the new place of each rename, so that the watcher gives no hint about it.
    renamed: Callable[[Place, Place], None]
    #: Reads the file at a place as the intake does.
    look: Callable[[Place], Arrived | Unreadable]
    #: Files that could not be put into quarantine, which was logged.
    _unkept: set[Place] = field(default_factory=set, init=False)

    def claim(self, effect: effects.ClaimMessage) -> Place | None:
        """Claim a message. Returns its new place, or None if that is not known at once."""
        try:
            moved = self.spool.move(effect.place, Folder.PROCESSED, box=self._box(effect))
        except (OSError, BadMessage) as error:
            if _is_across(error):
                self.services.tasks.start_soon(self._carry, effect, Folder.PROCESSED, name=f"carry {effect.place}")
            else:
                self._not_moved(effect, error)
            return None
        self.renamed(effect.place, moved)
        if effect.stamp and self._is_another(effect, moved):
            return moved
        self.services.post(events.Claimed(effect.key, moved))
        return moved

    def _is_another(self, effect: effects.ClaimMessage, moved: Place) -> bool:
        """True if another message was moved instead of the one that was meant. The other goes on from its new place.

        A file that was only touched, or is a copy on another mount, has the same content, and is the same message.
        """
        try:
            if self.spool.stamp(moved) == effect.stamp:
                return False
            found = self.look(moved)
        except OSError:
            return False  # deleted by its agent, or unreadable: its endpoint finds out
        if isinstance(found, events.Arrived) and _same(found.message, effect.message):
            return False
        self.services.post(events.MoveLost(effect.key, WRITTEN_OVER))
        self.services.post(found)
        return True

    def is_replaced(self, effect: Moving) -> bool:
        """True if something else lies in the place of a message that is to end unclaimed: another message, perhaps with
        the same id, or a file that is not complete yet. The next scan finds it."""
        if effect.place.folder is not Folder.QUEUE:
            return False
        try:
            found = self.look(effect.place)
        except OSError:
            return False
        if isinstance(found, events.Arrived) and _same(found.message, effect.message):
            return False
        self.services.post(events.MoveLost(effect.key, WRITTEN_OVER))
        return True

    def _box(self, effect: Moving) -> str | None:
        """Return the directory that the message is moved to, if that is not the one where it lies: a pool's message
        goes to its holder, and back."""
        if isinstance(effect, effects.ReturnMessage):
            return self.box(effect.message.addressee)
        if not effect.message.pool:
            return None
        return self.box(effect.message.recipient) if isinstance(effect, effects.ClaimMessage) else None

    def move(self, effect: Moving, folder: Folder, date: str | None = None) -> Coroutine[None, None, None] | None:
        try:
            moved = self.spool.move(effect.place, folder, date=date, box=self._box(effect))
        except (OSError, BadMessage) as error:
            if _is_across(error):
                return self._carry(effect, folder, date)
            self._not_moved(effect, error)
            return None
        self.renamed(effect.place, moved)
        self.services.post(events.Moved(effect.key, moved))
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
        return effect.place, effect.code, effect.detail, ignite.iso_seconds(self.services.clock.now().wall)

    def _kept(self, effect: effects.QuarantineFile, kept_as: str) -> None:
        self._unkept.discard(effect.place)
        self.services.post(events.Quarantined(effect.place, kept_as, effect.code, effect.detail, effect.sender))

    async def _carry(self, effect: Moving, folder: Folder, date: str | None = None) -> None:
        """Move a file to another file system. The lane waits while it is copied and flushed; the loop goes on. Like a
        rename, the copy takes whichever file has the name when it begins."""
        with self.answering(effect):
            move = partial(self.spool.move, effect.place, folder, date=date, box=self._box(effect), across=True)
            moved = await in_thread(move)
            if not isinstance(effect, effects.ClaimMessage):
                self.services.post(events.Moved(effect.key, moved))
            elif not self._is_another(effect, moved):
                self.services.post(events.Claimed(effect.key, moved))

    async def _quarantine_across(self, effect: effects.QuarantineFile) -> None:
        with self._keeping(effect):
            keep = partial(self.spool.quarantine, *self._reason(effect), across=True)
            self._kept(effect, await in_thread(keep))

    @contextlib.contextmanager
    def answering(self, effect: Moving) -> Iterator[None]:
        """Answer a move that fails inside. A move that succeeds is answered inside."""
        try:
            yield
        except (OSError, BadMessage) as error:
            self._not_moved(effect, error)

    def _not_moved(self, effect: Moving, error: OSError | BadMessage) -> None:
        if isinstance(error, BadMessage):
            self._give_up_on(effect, error)
        elif isinstance(error, FileNotFoundError):
            self.services.post(events.MoveLost(effect.key))
        else:
            self.services.post(events.SpoolFailed(effect.key, words_of(error)))

    def _give_up_on(self, effect: Moving, bad: BadMessage) -> None:
        """Quarantine the file that somebody has written over the message. Nothing is left of the message itself."""
        slow = self.quarantine(effects.QuarantineFile(effect.lane, effect.place, bad.code, str(bad)))
        if slow is not None:
            self.services.tasks.start_soon(lambda: slow, name=f"quarantine {effect.place}")
        self.services.post(events.MoveLost(effect.key, f"overwritten with what is no message ({bad.code})"))

    @contextlib.contextmanager
    def _keeping(self, effect: effects.QuarantineFile) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # removed meanwhile: nothing to keep
        except OSError as error:  # the next scan tries again, and this is logged once
            if effect.place not in self._unkept:
                self._unkept.add(effect.place)
                self.report(f"quarantine {effect.place}", error)


def _same(one: Message, other: Message) -> bool:
    return (one.message_id, one.digest) == (other.message_id, other.digest)


def _is_across(error: OSError | BadMessage) -> bool:
    """True if the rename failed because source and target are on different file systems."""
    return isinstance(error, OSError) and error.errno == errno.EXDEV


def words_of(error: OSError | BadMessage) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


#: How often a header is written again when its file keeps changing meanwhile.
REWRITE_TRIES: Final = 5


@dataclass
class DurableWriter:
    spool: Spool
    flusher: Flusher

    async def rewrite(
        self, place: Place, headers: tuple[tuple[str, str | None], ...], unless: Callable[[], bool] = lambda: False
    ) -> bool:
        """Add headers to a file, durably. If somebody changes the file meanwhile, it is read again, so that their
        change is kept.

        ``unless`` is asked before each reading, because another file may lie there by then. Returns False if it says
        so.
        """
        for tries_left in reversed(range(REWRITE_TRIES)):
            if unless():
                break
            try:
                await self._rewrite_once(place, headers)
            except OSError as error:
                if error.errno != errno.ESTALE or not tries_left:
                    raise
            else:
                return True
        return False

    async def _rewrite_once(self, place: Place, headers: tuple[tuple[str, str | None], ...]) -> None:
        """Flush the new file, then exchange the two: the only durable copy is never replaced by one that is not."""
        old = self.spool.read(place)
        prepared = self.spool.prepare_rewrite(place, ignite.rewrite(old.data, headers), of=old)
        await self._flush(prepared)
        self.spool.commit_rewrite(prepared)

    async def drop(self, box: str, name: str, data: bytes) -> Place:
        """Write a new message. It is durable when this returns, and so is its directory entry."""
        prepared = self.spool.prepare_drop(box, name, data)
        await self._flush(prepared)
        place = self.spool.commit_drop(prepared)
        box_dir = self.spool.path(place).parent
        await self.flusher.flush([f"{box_dir}/", f"{box_dir.parent}/"])  # the queue directory itself may be new
        return place

    async def _flush(self, prepared: PreparedRewrite | PreparedDrop) -> None:
        try:
            await self.flusher.flush([prepared.temp])
        except BaseException:  # also when cancelled: nobody will use the temporary file any more
            self.spool.abandon(prepared)
            raise
