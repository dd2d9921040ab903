"""Carries out the engine's effects, and answers with events about what happened.

Quick effects (a rename, a log line) are done at once on the loop. Slow ones (telling a program, anything that is
flushed) are coroutines that their lane waits for. Claims are gathered until the pump has no other event, so that one
write of the journal covers all of them. The order of effects is kept by ``lanes``, and files are moved by ``moves``.
Nothing is decided here: a refusal of the disk becomes ``SpoolFailed``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import anyio

from ackd.core import delivery_facts, effects, events
from ackd.core.daemon_facts import io_error
from ackd.core.errors import BadMessage
from ackd.core.faults import is_nobodys
from ackd.core.headers import NONE_OF_OURS
from ackd.core.message import USER, Folder, ReceiptFile
from ackd.core.message_facts import message_warning
from ackd.core.words import RECIPIENT, MessageEnd
from ackd.formats import ignite
from ackd.runtime.runner.lanes import Lanes
from ackd.runtime.runner.moves import DurableWriter, FileMoves, words_of
from ackd.storage.journal import NoticeWritten, PutAway, TakenIn, twin_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ackd.core.effects import Effect
    from ackd.core.events import Event
    from ackd.core.message import Draft, Message, Place
    from ackd.core.ports import Endpoint, Flusher, Inhabited, Services
    from ackd.storage.journal import Journal
    from ackd.storage.spool import Spool

    _Explained = effects.TellAgent | effects.ArchiveMessage | effects.BuryMessage

#: Pause before a message of our own that could not be written (disk full) is tried again. Its lane waits.
SEND_AGAIN_S: Final = 5.0
#: Number of tries where the queue directory refuses the file (a link, no permission), which waiting does not mend.
SEND_TRIES: Final = 3
_DAY_S: Final = 86_400.0
#: Headers that a revived message loses. The recipient stays: if we crash before the message is moved, nothing else says
#: which of several recipients is meant.
CLEAN_SLATE: Final = tuple(each for each in NONE_OF_OURS if each[0] != RECIPIENT)


class Roster(Protocol):
    """The endpoints of the agents, and the directories for their mail."""

    def endpoint(self, agent: str) -> Endpoint: ...

    def inhabited(self, agent: str) -> Inhabited | None: ...

    def replace(self, agent: str) -> Coroutine[None, None, None]: ...

    def box(self, agent: str) -> str: ...

    def forget_run(self, agent: str, key: int) -> None: ...

    def let_go(self, agent: str, key: int, message_id: str) -> None: ...


@dataclass(kw_only=True)
class EffectRunner:
    spool: Spool
    flusher: Flusher
    #: Their clock is the pump's: all effects of one event have one time.
    services: Services
    journal: Journal
    wake: Callable[[], None]
    team: Roster
    ring: Callable[[str, bytes], None]
    #: Reads the file at a place as the intake does.
    look: Callable[[Place], events.Arrived | events.Unreadable]
    #: Returns False if a delivery is not wanted any more when its turn comes: the engine gave up one that waited too
    #: long behind others.
    is_wanted: Callable[[effects.TellAgent], bool] = lambda _order: True
    #: Called with the old and the new place of each rename, so that the watcher gives no hint about it.
    renamed: Callable[[Place, Place], None] = lambda _source, _target: None
    _claims: list[effects.ClaimMessage] = field(default_factory=list, init=False)
    _unflushed: list[Place] = field(default_factory=list, init=False)
    _answers: list[Event] = field(default_factory=list, init=False)  # to be posted after the turn
    _day: tuple[float, str] = field(default=(-1.0, ""), init=False)  # days since 1970, and the archive's name for it
    #: By message key: the entry that the journal was given last.
    _in_journal: dict[int, TakenIn] = field(default_factory=dict, init=False)
    #: By message key: the status that the disk refused to write into the header, with the receipts it follows from.
    _unwritten: dict[int, effects.WriteStatus] = field(default_factory=dict, init=False)
    #: Receipts that stay because their status is not written yet.
    _kept: set[ReceiptFile] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._lanes = Lanes(self._do, self._write_statuses, self.services.tasks)
        self.carry_out = self._lanes.carry_out
        self._writer = DurableWriter(self.spool, self.flusher)
        self._moves = FileMoves(
            spool=self.spool,
            services=self.services,
            report=self._report,
            box=self.team.box,
            renamed=self.renamed,
            look=self.look,
        )

    async def settled(self, nothing_new: Callable[[], bool]) -> None:
        """Return when no lane has anything left to do and no answer waits to be handled."""
        while self._lanes.busy or self._claims or self._answers or not nothing_new():  # noqa: ASYNC110 - two conditions, neither of which has an event
            await anyio.sleep(0.01)

    def _do(self, effect: Effect) -> Coroutine[None, None, None] | None:
        match effect:  # effects that every message needs come first
            case effects.RecordFact():
                if not effect.logged:
                    self.services.record(effect.fact)
                if effect.signal is not None:
                    self.services.emit(effect.signal)
            case effects.ClaimMessage():
                self._claims.append(effect)
                self.wake()
            case effects.TellAgent():
                return self._tell(effect)
            case effects.ArchiveMessage():
                return self._archive(effect)
            case effects.ForgetMessage():
                self._forget(effect)
            case effects.NoteParts():
                self._or_report(lambda _what: self._note_parts(effect), "journal")
            case effects.QuarantineFile():
                return self._moves.quarantine(effect)
            case effects.DropReceipt(_, name, which):
                return self._drop_receipt(ReceiptFile(name, which))
            case effects.CallOff():
                self._call_off(effect)
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
            case effects.ReplaceEndpoint(lane):
                return self.team.replace(lane)
            case effects.RestartAgent(lane, why):
                return self._inhabited(lane).restart(why)
            case effects.WriteStatus():
                return self._write_status(effect)
            case effects.BuryMessage():
                return self._bury(effect)
            case effects.ReviveMessage():
                return self._revive(effect)
            case effects.ReturnMessage():
                return self._return(effect)
            case effects.SendMessage():
                return self._send(effect)
            case effects.RemindPerson(message=message, place=place):
                self._ring_with(message.message_id, place)
            case _:
                assert_never(effect)
        return None

    # --- quick effects ------------------------------------------------------------------------------------------------
    def claim_gathered(self) -> None:
        """Do the gathered claims. The journal is told first, so that a file that its agent deletes while no daemon runs
        is missed at the next start, and not forgotten."""
        if not self._claims:
            return
        claims, self._claims = self._claims, []
        try:
            for effect in claims:
                self.take_in(effect.key, effect.message, effect.place)
            self._flush_journal([effect.key for effect in claims])
        except OSError as error:
            for effect in claims:
                self.services.post(events.SpoolFailed(effect.key, words_of(error)))
            return
        self._unflushed += [moved for effect in claims if (moved := self._moves.claim(effect)) is not None]

    def take_in(self, key: int, message: Message, place: Place, crashes: int = 0, *, duplicate: bool = False) -> None:
        """Enter a message into the journal. The caller flushes the journal before it moves the file."""
        now = self.services.clock.now().wall
        digest = twin_digest(message.digest, place.name) if duplicate else message.digest
        entry = TakenIn(
            message.recipient,
            message.message_id,
            self.team.box(message.recipient) if message.pool else place.box,
            place.name,
            digest,
            message.sender,
            message.type,
            crashes,
            now,
            late=place.folder is Folder.DEAD,
            part_of=message.part_of or "",
            notify=message.notify,
            pool=message.pool,
        )
        self._in_journal[key] = entry
        self.journal.take_in(entry)

    def _explain(self, effect: _Explained, crashes: int = 0, *, duplicate: bool = False) -> None:
        """Tell the journal about a message before it is delivered or moved to its end, if it lacks something.

        A message that ends unclaimed is not in the journal yet, and a crash would swallow its line. A message that was
        claimed under another name than it had (because another file has that name) is entered again with the new name;
        otherwise a start would look for it under the old one, and find the other file.
        """
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
        """Flush the journal. If the disk refuses, forget that these messages were entered.

        They are then entered again before they end. Otherwise a full disk and a crash could leave a file in the archive
        that no line ever mentioned.
        """
        try:
            self.journal.flush()
        except OSError:
            for key in keys:
                self._in_journal.pop(key, None)
            raise

    def _flush_failed(self, error: OSError) -> None:
        self._report("flush", error)

    def flush_gathered(self) -> None:
        """Flush files that were claimed in this turn, and new directories, in the background.

        Claimed files, because a foreign writer may not have flushed them. Directories, because a file is durable only
        together with the directory it is in. Called after the turn, when the agents have been told.
        """
        claimed, self._unflushed = self._unflushed, []
        for place in claimed:
            self.flusher.flush_later(self.spool.located(place), self._flush_failed)
        if self.spool.made_directories:
            for directory in self.spool.new_directories():
                self.flusher.flush_later(f"{directory}/", self._flush_failed)

    def _archive(self, effect: effects.ArchiveMessage) -> Coroutine[None, None, None] | None:
        if effect.headers:
            return self._withdraw(effect)
        day = self._today()
        if self._moves.is_replaced(effect):
            return None
        try:
            self._explain(effect, duplicate=effect.duplicate)
        except OSError as error:
            self.services.post(events.SpoolFailed(effect.key, words_of(error)))
            return None
        return self._moves.move(effect, Folder.ARCHIVE, day)

    def _today(self) -> str:
        wall = self.services.clock.now().wall
        if wall // _DAY_S != self._day[0]:
            self._day = (wall // _DAY_S, datetime.fromtimestamp(wall, UTC).strftime("%Y%m%d"))
        return self._day[1]

    def _drop_receipt(self, receipt_file: ReceiptFile) -> Coroutine[None, None, None] | None:
        """Remove a receipt after its log lines and its header are written: a crash in between must leave one of them.

        If the disk refused the header, the receipt is the only record, and it stays. When a scan finds it again, the
        header is tried again.
        """
        refused = self._refused(receipt_file)
        if refused is None:
            self._remove_receipt(receipt_file)
        elif receipt_file in self._kept:
            return self._write_status(refused)
        else:
            self._kept.add(receipt_file)
        return None

    def _drop_kept(self, key: int) -> None:
        status = self._unwritten.pop(key, None)
        for receipt_file in status.because_of if status is not None else ():
            if self._refused(receipt_file) is None:
                self._remove_receipt(receipt_file)

    def _refused(self, receipt_file: ReceiptFile) -> effects.WriteStatus | None:
        return next((status for status in self._unwritten.values() if receipt_file in status.because_of), None)

    def _remove_receipt(self, receipt_file: ReceiptFile) -> None:
        self._kept.discard(receipt_file)
        self.journal.ahead()
        self._or_report(lambda _name: self.spool.remove_receipt(*receipt_file), receipt_file.name)

    def _keep_unwritten(self, status: effects.WriteStatus) -> None:
        """Remember a refused status: the newest one, together with the receipts of those that were refused before."""
        last = self._unwritten.get(status.key)
        if last is not None:
            receipt_files = tuple(dict.fromkeys(last.because_of + status.because_of))
            status = replace(status, ends_run=status.ends_run or last.ends_run, because_of=receipt_files)
        if status.because_of:
            self._unwritten[status.key] = status

    def _forget(self, effect: effects.ForgetMessage) -> None:
        """Let the journal and the team forget a message. A duplicate is let go under the digest of its entry,
        because its twin may still be in hand."""
        known = self._in_journal.get(effect.key)
        is_anothers = effect.end is MessageEnd.HANDED_BACK and known is not None and known.agent != effect.lane
        self.team.let_go(effect.lane, effect.key, effect.message.message_id)
        if not is_anothers:  # else the next member of its pool has it already
            self._drop_kept(effect.key)
            self._in_journal.pop(effect.key, None)
        message, name, end = effect.message, effect.place.name.rpartition("/")[2], effect.end
        digest = message.digest
        if effect.part is not None:
            self.journal.note(effect.part)
        if end is MessageEnd.DUPLICATE:
            digest = known.digest if known is not None and known.is_duplicate else twin_digest(message.digest, name)
        self.journal.let_go(
            PutAway(
                message.recipient, message.message_id, name, end, digest, self.services.clock.now().wall, message.pool
            )
        )

    def _note_parts(self, effect: effects.NoteParts) -> None:
        """Tell the journal of a notice about parts. What it is to say must be in the kernel before it is written."""
        self.journal.note(NoticeWritten(effect.notice.notice_id) if effect.is_written else effect.notice)
        self.journal.flush()

    def _ring_with(self, message_id: str, place: Place) -> None:
        try:
            data = self.spool.read(place).data
        except (OSError, BadMessage) as error:
            self._report(f"read {place}", error)
        else:
            self.ring(message_id, data)

    # --- slow effects -------------------------------------------------------------------------------------------------
    def _tell(self, effect: effects.TellAgent) -> Coroutine[None, None, None] | None:
        if not self.is_wanted(effect):
            return None
        try:  # the message may have been put into processed/ directly, or be from before a restart
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
        """Post the answers after the turn, when the lines of earlier events have reached the kernel."""
        answers, self._answers = self._answers, []
        for answer in answers:
            self.services.post(answer)

    async def _post_answer(self, answer: Awaitable[Event]) -> None:
        self.services.post(await answer)

    def _call_off(self, effect: effects.CallOff) -> None:
        """Have the agent told that its message is cancelled. That takes its own time, and holds up no lane."""
        answer = self.team.endpoint(effect.lane).call_off(effect)
        if answer is not None:
            self.services.post(answer)

    async def _nudge(self, effect: effects.NudgeAgent) -> None:
        """Nudge an agent, and log what was done and seen. The engine has logged the step of the ladder itself."""
        answer = await self.team.endpoint(effect.lane).nudge(effect)
        self.services.record(delivery_facts.nudged(effect, answer))
        self.services.post(answer)

    async def _probe(self, effect: effects.ProbeAgent) -> None:
        """Probe an agent. A probe that could not be made is reported as ``NotProbed``."""
        answer = await self._inhabited(effect.lane).probe(effect)
        if isinstance(answer, events.NotTold):
            self.services.post(events.NotProbed(effect.key, answer.reason, answer.attempt))
        else:
            self.services.post(answer)

    async def _remind(self, effect: effects.RemindAgent) -> None:
        answer = await self._inhabited(effect.lane).remind(effect)
        made = isinstance(answer, events.Told)
        detail = answer.proof if isinstance(answer, events.Told) else answer.reason
        self.services.post(events.Reminded(effect.key, made, detail, effect.attempt))

    async def _ask_checkpoint(self, effect: effects.AskCheckpoint) -> None:
        self.services.post(await self._inhabited(effect.lane).ask_checkpoint(effect))

    def _inhabited(self, agent: str) -> Inhabited:
        endpoint = self.team.inhabited(agent)
        assert endpoint is not None, f"nobody lives behind {agent}"  # such a policy has no timers that ask for this
        return endpoint

    async def _write_statuses(self, row: list[effects.WriteStatus]) -> None:
        row = [effect for effect in row if not self._lanes.archives_soon(effect.key)]
        async with anyio.create_task_group() as group:
            for effect in row:
                group.start_soon(self._write_status, effect, name=f"status of {effect.place}")

    async def _write_status(self, effect: effects.WriteStatus) -> None:
        """Write a message's status into its header, unless its archiving waits already.

        In that case the receipt or result that completed it stays on disk until it is archived, and is found again
        after a crash.
        """
        if self._lanes.archives_soon(effect.key):
            return
        try:
            await self._writer.rewrite(effect.place, effect.headers)
        except FileNotFoundError:
            pass  # its agent has just deleted it, which the watcher reports
        except (OSError, BadMessage) as error:  # BadMessage: its agent has written over it, and loses only its own file
            self._report(f"status of {effect.place}", error)
            if isinstance(error, OSError):
                self._keep_unwritten(effect)
        else:
            self._drop_kept(effect.key)
            if effect.ends_run:
                self.team.forget_run(effect.lane, effect.key)

    async def _bury(self, effect: effects.BuryMessage) -> None:
        """Write a dead letter: the reason goes into the message's header, and the file to dead_letter/."""
        with self._moves.answering(effect):
            is_replaced = partial(self._moves.is_replaced, effect)
            if not await self._writer.rewrite(effect.place, effect.headers, unless=is_replaced):
                return
            self._explain(effect)
            if (slow := self._moves.move(effect, Folder.DEAD)) is not None:
                await slow

    async def _withdraw(self, effect: effects.ArchiveMessage) -> None:
        """Archive a message of which nobody was told. Its header says so before it is moved, because everything else in
        the archive was completed."""
        with self._moves.answering(effect):
            is_replaced = partial(self._moves.is_replaced, effect)
            if not await self._writer.rewrite(effect.place, effect.headers, unless=is_replaced):
                return
            self._explain(effect)
            if (slow := self._moves.move(effect, Folder.ARCHIVE, self._today())) is not None:
                await slow

    async def _revive(self, effect: effects.ReviveMessage) -> None:
        with self._moves.answering(effect):
            await self._writer.rewrite(effect.place, CLEAN_SLATE)
            self.spool.touch(effect.place)
            self.spool.ensure_box(effect.place.box)
            if (slow := self._moves.move(effect, Folder.QUEUE)) is not None:
                await slow

    def _return(self, effect: effects.ReturnMessage) -> Coroutine[None, None, None] | None:
        """Move a message back to the queue of its pool. Its header says already how often it failed, and who had it."""
        try:
            self.spool.ensure_box(self.team.box(effect.message.addressee))
        except OSError as error:
            self.services.post(events.SpoolFailed(effect.key, words_of(error)))
            return None
        return self._moves.move(effect, Folder.QUEUE)

    async def _send(self, effect: effects.SendMessage) -> None:
        """Send a message of ackd's own. It is durable before the next effect of the lane, the death that it announces.

        If the recipient's queue does not take it, the person gets it. If the person's queue does not take it either,
        the lane goes on, and only the log and the notification command are left.
        """
        draft = effect.draft
        refused = await self._try_to_send(draft)
        if refused is not None and draft.recipient != USER:
            note = f"it was for {draft.recipient}, and could not be put into queue/{self.team.box(draft.recipient)}"
            draft = replace(draft, recipient=USER, body={"note": f"{note}: {refused}", **draft.body})
            await self._try_to_send(draft)
        if effect.notify or (draft.recipient == USER and draft.type == "escalation"):
            self.ring(draft.message_id, ignite.encode_draft(draft, self.services.clock.now().wall))

    async def _try_to_send(self, draft: Draft) -> str | None:
        """Write the message into its queue. Returns the error if the queue still refuses it after some tries.

        A full disk is nobody's fault, and is waited for as long as it takes.
        """
        data, tries = ignite.encode_draft(draft, self.services.clock.now().wall), 0
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
        self.services.record(message_warning(**({**about, "body": draft.body} if lost else {**about})))

    async def _drop(self, draft: Draft, data: bytes) -> None:
        name = ignite.file_name(draft.type, int(self.services.clock.now().wall * 1_000_000))
        await self._writer.drop(self.team.box(draft.recipient), name, data)

    async def put(self, agent: str, type_: str, data: bytes) -> Place:
        """Write somebody's message for one more agent. It is durable when this returns. Raises OSError."""
        name = ignite.file_name(type_, int(self.services.clock.now().wall * 1_000_000))
        return await self._writer.drop(self.team.box(agent), name, data)

    async def send(self, draft: Draft) -> None:
        """Send a handler's message. It is durable when this returns. Raises OSError."""
        await self._drop(draft, ignite.encode_draft(draft, self.services.clock.now().wall))

    # --- errors -------------------------------------------------------------------------------------------------------
    def _or_report(self, action: Callable[[str], object], what: str) -> None:
        try:
            action(what)
        except OSError as error:
            self._report(what, error)

    def _report(self, what: str, error: OSError | BadMessage) -> None:
        self.services.record(io_error(what=what, error=words_of(error)))
