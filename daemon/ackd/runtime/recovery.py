"""After a start: the directories say what is, the journal says what was in hand, the runs say what came of it.

Reads them once, feeds the engine the same events as ever, and writes the log lines that a crash swallowed
(``recovered: true``). Safe to be interrupted and done again: nothing here moves a file (but for removing what has been
copied to another file system), and a line is only written if the log of the sessions before has none.

| found                                              | means                                            |
|----------------------------------------------------|--------------------------------------------------|
| in queue/                                          | never claimed: offered                           |
| in processed/, its run alive or with a result      | adopted, or its result taken                     |
| in processed/, and a copy in archive/ or dead_letter/ | its move across file systems was not finished: it is |
| in processed/, else                                | by its header: offered again, or its clock goes on |
| journal has it, something else in its place        | written over while we were away: withdrawn       |
| journal has it, file in archive/ or dead_letter/   | ended; the line is written if it is missing      |
| journal has it, file nowhere, directory intact     | its agent completed it while we were away        |
| journal has it, file nowhere, directory another    | lost with its directory: said loudly             |

Names are compared as identities: a config that now spells an agent otherwise has not renamed it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio.lowlevel

from ackd.adapters import session_log
from ackd.adapters.journal import End, LetGo, TakenIn
from ackd.core import events
from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place, Status, identity
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.exec_runs import FoundRun
    from ackd.adapters.journal import Journal, JournalState
    from ackd.adapters.spool import Spool
    from ackd.core.engine import Engine
    from ackd.core.message import Standing
    from ackd.ports import Clock
    from ackd.runtime.intake import Intake
    from ackd.runtime.pump import Pump


#: One message for one agent: identity of the agent, message id, digest of its content.
_Known: TypeAlias = tuple[str, str, str]


def _known(agent: str, message_id: str, digest: str) -> _Known:
    return (identity(agent), message_id, digest)


class Adopt(Protocol):
    """Take over a run: under its message's key, or None. ``speaks``: its end is news to the message."""

    def __call__(self, agent: str, key: int | None, run: FoundRun, *, speaks: bool) -> None: ...


_TERMINAL: Final = frozenset({"message_completed", "message_dead", "message_withdrawn", "message_duplicate"})


@dataclass
class Recovery:
    spool: Spool
    engine: Engine
    pump: Pump
    intake: Intake
    journal: Journal
    clock: Clock
    logs_dir: Path
    record: Callable[[str, dict[str, object]], None]
    adopt: Adopt
    #: Queue directories that are gone, or others than those we left: what is missing there was completed by nobody.
    lost_boxes: frozenset[str] = frozenset()

    def count(self, state: JournalState, runs: list[FoundRun]) -> dict[str, int]:
        """What there is to recover, for the session's first line: by names only."""
        places = [place for box in self.spool.boxes() for place in self._places(box)]
        return {
            "queued": sum(place.folder is Folder.QUEUE for place in places),
            "processed": sum(place.folder is Folder.PROCESSED for place in places),
            "in_journal": len(state.in_flight),
            "runs": len(runs),
        }

    def _places(self, box: str) -> list[Place]:
        """A box that cannot be listed has none for now: intake says so, and tries again."""
        try:
            found = [place for place, _ in self.spool.scan(box)]
        except OSError:
            return []
        return sorted(found, key=lambda place: place.folder is Folder.QUEUE)  # of two twins the one in hand is older

    async def recover(self, state: JournalState, runs: list[FoundRun]) -> None:
        self._remember(state)
        in_flight = {_known(e.agent, e.message_id, e.digest): e for e in state.in_flight.values()}
        before = _Before(in_flight, _latest(runs), {}, {}, clean_stop=state.clean_stop)
        met = await self._meet_all(before)
        self._take_runs(runs, before)
        self._write_off(before, met)
        self._missing([e for known, e in in_flight.items() if known not in met and not self._still_there(e)])
        await self.intake.letterbox.scan()
        self.pump.post(events.RecoveryEnded())

    def _remember(self, state: JournalState) -> None:
        desk = self.engine.desk
        for done in state.completed:
            desk.completed.remember(done.message_id, done.agent, done.digest, done.at)
        desk.totals.dead = len(self.spool.graves.files())
        desk.totals.rejected = sum(1 for _ in self.spool.quarantined())

    # --- files --------------------------------------------------------------------------------------------------------
    async def _meet_all(self, before: _Before) -> set[_Known]:
        """Every file becomes an event; a turn of the pump between two boxes lets deliveries begin meanwhile."""
        met: set[_Known] = set()
        for box in sorted(self.spool.boxes()):
            if not self.intake.meet_box(box):
                continue
            self.pump.turn()  # its agent may be in no config: the engine hears of it before its mail is looked at
            for place in self._places(box):
                event = self._meet(place, before)
                if isinstance(event, events.Arrived):
                    met.add(_known(event.message.recipient, event.message.message_id, event.message.digest))
                if event is not None:
                    if place.folder is Folder.PROCESSED:
                        before.found[place] = event
                    self.pump.post(event)
            await self._heard()
        return met

    async def _heard(self) -> None:
        """To the last event, for a turn is bounded: runs are looked up by the messages that were met."""
        self.pump.turn()
        while not self.pump.idle():
            await anyio.lowlevel.checkpoint()
            self.pump.turn()
        await anyio.lowlevel.checkpoint()

    def _meet(self, place: Place, before: _Before) -> events.Arrived | events.Unreadable | None:
        if not place.name.endswith(".mime"):
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
            return None if self._was_moved(event, before) else self._taken_up(event, before)
        return event

    def _was_moved(self, event: events.Arrived, before: _Before) -> bool:
        """Copied to another file system, and we died before the old file was removed. The copy was the commit."""
        message, place = event.message, event.place
        entry = before.in_flight.get(_known(message.recipient, message.message_id, message.digest))
        if entry is None or not self.spool.is_apart(place.box):
            return False
        copies = (self._in_archive(replace(entry, name=place.name)), Place(place.box, Folder.DEAD, place.name))
        if not any(copy is not None and self.spool.is_copy(place, of=copy) for copy in copies):
            return False
        self.spool.remove_moved(place)
        return True

    def _settled(self, place: Place) -> bool:
        """As a scan meets it: a writer may still be at it."""
        return self.spool.settled(place, self.clock.now().wall, self.intake.settle_s)

    def _taken_up(self, event: events.Arrived, before: _Before) -> events.Arrived:
        """A file that we had in hand: with what its run and the journal add to it."""
        message = event.message
        known = _known(message.recipient, message.message_id, message.digest)
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
        """The one that speaks for its message, or has spoken, is adopted under the message's key, so that no other is
        started beside it; any other is only seen through."""
        for run in runs:
            known = _known(run.agent, run.message_id, run.digest)
            speaks = before.runs.get(known) is run
            key = self._key_of(run) if speaks or before.heard.get(known) is run else None
            self.adopt(run.agent, key, run, speaks=speaks)
            if speaks and key is not None and run.outcome is not None:
                self.pump.post(events.RunEnded(key, run.outcome, run.detail))

    def _key_of(self, run: FoundRun) -> int | None:
        agent = self.engine.desk.agent_called(run.agent)
        open_ones = self.engine.desk.book.of_id(run.message_id, agent) if agent is not None else []
        return next((one.key for one in open_ones if one.message.digest == run.digest), None)

    # --- what was written over ----------------------------------------------------------------------------------------
    def _write_off(self, before: _Before, met: set[_Known]) -> None:
        """In hand by the journal, and what lies in its place is something else: its file was written over while we were
        away. Said now, for what lies there goes its own way, and would leave a message that seems completed."""
        for known, entry in list(before.in_flight.items()):
            found = before.found.get(Place(entry.box, Folder.PROCESSED, entry.name))
            if known in met or found is None:
                continue
            del before.in_flight[known]
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
    def _still_there(self, entry: TakenIn) -> bool:
        """Not met, and not gone: we died before the claim moved it and it has not settled yet, or it cannot be read."""
        places = (Place(entry.box, folder, entry.name) for folder in (Folder.QUEUE, Folder.PROCESSED))
        return any(map(self.spool.exists, places))

    def _missing(self, gone: list[TakenIn]) -> None:
        if not gone:
            return
        told, graves = self._told_by_log(min(entry.at for entry in gone)), self._graves()
        lost: dict[str, list[Place]] = {}
        for entry in gone:
            end, fact, words = self._what_became_of(entry, graves)
            now = self.clock.now().wall
            self.journal.let_go(LetGo(entry.agent, entry.message_id, entry.name, end, entry.digest, now))
            if told.get((entry.message_id, identity(entry.agent)), 0.0) < entry.at:
                about = {"message_id": entry.message_id, "agent": entry.agent}
                self.record(fact, {**about, **words, "recovered": True})
                self.engine.desk.totals.completed += end is End.COMPLETED
                self.engine.desk.totals.withdrawn += end is End.WITHDRAWN
            if end is End.COMPLETED:
                self.engine.desk.completed.remember(entry.message_id, entry.agent, entry.digest, now)
            elif end is End.WITHDRAWN:
                lost.setdefault(entry.box, []).append(Place(entry.box, Folder.PROCESSED, entry.name))
        for box, places in lost.items():
            self.pump.post(events.SpoolLost(box, tuple(places)))

    def _what_became_of(
        self, entry: TakenIn, graves: dict[tuple[str, str], dict[str, object]]
    ) -> tuple[End, str, dict[str, object]]:
        kept = self._in_archive(entry)
        if kept is not None:
            return End.COMPLETED, "message_completed", {"by": "found in the archive", "file": str(kept)}
        grave = graves.get((entry.message_id, identity(entry.agent)))
        if grave is not None:
            return End.DEAD, "message_dead", {"from": entry.sender, **grave}
        if entry.box in self.lost_boxes:
            reason = "spool_lost: its directory was removed or replaced while ackd was away"
            return End.WITHDRAWN, "message_withdrawn", {"reason": reason}
        return End.COMPLETED, "message_completed", {"by": "file deleted by its agent while ackd was away"}

    def _in_archive(self, entry: TakenIn) -> Place | None:
        since = datetime.fromtimestamp(entry.at, UTC).date() - timedelta(days=1)
        today = datetime.fromtimestamp(self.clock.now().wall, UTC).date()
        days = min(max((today - since).days, 0), 3660)
        dates = [(today - timedelta(days=n)).strftime("%Y%m%d") for n in range(days + 1)]
        return self.spool.find_in_archive(entry.box, entry.name, dates)

    def _graves(self) -> dict[tuple[str, str], dict[str, object]]:
        """Dead letters by message id and recipient (a Message-ID may have several), as their log line has them."""
        found: dict[tuple[str, str], dict[str, object]] = {}
        for name, head in self.spool.dead_letters():
            try:
                fields = dict(ignite.headers(head))
            except BadMessage:
                continue  # somebody else's, or written over
            to = fields.get("X-IGNITE-Recipient") or fields.get("To", "").partition(",")[0].strip()
            count = fields.get("X-IGNITE-Retry-Count", "")
            found[ignite.bare_id(fields.get("Message-ID", "")), identity(to)] = {
                "reason": fields.get("X-IGNITE-Error-Reason", "unknown"),
                "retry_count": int(count) if count.isdecimal() else 0,
                "file": str(Place(to, Folder.DEAD, name)),
            }
        return found

    def _told_by_log(self, since: float) -> dict[tuple[str, str], float]:
        """When the log last told of a message's end: the line of an earlier life says nothing about this one."""
        told: dict[tuple[str, str], float] = {}
        for line in session_log.iter_logs(self.logs_dir, newest_first=True):
            if line.at < since:
                break
            if line.type in _TERMINAL:
                told.setdefault((str(line.data.get("message_id")), identity(str(line.data.get("agent")))), line.at)
        return told


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


def _latest(runs: list[FoundRun]) -> dict[_Known, FoundRun]:
    """The run that speaks for each message: one that lives, else the one started last."""
    ordered = sorted(runs, key=lambda run: (run.alive, run.started_at))
    return {_known(run.agent, run.message_id, run.digest): run for run in ordered}


def _heard_before(run: FoundRun, standing: Standing | None) -> bool:
    """A retry that was written down later than the run began has heard its word: it must not count twice."""
    if standing is None or standing.status is not Status.RETRYING or standing.next_retry_at is None:
        return False
    return run.started_at < standing.next_retry_at
