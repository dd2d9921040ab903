"""Carries out what the engine asks for, and answers with what happened.

Owns what each effect does: quick ones (a rename, a log line) at once on the loop, slow ones (telling a program, what is
flushed) as coroutines that their lane waits for. Claims are gathered until the pump has nothing else to do: one write
of the journal stands for all of them. Refuses to know the order of effects (lanes), how files move (moves), and to
decide anything: a disk that says no becomes ``SpoolFailed``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import anyio

from ackd.adapters.journal import End, LetGo, TakenIn, twin_digest
from ackd.core import effects, events
from ackd.core.errors import BadMessage
from ackd.core.faults import is_nobodys
from ackd.core.headers import NONE_OF_OURS
from ackd.core.message import USER, Folder, ReceiptFile
from ackd.dialects import ignite
from ackd.runtime.lanes import Lanes
from ackd.runtime.moves import Moves, words_of
from ackd.runtime.pen import Pen

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup

    from ackd.adapters.journal import Journal
    from ackd.adapters.spool import Spool
    from ackd.core.effects import Effect
    from ackd.core.events import Event
    from ackd.core.message import Draft, Message, Place
    from ackd.ports import Clock, Endpoint, Flusher, Inhabited, Post

    _Explained = effects.TellAgent | effects.ArchiveMessage | effects.BuryMessage

#: A message of our own that cannot be written (disk full) is tried again after this; its lane waits.
SEND_AGAIN_S: Final = 5.0
#: So often where its box refuses it (a link, not ours), which waiting does not mend.
SEND_TRIES: Final = 3
_DAY_S: Final = 86_400.0
#: What a revived message leaves behind in dead_letter/. Not for whom it died: should we die before it is moved, nothing
#: else says which of several recipients is meant.
CLEAN_SLATE: Final = tuple(each for each in NONE_OF_OURS if each[0] != "X-IGNITE-Recipient")


class Roster(Protocol):
    """Who carries out tellings, and where an agent's mail is put."""

    def endpoint(self, agent: str) -> Endpoint: ...

    def inhabited(self, agent: str) -> Inhabited | None: ...

    def box(self, agent: str) -> str: ...

    def forget_run(self, agent: str, key: int) -> None: ...

    def let_go(self, agent: str, key: int, message_id: str) -> None: ...


@dataclass
class EffectRunner:
    spool: Spool
    flusher: Flusher
    record: Callable[[str, dict[str, object]], None]
    journal: Journal
    clock: Clock
    post: Post
    wake: Callable[[], None]
    tasks: TaskGroup
    team: Roster
    ring: Callable[[str, bytes], None]
    #: What lies at a place, as intake reads it.
    look: Callable[[Place], events.Arrived | events.Unreadable]
    #: Whether a telling is still wanted when its turn comes: one that waited too long behind others was given up.
    is_wanted: Callable[[effects.TellAgent], bool] = lambda _order: True
    #: Told of every file that was renamed for a message: it is no news to us.
    renamed: Callable[[Place, Place], None] = lambda _source, _target: None
    _claims: list[effects.ClaimMessage] = field(default_factory=list, init=False)
    _unflushed: list[Place] = field(default_factory=list, init=False)
    _answers: list[Event] = field(default_factory=list, init=False)  # on their way
    _day: tuple[float, str] = field(default=(-1.0, ""), init=False)  # since 1970, and as the archive spells it
    #: By key: what it was told of last.
    _in_journal: dict[int, TakenIn] = field(default_factory=dict, init=False)
    #: What the disk has refused to write into a message's header, by its key, and with it the receipts that say so.
    _unwritten: dict[int, effects.WriteStatus] = field(default_factory=dict, init=False)
    _kept: set[ReceiptFile] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._lanes = Lanes(self._do, self._write_statuses, self.tasks)
        self.carry_out = self._lanes.carry_out
        self._pen = Pen(self.spool, self.flusher)
        self._moves = Moves(self.spool, self.clock, self.post, self.tasks, self._report, self.renamed, self.look)

    async def settled(self, nothing_new: Callable[[], bool]) -> None:
        """Returns when no lane has anything left to do and no answer waits to be heard."""
        while self._lanes.busy or self._claims or self._answers or not nothing_new():  # noqa: ASYNC110 - two conditions, neither of which has an event
            await anyio.sleep(0.01)

    def _do(self, effect: Effect) -> Coroutine[None, None, None] | None:
        match effect:  # first what every message goes through
            case effects.RecordFact():
                self.record(effect.type, effect.data)
            case effects.ClaimMessage():
                self._claims.append(effect)
                self.wake()
            case effects.TellAgent():
                return self._tell(effect)
            case effects.ArchiveMessage():
                return self._archive(effect)
            case effects.ForgetMessage():
                self._forget(effect)
            case effects.QuarantineFile():
                return self._moves.quarantine(effect)
            case effects.DropReceipt(_, name, which):
                return self._drop_receipt(ReceiptFile(name, which))
            case effects.NudgeAgent():
                return self._nudge(effect)
            case effects.ProbeAgent():
                return self._probe(effect)
            case effects.RemindAgent():
                return self._remind(effect)
            case effects.AskCheckpoint():
                return self._ask_checkpoint(effect)
            case effects.RenewAgent():
                return self._inhabited(effect.lane).renew(effect)
            case effects.RestartAgent(lane, why):
                return self._inhabited(lane).restart(why)
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
    def claim_gathered(self) -> None:
        """The journal knows of them first: what its agent deletes while we are dead is then missed, not forgotten."""
        if not self._claims:
            return
        claims, self._claims = self._claims, []
        try:
            for effect in claims:
                self.take_in(effect.key, effect.message, effect.place)
            self._flush_journal([effect.key for effect in claims])
        except OSError as error:
            for effect in claims:
                self.post(events.SpoolFailed(effect.key, words_of(error)))
            return
        self._unflushed += [moved for effect in claims if (moved := self._moves.claim(effect)) is not None]

    def take_in(self, key: int, message: Message, place: Place, crashes: int = 0, *, duplicate: bool = False) -> None:
        """The journal is flushed before anything moves that it explains."""
        now = self.clock.now().wall
        digest = twin_digest(message.digest, place.name) if duplicate else message.digest
        entry = TakenIn(
            message.recipient,
            message.message_id,
            place.box,
            place.name,
            digest,
            message.sender,
            message.type,
            crashes,
            now,
            late=place.folder is Folder.DEAD,
        )
        self._in_journal[key] = entry
        self.journal.take_in(entry)

    def _explain(self, effect: _Explained, crashes: int = 0, *, duplicate: bool = False) -> None:
        """Before a move to an end: of what ends unclaimed the journal has not heard, and a crash would swallow its
        line. Before either: of what was claimed under another name than it had, since somebody's file has that; a start
        would look for the one and find the other."""
        known, place = self._in_journal.get(effect.key), effect.place
        if known is None:
            self.take_in(effect.key, effect.message, place, crashes, duplicate=duplicate)
        elif known.name != place.name and place.folder is Folder.PROCESSED:
            self._in_journal[effect.key] = entry = replace(known, name=place.name)
            self.journal.take_in(entry)
        else:
            return
        self._flush_journal([effect.key])

    def _flush_journal(self, keys: list[int]) -> None:
        """What the disk has not taken, the journal does not know: whatever ends of it is explained to it once more, or
        a full disk and a crash would leave a file in the archive that nobody ever spoke of."""
        try:
            self.journal.flush()
        except OSError:
            for key in keys:
                self._in_journal.pop(key, None)
            raise

    def _flush_failed(self, error: OSError) -> None:
        self._report("flush", error)

    def flush_gathered(self) -> None:
        """After a turn, when its agents were told: what was claimed in it, for a foreign writer did not flush, and
        directories that were made, for a file in one is durable when both are. In the background."""
        claimed, self._unflushed = self._unflushed, []
        for place in claimed:
            self.flusher.flush_later(self.spool.located(place), self._flush_failed)
        if self.spool.made_directories:
            for directory in self.spool.new_directories():
                self.flusher.flush_later(f"{directory}/", self._flush_failed)

    def _archive(self, effect: effects.ArchiveMessage) -> Coroutine[None, None, None] | None:
        day = self._today()
        if self._moves.is_replaced(effect):
            return None
        try:
            self._explain(effect, duplicate=effect.duplicate)
        except OSError as error:
            self.post(events.SpoolFailed(effect.key, words_of(error)))
            return None
        return self._moves.move(effect, Folder.ARCHIVE, day)

    def _today(self) -> str:
        wall = self.clock.now().wall
        if wall // _DAY_S != self._day[0]:
            self._day = (wall // _DAY_S, datetime.fromtimestamp(wall, UTC).strftime("%Y%m%d"))
        return self._day[1]

    def _drop_receipt(self, paper: ReceiptFile) -> Coroutine[None, None, None] | None:
        """The lines about it first: a crash in between must leave the one or the other. And the header: where the disk
        has refused that, the receipt is all that says so. It is kept, and when a scan has found it once more the header
        is tried again."""
        refused = self._refused(paper)
        if refused is None:
            self._remove_receipt(paper)
        elif paper in self._kept:
            return self._write_status(refused)
        else:
            self._kept.add(paper)
        return None

    def _drop_kept(self, key: int) -> None:
        status = self._unwritten.pop(key, None)
        for paper in status.because_of if status is not None else ():
            if self._refused(paper) is None:
                self._remove_receipt(paper)

    def _refused(self, paper: ReceiptFile) -> effects.WriteStatus | None:
        return next((status for status in self._unwritten.values() if paper in status.because_of), None)

    def _remove_receipt(self, paper: ReceiptFile) -> None:
        self._kept.discard(paper)
        self.journal.ahead()
        self._or_report(lambda _name: self.spool.remove_receipt(*paper), paper.name)

    def _keep_unwritten(self, status: effects.WriteStatus) -> None:
        """The newest word, and whatever was refused with the last one."""
        last = self._unwritten.get(status.key)
        if last is not None:
            papers = tuple(dict.fromkeys(last.because_of + status.because_of))
            status = replace(status, ends_run=status.ends_run or last.ends_run, because_of=papers)
        if status.because_of:
            self._unwritten[status.key] = status

    def _forget(self, effect: effects.ForgetMessage) -> None:
        """A duplicate goes under its own name, the one that it was taken in by: its twin may still be in hand."""
        self._drop_kept(effect.key)
        self.team.let_go(effect.lane, effect.key, effect.message.message_id)
        known = self._in_journal.pop(effect.key, None)
        message, name, end = effect.message, effect.place.name.rpartition("/")[2], End(effect.end)
        digest = message.digest
        if end is End.DUPLICATE:
            digest = known.digest if known is not None and known.is_duplicate else twin_digest(message.digest, name)
        self.journal.let_go(LetGo(message.recipient, message.message_id, name, end, digest, self.clock.now().wall))

    def _ring_with(self, message_id: str, place: Place) -> None:
        try:
            data = self.spool.read(place).data
        except (OSError, BadMessage) as error:
            self._report(f"read {place}", error)
        else:
            self.ring(message_id, data)

    # --- slow -------------------------------------------------------------------------------------------------------
    def _tell(self, effect: effects.TellAgent) -> Coroutine[None, None, None] | None:
        if not self.is_wanted(effect):
            return None
        try:  # it may have come straight into processed/, or from before a restart
            self._explain(effect, effect.crashes)
        except OSError as error:
            self._report("journal", error)
        answer = self.team.endpoint(effect.lane).tell(effect)
        if answer is None:
            return None
        if isinstance(answer, Awaitable):
            return self._post_answer(answer)
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._post_answers)
        self._answers.append(answer)
        return None

    def _post_answers(self) -> None:
        """After the turn, in which the lines of what came before reach the kernel."""
        answers, self._answers = self._answers, []
        for answer in answers:
            self.post(answer)

    async def _post_answer(self, answer: Awaitable[Event]) -> None:
        self.post(await answer)

    async def _nudge(self, effect: effects.NudgeAgent) -> None:
        """That a rung was climbed the engine has written down; here, what was done and seen on it."""
        answer = await self.team.endpoint(effect.lane).nudge(effect)
        done = answer.proof if isinstance(answer, events.Told) else f"not done: {answer.reason}"
        about: dict[str, object] = {"message_id": effect.message.message_id, "agent": effect.lane}
        self.record("nudged", {**about, "rung": effect.rung, "done": done})
        self.post(answer)

    async def _probe(self, effect: effects.ProbeAgent) -> None:
        """One that could not be made is no probe."""
        answer = await self._inhabited(effect.lane).probe(effect)
        if isinstance(answer, events.NotTold):
            self.post(events.NotProbed(effect.key, answer.reason, answer.attempt))
        else:
            self.post(answer)

    async def _remind(self, effect: effects.RemindAgent) -> None:
        answer = await self._inhabited(effect.lane).remind(effect)
        made = isinstance(answer, events.Told)
        detail = answer.proof if isinstance(answer, events.Told) else answer.reason
        self.post(events.Reminded(effect.key, made, detail, effect.attempt))

    async def _ask_checkpoint(self, effect: effects.AskCheckpoint) -> None:
        self.post(await self._inhabited(effect.lane).ask_checkpoint(effect))

    def _inhabited(self, agent: str) -> Inhabited:
        endpoint = self.team.inhabited(agent)
        assert endpoint is not None, f"nobody lives behind {agent}"  # its policy has no such clocks
        return endpoint

    async def _write_statuses(self, row: list[effects.WriteStatus]) -> None:
        row = [effect for effect in row if not self._lanes.archives_soon(effect.key)]
        async with anyio.create_task_group() as group:
            for effect in row:
                group.start_soon(self._write_status, effect, name=f"status of {effect.place}")

    async def _write_status(self, effect: effects.WriteStatus) -> None:
        """What made it finished is on disk until it is archived: a crash in between hears of it again."""
        if self._lanes.archives_soon(effect.key):
            return
        try:
            await self._pen.rewrite(effect.place, effect.headers)
        except FileNotFoundError:
            pass  # its agent has just deleted it: the watcher says so
        except (OSError, BadMessage) as error:  # its agent has written over it: its own file, its own loss
            self._report(f"status of {effect.place}", error)
            if isinstance(error, OSError):
                self._keep_unwritten(effect)
        else:
            self._drop_kept(effect.key)
            if effect.ends_run:
                self.team.forget_run(effect.lane, effect.key)

    async def _bury(self, effect: effects.BuryMessage) -> None:
        with self._moves.answering(effect):
            is_replaced = partial(self._moves.is_replaced, effect)
            if not await self._pen.rewrite(effect.place, effect.headers, unless=is_replaced):
                return
            self._explain(effect)
            if (slow := self._moves.move(effect, Folder.DEAD)) is not None:
                await slow

    async def _revive(self, effect: effects.ReviveMessage) -> None:
        with self._moves.answering(effect):
            await self._pen.rewrite(effect.place, CLEAN_SLATE)
            self.spool.touch(effect.place)
            self.spool.ensure_box(effect.place.box)
            if (slow := self._moves.move(effect, Folder.QUEUE)) is not None:
                await slow

    async def _send(self, effect: effects.SendMessage) -> None:
        """Durable before what follows in the lane, which is the death it announces. If its reader's box does not take
        it, a person gets it; if theirs does not, either, the lane must go on: what is left is the log, and to ring."""
        draft = effect.draft
        refused = await self._try_to_send(draft)
        if refused is not None and draft.recipient != USER:
            note = f"it was for {draft.recipient}, and could not be put into queue/{self.team.box(draft.recipient)}"
            draft = replace(draft, recipient=USER, body={"note": f"{note}: {refused}", **draft.body})
            await self._try_to_send(draft)
        if effect.notify or (draft.recipient == USER and draft.type == "escalation"):
            self.ring(draft.message_id, ignite.encode_draft(draft, self.clock.now().wall))

    async def _try_to_send(self, draft: Draft) -> str | None:
        """Why its box will not have it, after some tries. A full disk is nobody's fault, and waited for as long as it
        takes."""
        data, tries = ignite.encode_draft(draft, self.clock.now().wall), 0
        while True:
            try:
                await self._drop(draft, data)
            except OSError as error:
                self._report(f"{draft.type} to {draft.recipient}", error)
                tries += not is_nobodys(error)
                if tries == SEND_TRIES:
                    self._warn_of_unsent(draft, words_of(error))
                    return words_of(error)
                await anyio.sleep(SEND_AGAIN_S)
            else:
                return None

    def _warn_of_unsent(self, draft: Draft, why: str) -> None:
        lost = draft.recipient == USER
        then = "this line is all that is left of it" if lost else f"{USER} gets it instead"
        warning = f"ackd's own {draft.type} could not be put into its queue ({why}): {then}"
        about = {"message_id": draft.message_id, "agent": draft.recipient, "warning": warning}
        self.record("message_warning", {**about, "body": draft.body} if lost else {**about})

    async def _drop(self, draft: Draft, data: bytes) -> None:
        name = ignite.file_name(draft.type, int(self.clock.now().wall * 1_000_000))
        await self._pen.drop(self.team.box(draft.recipient), name, data)

    async def put(self, agent: str, type_: str, data: bytes) -> Place:
        """Somebody's message, for one more agent: durable when it returns, OSError when it could not be."""
        name = ignite.file_name(type_, int(self.clock.now().wall * 1_000_000))
        return await self._pen.drop(self.team.box(agent), name, data)

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
        self.record("io_error", {"what": what, "error": words_of(error)})
