"""After a start: the directories say what is, the journal says what was in hand, the runs say what came of it.

Reads them once and feeds the engine the same events as ever. Lines that a crash swallowed are written by
``aftermath``. Safe to be interrupted and done again: nothing here moves a file (but for removing what has been copied
to another mount, or has got its new name already).

| found                                              | means                                            |
|----------------------------------------------------|--------------------------------------------------|
| in queue/                                          | never claimed: offered                           |
| in processed/, its run alive or with a result      | adopted, or its result taken                     |
| twice, on two mounts, the same to the byte         | its move was not finished: the copy stays        |
| twice, one file of two names, and the journal has it | its move was not finished: the new name stays  |
| in processed/, else                                | by its header: offered again, or its clock goes on |
| journal has it, something else in its place        | written over while we were away: withdrawn       |
| journal has it, file in archive/ or dead_letter/   | ended; the line is written if it is missing      |
| journal has it, file nowhere, directory intact     | its agent completed it while we were away        |
| journal has it, file nowhere, directory another    | lost with its directory: said loudly             |

Names are compared as identities: a config that now spells an agent otherwise has not renamed it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio.lowlevel

from ackd.adapters.journal import End, LetGo
from ackd.core import events
from ackd.core.message import Folder, Place, Status, identity
from ackd.core.message_files import is_message_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ackd.adapters.exec_runs import FoundRun
    from ackd.adapters.journal import Journal, JournalState, TakenIn
    from ackd.adapters.spool import Reason, Spool
    from ackd.core.book import Delivery
    from ackd.core.engine import Engine
    from ackd.core.message import Message, Standing
    from ackd.ports import Clock
    from ackd.runtime.aftermath import Aftermath
    from ackd.runtime.backlog import Backlog
    from ackd.runtime.intake import Intake
    from ackd.runtime.pump import Pump


#: Few files of a few queues, read between two breaths of the loop.
SLICE: Final = 16

#: One message for one agent: identity of the agent, message id, digest of its content.
_Known: TypeAlias = tuple[str, str, str]


def _known(agent: str, message_id: str, digest: str) -> _Known:
    return (identity(agent), message_id, digest)


class Adopt(Protocol):
    """Take over a run: under its message's key, or None. ``speaks_for``: the attempt that its end is news to, if any:
    said ``defer`` meanwhile, it must not be taken for the end of the retry."""

    def __call__(self, agent: str, key: int | None, run: FoundRun, *, speaks_for: int | None) -> None: ...


def _known_of(message: Message) -> _Known:
    return _known(message.recipient, message.message_id, message.digest)


@dataclass
class Recovery:
    spool: Spool
    engine: Engine
    pump: Pump
    intake: Intake
    journal: Journal
    clock: Clock
    record: Callable[[str, dict[str, object]], None]
    adopt: Adopt
    aftermath: Aftermath
    backlog: Backlog
    _before: _Before = field(init=False)
    _kept: list[tuple[str, Reason | None]] = field(default_factory=list, init=False)
    _met: set[_Known] = field(default_factory=set, init=False)  # or dealt with otherwise
    #: Runs of messages that cannot be read: nobody's until those are met.
    _left: list[FoundRun] = field(default_factory=list, init=False)
    #: Of messages that were in hand, lie there, and cannot be read.
    unread_ids: frozenset[str] = field(default=frozenset(), init=False)

    def count(self, state: JournalState, runs: list[FoundRun]) -> dict[str, int]:
        """What there is to recover, for the session's first line: by names only."""
        counts = [self.spool.count(box) for box in self.spool.boxes()]
        return {
            "queued": sum(queued for queued, _ in counts),
            "processed": sum(processed for _, processed in counts),
            "in_journal": len(state.in_flight),
            "runs": len(runs),
        }

    async def recover(self, state: JournalState, runs: list[FoundRun]) -> None:
        """What was in hand, and whatever says something about it. When this returns, work may be offered."""
        self.pump.clocks_wait = True
        self.intake.hold()
        in_flight = {_known(e.agent, e.message_id, e.digest): e for e in state.in_flight.values()}
        self._before = before = _Before(in_flight, _latest(runs), {}, {}, clean_stop=state.clean_stop)
        self._kept = self._remember(state)
        self._finish_moves(state.in_flight.values())
        self._remember_archived(in_flight.values())
        await self._meet_what_speaks()
        await self.intake.letterbox.scan()  # what an agent said during a run was said before the run ended
        self._take_runs(runs, before)
        self._write_off()
        missing = {known: entry for known, entry in in_flight.items() if known not in self._met}
        gone = {known: entry for known, entry in missing.items() if not self._lies_there(entry)}
        self.aftermath.settle(list(gone.values()), unsure=self._name_is_taken)
        self._met |= gone.keys()
        await self.intake.letterbox.scan()
        await self._heard()
        self._wait_for([entry for known, entry in missing.items() if known not in gone])
        self.pump.clocks_wait = False
        self.pump.post(events.RecoveryEnded(reading=True))
        self.pump.turn()  # what fell due long since, now that all is heard that was said meanwhile
        await self.intake.release()

    async def read_backlog(self) -> None:
        """What waits: met while the first of it is delivered. What became of the rest can be said afterwards."""
        for number, few in enumerate(self.backlog.next_few(), 1):
            self._meet_all(few)
            if number % SLICE == 0 or number < SLICE:  # the first of all is told before much else is read
                await anyio.lowlevel.checkpoint()
        met = {(message_id, agent) for agent, message_id, _ in (*self._met, *self._before.in_flight)}
        self.aftermath.leave_open(met, self._kept)
        self.pump.post(events.RecoveryEnded())

    def _remember(self, state: JournalState) -> list[tuple[str, Reason | None]]:
        """What is known from before; what lies in quarantine."""
        desk = self.engine.desk
        kept: list[tuple[str, Reason | None]] = []
        for done in state.completed:
            desk.completed.remember(done.message_id, done.agent, done.digest, done.at)
        with self._reporting("list queue/dead_letter"):
            desk.totals.dead = len(self.spool.graves.files())
        with self._reporting("list queue/corrupt"):
            kept += self.spool.quarantined()
        desk.totals.rejected = len(kept)
        return kept

    def _remember_archived(self, in_flight: Iterable[TakenIn]) -> None:
        """Archived, and we died before the journal heard of it. Before anything is met: what is written once more while
        we recover, as the escalation about what is still overdue, is the same message."""
        for entry in in_flight:
            if not entry.is_duplicate and not self._lies_there(entry):
                self.aftermath.was_completed(entry)

    # --- moves of two steps -------------------------------------------------------------------------------------------
    def _finish_moves(self, in_flight: Collection[TakenIn]) -> None:
        """Copied to another mount, or linked where renames are made of that, and we died before the old file was
        removed: that is done now, before anything is met twice.

        What was on its way out of dead_letter/ is undone: whoever asked for that has left a receipt, and it goes again.
        Unless it was completed after all.
        """
        late = [entry for entry in in_flight if entry.late]
        entries = {(entry.box, entry.name): entry for entry in in_flight if not entry.late}
        for kept, reason in self._kept:
            with self._reporting(f"quarantine {kept}"):
                if reason is not None:
                    self.spool.finish_quarantine(kept, reason)
        for place in self._apart():
            self._finish_move(place, entries.get((place.box, place.name)))
        for entry in sorted(in_flight, key=lambda one: not one.is_duplicate):  # it may have its twin's name
            self._finish_link(entry)
        for entry in late:
            self._finish_move(Place(entry.box, Folder.DEAD, entry.name), entry)

    def _apart(self) -> list[Place]:
        """Whatever lies where a way out leads to another mount. A directory that is none is not looked into."""
        found: list[Place] = []
        for box in self.spool.boxes():
            with self._reporting(f"queue/{box}"):
                if self.spool.births(box) is not None and self.spool.is_apart(box):
                    found += [place for place, _ in self.spool.scan(box)]
        return found

    def _finish_move(self, place: Place, entry: TakenIn | None) -> None:
        with self._reporting(f"finish the move of {place}"):
            for copy in self._copies(place, entry):
                if not self.spool.was_copied(place, to=copy):
                    continue
                if entry is not None and copy.folder is Folder.ARCHIVE and not entry.is_duplicate:
                    self.aftermath.was_completed(entry)  # if the disk keeps the old file, that is a second copy
                self.spool.finish_move(place, to=copy)
                return

    def _finish_link(self, entry: TakenIn) -> None:
        for folder in () if entry.late else (Folder.QUEUE, Folder.PROCESSED):
            place = Place(entry.box, folder, entry.name)
            with self._reporting(f"look at {place}"):
                if self.spool.is_linked(place):
                    self._finish_move(place, entry)

    def _copies(self, place: Place, entry: TakenIn | None) -> Iterator[Place]:
        """Where a file of this place may have been copied to. Ends are in the journal before they are on disk."""
        if place.folder is Folder.QUEUE:
            yield from self.spool.namesakes(Place(place.box, Folder.PROCESSED, place.name))
        if place.folder is not Folder.DEAD:
            yield from self.spool.namesakes(Place(place.box, Folder.DEAD, place.name))
        if entry is not None:
            yield from self.aftermath.archived(entry)

    @contextlib.contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # gone meanwhile, or a name that no file has
        except OSError as error:
            self.record("io_error", {"what": what, "error": str(error)})

    # --- files --------------------------------------------------------------------------------------------------------
    async def _meet_what_speaks(self) -> None:
        """What is in hand, answers, and what receipts are about. Of two twins the one in hand is met first: it is
        older."""
        named = frozenset(one.encode() for one in await self.intake.letterbox.named())
        for box in sorted(self.spool.boxes()):
            if not self.intake.meet_box(box):
                continue
            await self._heard()  # its agent may be in no config: the engine hears of it before its mail is looked at
            agent = self.engine.desk.book.agents[self.intake.agent_of(box)]
            try:
                self._meet_all(self.spool.in_hand(box))
                self._meet_all(self.backlog.look_at(box, agent.policy.aging_s, named))
            except OSError:  # a box that cannot be listed has none for now: intake says so, and tries again
                continue
            await self._heard()

    def _meet_all(self, places: list[Place]) -> None:
        for place in places:
            event = self._meet(place)
            if isinstance(event, events.Arrived):
                self._settle_copy(event)
                self._met.add(_known_of(event.message))
            if event is not None and place.folder is Folder.PROCESSED:
                self._before.found[place] = event
            if event is not None and self.engine.desk.book.at(place) is None:  # else a hint was quicker, and the file
                self.pump.post(event)  # may be through before this is decided on: it would seem a second one

    def _settle_copy(self, event: events.Arrived) -> None:
        """In hand by the journal, waiting by its place: what is in processed/ was met before, so this is a second copy
        if the first was archived a moment before we died."""
        known = _known_of(event.message)
        waits = event.place.folder is Folder.QUEUE and known not in self._met
        entry = self._before.in_flight.get(known) if waits else None
        if entry is not None and self.aftermath.was_completed(entry):
            self.aftermath.settle([entry])

    async def _heard(self) -> None:
        """To the last event, for a turn is bounded: runs are looked up by the messages that were met."""
        self.pump.turn()
        while not self.pump.idle():
            await anyio.lowlevel.checkpoint()
            self.pump.turn()
        await anyio.lowlevel.checkpoint()

    def _meet(self, place: Place) -> events.Arrived | events.Unreadable | None:
        if not is_message_file(place.name):
            return None
        try:
            if place.folder is Folder.QUEUE and not self._settled(place):
                self.intake.came(place, closed=False)
                return None
            event = self.intake.look(place, recovered=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.record("io_error", {"what": f"read {place}", "error": str(error)})
            return None
        if place.folder is Folder.PROCESSED and isinstance(event, events.Arrived):
            return self._taken_up(event)
        if isinstance(event, events.Arrived) and self.intake.must_copy(event):
            self.intake.came(place, closed=False)
            return None
        return event

    def _settled(self, place: Place) -> bool:
        """As a scan meets it: a writer may still be at it."""
        return self.spool.settled(place, self.clock.now().wall, self.intake.settle_s)

    def _taken_up(self, event: events.Arrived) -> events.Arrived:
        """A file that we had in hand: with what its run and the journal add to it."""
        known, before = _known_of(event.message), self._before
        run, entry = before.runs.get(known), before.in_flight.get(known)
        if run is not None and _heard_before(run, event.standing):
            before.heard[known] = before.runs.pop(known)
        crashes = self._crashes(event, entry, clean=before.clean_stop, run_known=run is not None)
        if entry is not None and crashes != entry.crashes:
            self.journal.take_in(replace(entry, crashes=crashes))
        speaks = known in before.runs and run is not None and (run.alive or run.outcome is not None)
        return replace(event, crashes=crashes, run_alive=speaks)

    def _crashes(self, event: events.Arrived, entry: TakenIn | None, *, clean: bool, run_known: bool) -> int:
        """It counts as ours if we died with the message in hand: being told, or inside a handler."""
        before = entry.crashes if entry is not None else 0
        policy = self.engine.desk.book.agents[event.message.recipient].policy
        status = event.standing.status if event.standing is not None else Status.PROCESSING
        in_hand = status is Status.PROCESSING or (policy.volatile and status is not Status.RETRYING)
        return before + 1 if in_hand and not clean and not run_known and entry is not None else before

    # --- runs ---------------------------------------------------------------------------------------------------------
    def _take_runs(self, runs: list[FoundRun], before: _Before) -> None:
        """Those of a message that cannot be read are left alone until it can be: its result must find it."""
        for run in runs:
            entry = before.in_flight.get(_known_run(run))
            if entry is not None and _known_run(run) not in self._met and self._lies_there(entry):
                self._left.append(run)
            else:
                self._take_run(run, before)

    def _take_run(self, run: FoundRun, before: _Before) -> None:
        """The one that speaks for its message, or has spoken, is adopted under the message's key, so that no other is
        started beside it; any other is only seen through."""
        known = _known_run(run)
        latest = before.runs.get(known) is run
        delivery = self._delivery_of(run) if latest or before.heard.get(known) is run else None
        if delivery is None:
            self.adopt(run.agent, None, run, speaks_for=None)
            return
        attempt = delivery.tells if latest and delivery.told else None  # not told: somebody put it back in the queue
        self.adopt(run.agent, delivery.key, run, speaks_for=attempt)
        if attempt is not None and run.outcome is not None:
            self.pump.post(events.RunEnded(delivery.key, run.outcome, run.detail, attempt))

    def was_met(self, _type: str, message: dict[str, object]) -> None:
        """The engine has just met this message, and nothing is done with it yet."""
        for run in [run for run in self._left if run.message_id == message["message_id"]]:
            if self._delivery_of(run) is not None:
                self._left.remove(run)
                self._take_run(run, self._before)

    def _wait_for(self, unread: list[TakenIn]) -> None:
        self.unread_ids = frozenset(entry.message_id for entry in unread)
        places = (place for entry in unread for place in self.aftermath.still_to_read(entry))
        self.intake.owe((place for place in places if place.folder is Folder.PROCESSED), self._taken_up)

    def _delivery_of(self, run: FoundRun) -> Delivery | None:
        agent = self.engine.desk.agent_called(run.agent)
        open_ones = self.engine.desk.book.of_id(run.message_id, agent) if agent is not None else []
        return next((one for one in open_ones if one.message.digest == run.digest), None)

    # --- what was written over ----------------------------------------------------------------------------------------
    def _write_off(self) -> None:
        """In hand by the journal, and what lies in its place is something else: its file was written over while we were
        away. Said now, for what lies there goes its own way, and would leave a message that seems completed."""
        before = self._before
        for known, entry in list(before.in_flight.items()):
            found = before.found.get(Place(entry.box, Folder.PROCESSED, entry.name))
            waits = not self.spool.is_gone(Place(entry.box, Folder.QUEUE, entry.name))
            if known in self._met or found is None or waits:
                continue
            if self.aftermath.was_completed(entry):
                continue
            del before.in_flight[known]
            self._met.add(known)
            now = self.clock.now().wall
            self.journal.let_go(LetGo(entry.agent, entry.message_id, entry.name, End.WITHDRAWN, entry.digest, now))
            if isinstance(found, events.Unreadable):
                self._say_written_over(entry, f"what is no message ({found.code})")
            elif found.message.message_id != entry.message_id:  # else the message goes on, with other content
                self._say_written_over(entry, f"another message, {found.message.message_id}")

    def _say_written_over(self, entry: TakenIn, by: str) -> None:
        about: dict[str, object] = {"message_id": entry.message_id, "agent": entry.agent}
        reason = f"overwritten with {by} while ackd was away"
        self.record("message_withdrawn", {**about, "reason": reason, "recovered": True})
        self.engine.desk.totals.withdrawn += 1

    # --- what the journal misses --------------------------------------------------------------------------------------
    def _lies_there(self, entry: TakenIn) -> bool:
        """Not met, and not gone: we died before the claim moved it and it has not settled yet, or it cannot be read."""
        return self.aftermath.may_lie_there(entry)

    def _name_is_taken(self, entry: TakenIn) -> bool:
        return next(self.aftermath.under_its_name(entry), None) is not None


@dataclass(frozen=True)
class _Before:
    """What the last daemon left behind, by message. ``runs`` holds those whose word is still to be heard; ``heard``
    those whose word is in the header."""

    in_flight: dict[_Known, TakenIn]
    runs: dict[_Known, FoundRun]
    heard: dict[_Known, FoundRun]
    #: In processed/: what lies there now.
    found: dict[Place, events.Arrived | events.Unreadable]
    clean_stop: bool


def _known_run(run: FoundRun) -> _Known:
    return _known(run.agent, run.message_id, run.digest)


def _latest(runs: list[FoundRun]) -> dict[_Known, FoundRun]:
    """The run that speaks for each message: one that lives, else the one started last."""
    ordered = sorted(runs, key=lambda run: (run.alive, run.started_at))
    return {_known_run(run): run for run in ordered}


def _heard_before(run: FoundRun, standing: Standing | None) -> bool:
    """A retry that was written down later than the run began has heard its word: it must not count twice."""
    if standing is None or standing.status is not Status.RETRYING or standing.next_retry_at is None:
        return False
    return run.started_at < standing.next_retry_at
