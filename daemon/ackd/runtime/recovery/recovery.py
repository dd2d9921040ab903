"""Meets what a start finds on disk, in order, and feeds it to the engine. The package's docstring has the theory.

Lines that a crash swallowed are written by ``missing``. Names of agents are compared as identities: an agent that the
config now spells differently is the same agent.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio.lowlevel

from ackd.core import events
from ackd.core.daemon_facts import io_error
from ackd.core.message import Folder, Place, Status, identity
from ackd.core.message_facts import message_withdrawn
from ackd.core.message_files import is_message_file
from ackd.core.signals import MessageEnded
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ackd.core.engine import Engine
    from ackd.core.message import Message, Standing
    from ackd.core.ports import Services
    from ackd.core.signals import MessageMet
    from ackd.core.state import Delivery
    from ackd.endpoints.making import FoundRun
    from ackd.runtime.intake.intake import Intake
    from ackd.runtime.pump import Pump
    from ackd.runtime.recovery.backlog import Backlog
    from ackd.runtime.recovery.missing import MissingMessages
    from ackd.storage.journal import Journal, JournalState, TakenIn
    from ackd.storage.spool import Reason, Spool


#: Batches of files (``Backlog.next_few``) that are read before the event loop is given a turn.
SLICE: Final = 16

#: One message for one agent: identity of the agent, message id, digest of its content.
_Known: TypeAlias = tuple[str, str, str]


def _known(agent: str, message_id: str, digest: str) -> _Known:
    return (identity(agent), message_id, digest)


class Adopt(Protocol):
    """Take over a run, under the key of its message if that is open. ``speaks_for`` is the attempt that the run's end
    decides, if any: if the agent has deferred meanwhile, the end of this run is not the end of the retry."""

    def __call__(self, agent: str, key: int | None, run: FoundRun, *, speaks_for: int | None) -> None: ...


def _known_of(message: Message) -> _Known:
    return _known(message.recipient, message.message_id, message.digest)


@dataclass(kw_only=True)
class Recovery:
    spool: Spool
    engine: Engine
    pump: Pump
    intake: Intake
    journal: Journal
    services: Services
    adopt: Adopt
    missing: MissingMessages
    backlog: Backlog
    _before: _Before = field(init=False)
    _kept: list[tuple[str, Reason | None]] = field(default_factory=list, init=False)
    _met: set[_Known] = field(default_factory=set, init=False)  # messages that were met, or dealt with otherwise
    #: Runs of messages that cannot be read yet. They are taken when their message is met.
    _waiting_runs: list[FoundRun] = field(default_factory=list, init=False)
    #: Ids of messages that were in hand, are still there, and cannot be read.
    unread_ids: frozenset[str] = field(default=frozenset(), init=False)

    def count(self, state: JournalState, runs: list[FoundRun]) -> dict[str, int]:
        """Count what there is to recover, for the session's first line. Only the names of files are read."""
        counts = [self.spool.count(box) for box in self.spool.boxes()]
        return {
            "queued": sum(queued for queued, _ in counts),
            "processed": sum(processed for _, processed in counts),
            "in_journal": len(state.in_flight),
            "runs": len(runs),
        }

    async def recover(self, state: JournalState, runs: list[FoundRun]) -> None:
        """Meet the messages in hand, and everything that says something about them. Afterwards work may be offered."""
        self.pump.timers_wait = True
        self.intake.hold()
        in_flight = {_known(e.agent, e.message_id, e.digest): e for e in state.in_flight.values()}
        self._before = before = _Before(in_flight, _latest(runs), {}, {}, clean_stop=state.clean_stop)
        self._kept = self._remember(state)
        self._finish_moves(state.in_flight.values())
        self._remember_archived(in_flight.values())
        await self._meet_urgent()
        await self.intake.receipts.scan()  # before the runs: a run's receipts were written before it ended
        self._take_runs(runs, before)
        self._let_go_of_given_back()
        self._withdraw_overwritten()
        missing = {known: entry for known, entry in in_flight.items() if known not in self._met}
        gone = {known: entry for known, entry in missing.items() if not self._lies_there(entry)}
        self.missing.settle(list(gone.values()), unsure=self._name_is_taken)
        self._met |= gone.keys()
        await self.intake.receipts.scan()
        await self._handle_posted()
        self._wait_for([entry for known, entry in missing.items() if known not in gone])
        self.pump.timers_wait = False
        self.pump.post(events.RecoveryEnded(reading=True))
        self.pump.turn()  # deadlines that passed long ago, now that all answers are known
        await self.intake.release()

    async def read_backlog(self) -> None:
        """Meet waiting mail, while the first of it is delivered. Ends of missing messages are found after it."""
        for number, few in enumerate(self.backlog.next_few(), 1):
            self._meet_all(few)
            if number % SLICE == 0 or number < SLICE:  # the first messages are delivered before many others are read
                await anyio.lowlevel.checkpoint()
        met = {(message_id, agent) for agent, message_id, _ in (*self._met, *self._before.in_flight)}
        for_pools = {(one.message_id, identity(one.pool)) for one in self._before.in_flight.values() if one.pool}
        self.missing.leave_open(met | for_pools, self._kept)
        self.pump.post(events.RecoveryEnded())

    def _let_go_of_given_back(self) -> None:
        """Let the journal forget messages that agents had in hand for their pools, and that lie in the pools' queues
        again, or are another member's by now."""
        now = self.services.clock.now().wall
        for known, entry in self._before.in_flight.items():
            if known in self._met or self.missing.was_completed(entry):
                continue
            others = self.engine.state.deliveries.of_id(entry.message_id, entry.pool) if entry.pool else []
            is_anothers = any(one.message.digest == entry.digest for one in others)
            if is_anothers or self.missing.is_back_in_pool(entry):
                self.missing.let_go(entry, MessageEnd.HANDED_BACK, now)
                self._met.add(known)

    def _remember(self, state: JournalState) -> list[tuple[str, Reason | None]]:
        """Tell the engine which messages were completed, and count dead letters. Returns the files in quarantine."""
        engine_state = self.engine.state
        kept: list[tuple[str, Reason | None]] = []
        for done in state.completed:
            engine_state.completed.remember(done.message_id, done.addressee, done.digest, done.at)
        engine_state.families.restore(state.parts.values(), state.notices.values())
        self.missing.known_parts = state.told_parts | {key: part.at for key, part in state.parts.items()}
        with self._reporting("list queue/dead_letter"):
            engine_state.totals.dead = len(self.spool.dead_letters.files())
        with self._reporting("list queue/corrupt"):
            kept += self.spool.quarantined()
        engine_state.totals.rejected = len(kept)
        return kept

    def _remember_archived(self, in_flight: Iterable[TakenIn]) -> None:
        """Remember messages that were archived before a crash without the journal being told.

        Done before anything is met, because the same message may be written again during recovery (an escalation about
        a message that is still overdue), and must be recognised.
        """
        for entry in in_flight:
            if not entry.is_duplicate and not self._lies_there(entry):
                self.missing.was_completed(entry)

    # --- moves of two steps -------------------------------------------------------------------------------------------
    def _finish_moves(self, in_flight: Collection[TakenIn]) -> None:
        """Finish moves that were interrupted after the copy (to another mount) or the link (without renameat2), and
        before the old file was removed. Done before anything is met, so that nothing is met twice.

        A move out of dead_letter/ is undone instead: the receipt that asked for it is still there, and asks again.
        Unless the message was completed after all.
        """
        late = [entry for entry in in_flight if entry.late]
        entries = {(entry.box, entry.name): entry for entry in in_flight if not entry.late}
        for kept, reason in self._kept:
            with self._reporting(f"quarantine {kept}"):
                if reason is not None:
                    self.spool.finish_quarantine(kept, reason)
        for place in self._files_on_other_mounts():
            self._finish_move(place, entries.get((place.box, place.name)))
        for entry in sorted(in_flight, key=lambda one: not one.is_duplicate):  # a duplicate may have its twin's name
            self._finish_link(entry)
        for entry in late:
            self._finish_move(Place(entry.box, Folder.DEAD, entry.name), entry)

    def _files_on_other_mounts(self) -> list[Place]:
        """List the files of queues from which a move leads to another mount. A box that is no directory is left out."""
        found: list[Place] = []
        for box in self.spool.boxes():
            with self._reporting(f"queue/{box}"):
                if self.spool.births(box) is not None and self.spool.is_apart(box, *self._members_boxes(box)):
                    found += [place for place, _ in self.spool.scan(box)]
        return found

    def _finish_move(self, place: Place, entry: TakenIn | None) -> None:
        with self._reporting(f"finish the move of {place}"):
            for copy in self._copies(place, entry):
                if not self.spool.was_copied(place, to=copy):
                    continue
                if entry is not None and copy.folder is Folder.ARCHIVE and not entry.is_duplicate:
                    self.missing.was_completed(entry)  # if the old file cannot be removed, it is a second copy
                self.spool.finish_move(place, to=copy)
                return

    def _finish_link(self, entry: TakenIn) -> None:
        for folder in () if entry.late else (Folder.QUEUE, Folder.PROCESSED):
            place = Place(entry.box, folder, entry.name)
            with self._reporting(f"look at {place}"):
                if self.spool.is_linked(place):
                    self._finish_move(place, entry)
        if entry.pool and not entry.late:
            place = Place(self.missing.box(entry.pool), Folder.QUEUE, entry.name)
            with self._reporting(f"look at {place}"):
                if self.spool.is_linked(place):
                    self._finish_move(place, entry)

    def _members_boxes(self, box: str) -> list[str]:
        """Return the directories of the members of a pool, by the pool's directory; none for an agent's."""
        agent = self.engine.state.agents.get(self.intake.agent_of(box))
        pool = agent.pool if agent is not None else None
        return [self.missing.box(name) for name in pool.members] if pool is not None else []

    def _copies(self, place: Place, entry: TakenIn | None) -> Iterator[Place]:
        """Yield the places that a file may have been copied to. The archive needs the message's entry in the journal,
        which is written before the move."""
        if place.folder is Folder.QUEUE:
            for box in (place.box, *self._members_boxes(place.box)):
                yield from self.spool.namesakes(Place(box, Folder.PROCESSED, place.name))
        if place.folder is not Folder.DEAD:
            yield from self.spool.namesakes(Place(place.box, Folder.DEAD, place.name))
        if entry is not None:
            yield from self.missing.archived(entry)

    @contextlib.contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # the file is gone, or never existed
        except OSError as error:
            self.services.record(io_error(what=what, error=str(error)))

    # --- files --------------------------------------------------------------------------------------------------------
    async def _meet_urgent(self) -> None:
        """Meet messages in hand, answers, and messages that receipts name. Of two copies of a message the one in hand
        is met first, because it is the older."""
        named = frozenset(one.encode() for one in await self.intake.receipts.named())
        boxes = [box for box in sorted(self.spool.boxes()) if self.intake.meet_box(box)]
        await self._handle_posted()  # the engine must know the agents (they may be in no config) before their mail
        for box in boxes:
            with contextlib.suppress(OSError):  # a queue that cannot be listed counts as empty: the intake logs it
                self._meet_all(self.spool.in_hand(box))
            await self._handle_posted()
        for box in boxes:
            agent = self.engine.state.agents[self.intake.agent_of(box)]
            with contextlib.suppress(OSError):
                self._meet_all(self.backlog.look_at(box, agent.policy.aging_s, named))
            await self._handle_posted()

    def _meet_all(self, places: list[Place]) -> None:
        for place in places:
            event = self._meet(place)
            if isinstance(event, events.Arrived):
                self._settle_copy(event)
                self._met.add(_known_of(event.message))
            if event is not None and place.folder is Folder.PROCESSED:
                self._before.found[place] = event
            # Where a hint was quicker, the message may be completed before a second arrival is decided, and would then
            # count as its own duplicate.
            if event is not None and self.engine.state.deliveries.at(place) is None:
                self.pump.post(event)

    def _settle_copy(self, event: events.Arrived) -> None:
        """Settle a message that the journal has in hand and that lies in queue/. Files in processed/ were met before,
        so this is a second copy if the first one was archived just before the crash."""
        known = _known_of(event.message)
        waits = event.place.folder is Folder.QUEUE and known not in self._met
        entry = self._before.in_flight.get(known) if waits else None
        if entry is not None and self.missing.was_completed(entry):
            self.missing.settle([entry])

    async def _handle_posted(self) -> None:
        """Let the engine handle every event posted so far, which may take several turns, because a turn is bounded.
        Runs are matched with the messages that the engine knows."""
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
            self.services.record(io_error(what=f"read {place}", error=str(error)))
            return None
        if place.folder is Folder.PROCESSED and isinstance(event, events.Arrived):
            return self._add_what_is_known(event)
        if isinstance(event, events.Arrived) and self.intake.must_copy(event):
            self.intake.came(place, closed=False)
            return None
        return event

    def _settled(self, place: Place) -> bool:
        """True if the file has settled. As in a scan, its writer may not have finished."""
        return self.spool.settled(place, self.services.clock.now().wall, self.intake.settle_s)

    def _add_what_is_known(self, event: events.Arrived) -> events.Arrived:
        """Add to a message in hand what its run and the journal say about it."""
        known, before = _known_of(event.message), self._before
        run, entry = before.runs.get(known), before.in_flight.get(known)
        if entry is not None and entry.pool != event.message.pool and self._is_held_for_pool(entry):
            event = replace(event, message=replace(event.message, pool=entry.pool))
        if run is not None and _heard_before(run, event.standing):
            before.heard[known] = before.runs.pop(known)
        crashes = self._crashes(event, entry, clean=before.clean_stop, run_known=run is not None)
        if entry is not None and crashes != entry.crashes:
            self.journal.take_in(replace(entry, crashes=crashes))
        speaks = known in before.runs and run is not None and (run.alive or run.outcome is not None)
        logged = entry is not None and before.clean_stop  # after a crash, lines may have died with the machine
        return replace(event, crashes=crashes, run_alive=speaks, logged=logged)

    def _is_held_for_pool(self, entry: TakenIn) -> bool:
        """True if the journal's word about the pool of a message holds: also for an agent that is no member any more,
        and for a pool that the config has no longer, as long as its queue is there to take the message back."""
        return not entry.pool or entry.pool in self.engine.state.agents

    def _crashes(self, event: events.Arrived, entry: TakenIn | None, *, clean: bool, run_known: bool) -> int:
        """Count the crashes of the daemon with this message in hand. This one counts if the message was being
        delivered, or was inside a handler."""
        before = entry.crashes if entry is not None else 0
        policy = self.engine.state.agents[event.message.recipient].policy
        status = event.standing.status if event.standing is not None else Status.PROCESSING
        in_hand = status is Status.PROCESSING or (policy.volatile and status is not Status.RETRYING)
        return before + 1 if in_hand and not clean and not run_known and entry is not None else before

    # --- runs ---------------------------------------------------------------------------------------------------------
    def _take_runs(self, runs: list[FoundRun], before: _Before) -> None:
        """Take the runs that were found. The run of a message that cannot be read yet waits, so that its result is not
        lost."""
        for run in runs:
            entry = before.in_flight.get(_known_run(run))
            if entry is not None and _known_run(run) not in self._met and self._lies_there(entry):
                self._waiting_runs.append(run)
            else:
                self._take_run(run, before)

    def _take_run(self, run: FoundRun, before: _Before) -> None:
        """Adopt a run. The run that decides its message, or has decided it, is adopted under the message's key, so that
        no other run is started beside it. Any other run is only watched until it ends."""
        known = _known_run(run)
        latest = before.runs.get(known) is run
        delivery = self._delivery_of(run) if latest or before.heard.get(known) is run else None
        if delivery is None:
            self.adopt(run.agent, None, run, speaks_for=None)
            return
        attempt = delivery.tells if latest and delivery.told else None  # not told: somebody moved it back into queue/
        self.adopt(run.agent, delivery.key, run, speaks_for=attempt)
        if attempt is not None and run.outcome is not None:
            self.pump.post(events.RunEnded(delivery.key, run.outcome, run.detail, attempt))

    def was_met(self, met: MessageMet) -> None:
        """Take the runs of a message that could not be read until now, before anything is done with the message."""
        for run in [run for run in self._waiting_runs if run.message_id == met.message_id]:
            if self._delivery_of(run) is not None:
                self._waiting_runs.remove(run)
                self._take_run(run, self._before)

    def _wait_for(self, unread: list[TakenIn]) -> None:
        self.unread_ids = frozenset(entry.message_id for entry in unread)
        places = (place for entry in unread for place in self.missing.still_to_read(entry))
        self.intake.owe((place for place in places if place.folder is Folder.PROCESSED), self._add_what_is_known)

    def _delivery_of(self, run: FoundRun) -> Delivery | None:
        agent = self.engine.state.agent_called(run.agent)
        open_ones = self.engine.state.deliveries.of_id(run.message_id, agent) if agent is not None else []
        return next((one for one in open_ones if one.message.digest == run.digest), None)

    # --- messages that were written over ------------------------------------------------------------------------------
    def _withdraw_overwritten(self) -> None:
        """Withdraw messages that the journal has in hand and in whose place another file lies: they were written over
        while no daemon ran. Done now, because the other file will be moved on, and the message would then seem
        completed."""
        before = self._before
        for known, entry in list(before.in_flight.items()):
            found = before.found.get(Place(entry.box, Folder.PROCESSED, entry.name))
            waits = not self.spool.is_gone(Place(entry.box, Folder.QUEUE, entry.name))
            if known in self._met or found is None or waits:
                continue
            if self.missing.was_completed(entry):
                continue
            del before.in_flight[known]
            self._met.add(known)
            self.missing.let_go(entry, MessageEnd.WITHDRAWN, self.services.clock.now().wall)
            if isinstance(found, events.Unreadable):
                self._say_written_over(entry, f"what is no message ({found.code})")
            elif found.message.message_id != entry.message_id:  # else the message goes on, with other content
                self._say_written_over(entry, f"another message, {found.message.message_id}")

    def _say_written_over(self, entry: TakenIn, by: str) -> None:
        reason = f"overwritten with {by} while ackd was away"
        self.services.record(
            message_withdrawn(message_id=entry.message_id, agent=entry.agent, reason=reason, recovered=True)
        )
        self.services.emit(MessageEnded(entry.message_id, entry.agent, MessageEnd.WITHDRAWN))
        self.engine.state.totals.withdrawn += 1

    # --- messages of the journal that were not met --------------------------------------------------------------------
    def _lies_there(self, entry: TakenIn) -> bool:
        """True if the message may still be there although it was not met: the last daemon died before the claim moved
        it, and it has not settled yet, or it cannot be read."""
        return self.missing.may_lie_there(entry)

    def _name_is_taken(self, entry: TakenIn) -> bool:
        return next(self.missing.under_its_name(entry), None) is not None


@dataclass(frozen=True)
class _Before:
    """The state that the last daemon left, by message. ``runs`` are those whose result is still to be heard, ``heard``
    those whose result is already in the header."""

    in_flight: dict[_Known, TakenIn]
    runs: dict[_Known, FoundRun]
    heard: dict[_Known, FoundRun]
    #: The files that lie in processed/ now.
    found: dict[Place, events.Arrived | events.Unreadable]
    clean_stop: bool


def _known_run(run: FoundRun) -> _Known:
    return _known(run.agent, run.message_id, run.digest)


def _latest(runs: list[FoundRun]) -> dict[_Known, FoundRun]:
    """Return the run that decides each message: one that is alive, else the one started last."""
    ordered = sorted(runs, key=lambda run: (run.alive, run.started_at))
    return {_known_run(run): run for run in ordered}


def _heard_before(run: FoundRun, standing: Standing | None) -> bool:
    """True if the run's result is already in the header, as a retry that is due after the run began. The result must
    not count twice."""
    if standing is None or standing.status is not Status.RETRYING or standing.next_retry_at is None:
        return False
    return run.started_at < standing.next_retry_at
