"""Carries out what the engine asks for, and answers with what happened.

Owns lanes: effects of one agent run in order, lanes run side by side, so that one slow agent delays nobody. Quick
effects (a rename, a log line) are done at once on the loop; slow ones (telling, anything that flushes) are tasks, and
what follows in their lane waits for them. Refuses to decide anything: a disk that says no becomes ``SpoolFailed``.
"""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import anyio
import anyio.lowlevel

from ackd.adapters.journal import End, LetGo, TakenIn
from ackd.core import effects, events
from ackd.core.errors import BadMessage
from ackd.core.message import USER, Folder
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup

    from ackd.adapters.journal import Journal
    from ackd.adapters.spool import Spool
    from ackd.core.effects import Effect
    from ackd.core.message import Draft, Message, Place
    from ackd.ports import Clock, Endpoint, Flusher, Post

#: A message of our own that cannot be written (disk full) is tried again after this; its lane waits.
SEND_AGAIN_S: Final = 5.0
#: How often a header is written anew when its file keeps changing under us.
REWRITE_TRIES: Final = 5
#: Effects of a lane done between two breaths of the loop.
SLICE: Final = 64
#: What a revived message leaves behind in dead_letter/.
CLEAN_SLATE: Final[tuple[tuple[str, None], ...]] = tuple(
    (f"X-IGNITE-{name}", None)
    for name in "Status Error-Reason Error-At Retry-Count Recipient Next-Retry-After Processed-At".split()
)


class Roster(Protocol):
    """Who carries out tellings, and where an agent's mail is put."""

    def endpoint(self, agent: str) -> Endpoint: ...

    def box(self, agent: str) -> str: ...

    def forget_run(self, agent: str, key: int) -> None: ...


@dataclass
class EffectRunner:
    spool: Spool
    flusher: Flusher
    record: Callable[[str, dict[str, object]], None]
    journal: Journal
    clock: Clock
    post: Post
    tasks: TaskGroup
    team: Roster
    ring: Callable[[str, bytes], None]
    _lanes: dict[str, deque[Effect]] = field(default_factory=dict)
    _in_journal: set[int] = field(default_factory=set)
    #: Messages whose archiving waits in their lane: their status would be written for nobody.
    _finished: set[int] = field(default_factory=set)

    def carry_out(self, asked: list[Effect]) -> None:
        for effect in asked:
            lane = effect.lane
            if lane is not None and lane in self._lanes:
                self._lanes[lane].append(effect)
                if isinstance(effect, effects.ArchiveMessage):
                    self._finished.add(effect.key)
            else:
                self._begin(lane, effect)

    async def settled(self, nothing_new: Callable[[], bool]) -> None:
        """Returns when no lane has anything left to do and no answer waits to be heard."""
        while self._lanes or not nothing_new():  # noqa: ASYNC110 - two conditions, neither of which has an event
            await anyio.sleep(0.01)

    def _begin(self, lane: str | None, effect: Effect) -> None:
        slow = self._do(effect)
        if slow is not None:
            assert lane is not None
            self._lanes[lane] = deque()
            self.tasks.start_soon(self._drain, lane, slow, name=f"lane {lane}")

    async def _drain(self, lane: str, slow: Coroutine[None, None, None] | None) -> None:
        """Finish the slow one, then what queued up behind it."""
        waiting, done = self._lanes[lane], 0
        while True:
            if slow is not None:
                await slow
            elif done % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if not waiting:
                break
            slow, done = self._next(waiting), done + 1
        del self._lanes[lane]

    def _next(self, waiting: deque[Effect]) -> Coroutine[None, None, None] | None:
        """Statuses of several messages in a row are one slow thing: they share the flush."""
        row: dict[int, effects.WriteStatus] = {}
        while waiting and len(row) < SLICE:
            effect = waiting[0]
            if not isinstance(effect, effects.WriteStatus) or effect.key in row:
                break
            row[effect.key] = effect
            waiting.popleft()
        if len(row) > 1:
            return self._write_statuses(list(row.values()))
        return self._do(next(iter(row.values())) if row else waiting.popleft())

    def _do(self, effect: Effect) -> Coroutine[None, None, None] | None:
        match effect:
            case effects.RecordFact(type_, data):
                self.record(type_, data)
            case effects.ClaimMessage():
                self._claim(effect)
            case effects.ArchiveMessage():
                self._finished.discard(effect.key)
                self._archive(effect)
            case effects.QuarantineFile():
                self._quarantine(effect)
            case effects.DropReceipt(_, name):
                self._or_report(self.spool.remove_receipt, name)
            case effects.ForgetMessage():
                self._forget(effect)
            case effects.TellAgent():
                return self._tell(effect)
            case effects.NudgeAgent():
                return self._nudge(effect)
            case effects.WriteStatus():
                return self._write_status(effect)
            case effects.BuryMessage():
                return self._bury(effect)
            case effects.ReviveMessage():
                return self._revive(effect)
            case effects.SendMessage():
                return self._send(effect)
            case effects.RemindPerson(message=message, place=place):
                self._ring_with(message.message_id, place)
            case _:
                assert_never(effect)
        return None

    # --- quick ------------------------------------------------------------------------------------------------------
    def _claim(self, effect: effects.ClaimMessage) -> None:
        """The journal knows of it first: what its agent deletes while we are dead is then missed, not forgotten."""
        try:
            self.take_in(effect.key, effect.message, effect.place)
            moved = self.spool.move(effect.place, Folder.PROCESSED)
        except FileNotFoundError:
            self.post(events.MoveLost(effect.key))
        except OSError as error:
            self.post(events.SpoolFailed(effect.key, _words(error)))
        else:
            self.post(events.Claimed(effect.key, moved))
            self.tasks.start_soon(self._flush_once, moved, name=f"flush {moved}")

    def take_in(self, key: int, message: Message, place: Place, crashes: int = 0) -> None:
        """Handed to the kernel at once: it must be there before the move that it explains."""
        now = self.clock.now().wall
        entry = TakenIn(
            message.recipient,
            message.message_id,
            place.box,
            place.name,
            message.digest,
            message.sender,
            message.type,
            crashes,
            now,
        )
        self._in_journal.add(key)
        self.journal.take_in(entry)
        self.journal.flush()

    async def _flush_once(self, place: Place) -> None:
        """A foreign writer did not flush; we do, once, in the background. Gone already: somebody was quicker."""
        try:
            await self.flusher.flush([str(self.spool.path(place))])
        except OSError as error:
            self._report("flush", error)

    def _archive(self, effect: effects.ArchiveMessage) -> None:
        day = datetime.fromtimestamp(self.clock.now().wall, UTC).strftime("%Y%m%d")
        try:
            moved = self.spool.move(effect.place, Folder.ARCHIVE, date=day)
        except FileNotFoundError:
            self.post(events.MoveLost(effect.key))
        except OSError as error:
            self.post(events.SpoolFailed(effect.key, _words(error)))
        else:
            self.post(events.Moved(effect.key, moved))

    def _quarantine(self, effect: effects.QuarantineFile) -> None:
        place, code, detail = effect.place, effect.code, effect.detail
        try:
            kept_as = self.spool.quarantine(place, code, detail, ignite.iso_seconds(self.clock.now().wall))
        except FileNotFoundError:
            return  # removed meanwhile: nothing to keep
        except OSError as error:
            self._report(f"quarantine {place}", error)  # the next scan meets it again
        else:
            self.post(events.Quarantined(place, kept_as, code, detail))

    def _forget(self, effect: effects.ForgetMessage) -> None:
        """A duplicate was never in hand, and its twin still may be."""
        self.team.forget_run(effect.lane, effect.key)
        self._in_journal.discard(effect.key)
        if effect.end != "duplicate":
            message, now = effect.message, self.clock.now().wall
            end = End(effect.end)
            self.journal.let_go(
                LetGo(message.recipient, message.message_id, effect.place.name, end, message.digest, now)
            )

    def _ring_with(self, message_id: str, place: Place) -> None:
        try:
            data = self.spool.read(place).data
        except (OSError, BadMessage) as error:
            self._report(f"read {place}", error)
        else:
            self.ring(message_id, data)

    # --- slow -------------------------------------------------------------------------------------------------------
    async def _tell(self, effect: effects.TellAgent) -> None:
        if effect.key not in self._in_journal:  # it came straight into processed/, or from before a restart
            try:
                self.take_in(effect.key, effect.message, effect.place, effect.crashes)
            except OSError as error:
                self._report("journal", error)
        self.post(await self.team.endpoint(effect.lane).tell(effect))

    async def _nudge(self, effect: effects.NudgeAgent) -> None:
        self.post(await self.team.endpoint(effect.lane).nudge(effect))

    async def _write_statuses(self, row: list[effects.WriteStatus]) -> None:
        async with anyio.create_task_group() as group:
            for effect in row:
                group.start_soon(self._write_status, effect, name=f"status of {effect.place}")

    async def _write_status(self, effect: effects.WriteStatus) -> None:
        """What made it finished is on disk until it is archived: a crash in between hears of it again."""
        if effect.key in self._finished:
            return
        try:
            await self._rewrite(effect.place, effect.headers)
        except FileNotFoundError:
            pass  # its agent has just deleted it: the watcher says so
        except (OSError, BadMessage) as error:  # its agent has written over it: its own file, its own loss
            self._report(f"status of {effect.place}", error)
        else:
            if effect.ends_run:
                self.team.forget_run(effect.lane, effect.key)

    async def _rewrite(self, place: Place, headers: tuple[tuple[str, str | None], ...]) -> None:
        """Read again when someone changed the file meanwhile: their words are kept, and ours added."""
        for _ in range(REWRITE_TRIES - 1):
            try:
                return await self._rewrite_once(place, headers)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
        return await self._rewrite_once(place, headers)

    async def _rewrite_once(self, place: Place, headers: tuple[tuple[str, str | None], ...]) -> None:
        """Flush, then exchange: the only durable copy is never replaced by one that is not."""
        old = self.spool.read(place)
        prepared = self.spool.prepare_rewrite(place, ignite.rewrite(old.data, headers), of=old)
        try:
            await self.flusher.flush([prepared.temp])
        except BaseException:
            self.spool.abandon(prepared)
            raise
        self.spool.commit_rewrite(prepared)

    async def _bury(self, effect: effects.BuryMessage) -> None:
        try:
            await self._rewrite(effect.place, effect.headers)
            moved = self.spool.move(effect.place, Folder.DEAD)
        except BadMessage as bad:
            self._give_up_on(effect, bad)
        except FileNotFoundError:
            self.post(events.MoveLost(effect.key))
        except OSError as error:
            self.post(events.SpoolFailed(effect.key, _words(error)))
        else:
            self.post(events.Moved(effect.key, moved))

    def _give_up_on(self, effect: effects.BuryMessage | effects.ReviveMessage, bad: BadMessage) -> None:
        """Somebody has written over it. What lies there now is kept as what it is; of the message nothing is left."""
        self._quarantine(effects.QuarantineFile(effect.lane, effect.place, bad.code, str(bad)))
        self.post(events.MoveLost(effect.key))

    async def _revive(self, effect: effects.ReviveMessage) -> None:
        try:
            await self._rewrite(effect.place, CLEAN_SLATE)
            self.spool.touch(effect.place)
            self.spool.ensure_box(effect.place.box)
            moved = self.spool.move(effect.place, Folder.QUEUE)
        except BadMessage as bad:
            self._give_up_on(effect, bad)
        except FileNotFoundError:
            self.post(events.MoveLost(effect.key))
        except OSError as error:
            self.post(events.SpoolFailed(effect.key, _words(error)))
        else:
            self.post(events.Moved(effect.key, moved))

    async def _send(self, effect: effects.SendMessage) -> None:
        """Until it is durable, however long that takes: what follows in the lane is the death it announces."""
        data = ignite.encode_draft(effect.draft, self.clock.now().wall)
        while True:
            try:
                await self._drop(effect.draft, data)
            except OSError as error:
                self._report(f"{effect.draft.type} to {effect.draft.recipient}", error)
                await anyio.sleep(SEND_AGAIN_S)
            else:
                break
        if effect.notify or (effect.draft.recipient == USER and effect.draft.type == "escalation"):
            self.ring(effect.draft.message_id, data)

    async def _drop(self, draft: Draft, data: bytes) -> Place:
        name = ignite.file_name(draft.type, int(self.clock.now().wall * 1_000_000))
        prepared = self.spool.prepare_drop(self.team.box(draft.recipient), name, data)
        try:
            await self.flusher.flush([prepared.temp])
        except BaseException:
            self.spool.abandon(prepared)
            raise
        place = self.spool.commit_drop(prepared)
        await self.flusher.flush([f"{self.spool.path(place).parent}/"])
        return place

    async def send(self, draft: Draft) -> None:
        """For handlers: durable when it returns, OSError when it could not be."""
        await self._drop(draft, ignite.encode_draft(draft, self.clock.now().wall))

    # --- trouble ----------------------------------------------------------------------------------------------------
    def _or_report(self, action: Callable[[str], object], what: str) -> None:
        try:
            action(what)
        except OSError as error:
            self._report(what, error)

    def _report(self, what: str, error: OSError | BadMessage) -> None:
        self.record("io_error", {"what": what, "error": _words(error)})


def _words(error: OSError | BadMessage) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
