"""After a start: the directories say what is, the journal says what was in hand, the runs say what came of it.

Reads them once, feeds the engine the same events as ever, and writes the log lines that a crash swallowed
(``recovered: true``). Safe to be interrupted and done again: nothing here moves a file, and a line is only written if
the log of the sessions before has none.

| found                                              | means                                            |
|----------------------------------------------------|--------------------------------------------------|
| in queue/                                          | never claimed: offered                           |
| in processed/, its run alive or with a result      | adopted, or its result taken                     |
| in processed/, else                                | by its header: offered again, or its clock goes on |
| journal has it, file in archive/ or dead_letter/   | ended; the line is written if it is missing      |
| journal has it, file nowhere, directory intact     | its agent completed it while we were away        |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio.lowlevel

from ackd.adapters import exec_runs, session_log
from ackd.adapters.journal import End, LetGo, TakenIn
from ackd.core import events
from ackd.core.message import Folder, Place, Status
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.exec_runs import FoundRun
    from ackd.adapters.journal import Held, Journal, JournalState
    from ackd.adapters.spool import Spool
    from ackd.core.engine import Engine
    from ackd.core.message import Message
    from ackd.ports import Clock
    from ackd.runtime.intake import Intake
    from ackd.runtime.pump import Pump


def held(message: Message) -> Held:
    """How the journal knows it."""
    return (message.recipient, message.message_id, message.digest)


_TERMINAL = frozenset({"message_completed", "message_dead", "message_withdrawn", "message_duplicate"})


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
    adopt: Callable[[str, int, FoundRun], None]

    def count(self, state: JournalState, runs: list[FoundRun]) -> dict[str, int]:
        """What there is to recover, for the session's first line: by names only."""
        places = [place for box in self.spool.boxes() for place, _ in self.spool.scan(box)]
        return {
            "queued": sum(place.folder is Folder.QUEUE for place in places),
            "processed": sum(place.folder is Folder.PROCESSED for place in places),
            "in_journal": len(state.in_flight),
            "runs": len(runs),
        }

    async def recover(self, state: JournalState, runs: list[FoundRun]) -> None:
        self._remember(state)
        by_message = {(run.message_id, run.agent): run for run in runs}
        met = await self._meet_all(state, by_message)
        self._take_runs(runs)
        self._missing(state, met)
        for entry in list(self.spool.scan_receipts()):
            self.intake.receipt(entry.name)

    def _remember(self, state: JournalState) -> None:
        desk = self.engine.desk
        for done in state.completed:
            desk.completed.remember(done.message_id, done.agent, done.digest, done.at)
        desk.totals.dead = sum(1 for _ in self.spool.dead_letters())
        desk.totals.rejected = sum(1 for _ in self.spool.quarantined())

    # --- files --------------------------------------------------------------------------------------------------------
    async def _meet_all(self, state: JournalState, runs: dict[tuple[str, str], FoundRun]) -> set[Held]:
        """Every file becomes an event; a turn of the pump between two boxes lets deliveries begin meanwhile."""
        met: set[Held] = set()
        for box in sorted(self.spool.boxes()):
            self.intake.meet_box(box)
            for place, _ in list(self.spool.scan(box)):
                if place.folder is Folder.PROCESSED:
                    self._meet(place, state, runs, met)
                else:
                    self._meet_queued(place, met)
            self.pump.turn()
            await anyio.lowlevel.checkpoint()
        return met

    def _meet_queued(self, place: Place, met: set[Held]) -> None:
        """As a scan meets it: a writer may still be at it."""
        if not place.name.endswith(".mime"):
            return
        if not self.spool.settled(place, self.clock.now().wall, self.intake.settle_s):
            self.intake.came(place, closed=False)
            return
        self._post(place, met)

    def _meet(self, place: Place, state: JournalState, runs: dict[tuple[str, str], FoundRun], met: set[Held]) -> None:
        event = self._look(place)
        if not isinstance(event, events.Arrived):
            if event is not None:
                self.pump.post(event)
            return
        message = event.message
        met.add(held(message))
        run = runs.get((message.message_id, message.recipient))
        alive = run is not None and (run.alive or run.outcome is not None)
        entry = state.in_flight.get(held(message))
        crashes = self._crashes(event, entry, clean=state.clean_stop, run_known=run is not None)
        if entry is not None and crashes != entry.crashes:
            self.journal.take_in(replace(entry, crashes=crashes))
        self.pump.post(replace(event, crashes=crashes, run_alive=alive))

    def _crashes(self, event: events.Arrived, entry: TakenIn | None, *, clean: bool, run_known: bool) -> int:
        """It counts as ours if we died with the message in hand: being told, or inside a handler."""
        before = entry.crashes if entry is not None else 0
        policy = self.engine.desk.book.agents[event.message.recipient].policy
        status = event.standing.status if event.standing is not None else Status.PROCESSING
        in_hand = status is Status.PROCESSING or (policy.volatile and status is not Status.RETRYING)
        return before + 1 if in_hand and not clean and not run_known and entry is not None else before

    def _post(self, place: Place, met: set[Held]) -> None:
        event = self._look(place)
        if event is None:
            return
        if isinstance(event, events.Arrived):
            met.add(held(event.message))
        self.pump.post(event)

    def _look(self, place: Place) -> events.Arrived | events.Unreadable | None:
        if not place.name.endswith(".mime"):
            return None
        try:
            return self.intake.look(place, recovered=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.record("io_error", {"what": f"read {place}", "error": str(error)})
            return None

    # --- runs ---------------------------------------------------------------------------------------------------------
    def _take_runs(self, runs: list[FoundRun]) -> None:
        orphans = 0
        for run in runs:
            open_ones = self.engine.desk.book.of_id(run.message_id, run.agent)
            if open_ones:
                key = open_ones[0].key
                self.adopt(run.agent, key, run)
                if run.outcome is not None:
                    self.pump.post(events.RunEnded(key, run.outcome, run.detail))
            elif run.alive:
                orphans += 1
                self.adopt(run.agent, -orphans, run)  # its message has ended; the run is still ours to see through
            else:
                exec_runs.discard_run(run)

    # --- what the journal misses ----------------------------------------------------------------------------------------
    def _missing(self, state: JournalState, met: set[Held]) -> None:
        gone = [entry for key, entry in state.in_flight.items() if key not in met]
        if not gone:
            return
        told, graves = self._told_by_log(), self._graves()
        for entry in gone:
            end, fact, words = self._what_became_of(entry, graves)
            self.journal.let_go(
                LetGo(entry.agent, entry.message_id, entry.name, end, entry.digest, self.clock.now().wall)
            )
            if (entry.message_id, entry.agent) not in told:
                about = {"message_id": entry.message_id, "agent": entry.agent}
                self.record(fact, {**about, **words, "recovered": True})
                self.engine.desk.totals.completed += end is End.COMPLETED
            if end is End.COMPLETED:
                now = self.clock.now().wall
                self.engine.desk.completed.remember(entry.message_id, entry.agent, entry.digest, now)

    def _what_became_of(self, entry: TakenIn, graves: dict[str, str]) -> tuple[End, str, dict[str, object]]:
        kept = self._in_archive(entry)
        if kept is not None:
            return End.COMPLETED, "message_completed", {"by": "found in the archive", "file": str(kept)}
        if entry.message_id in graves:
            words: dict[str, object] = {"from": entry.sender, "reason": graves[entry.message_id]}
            return End.DEAD, "message_dead", words
        if self.spool.births(entry.box) is None:
            return End.WITHDRAWN, "message_withdrawn", {"reason": "spool_lost: its directory is gone"}
        return End.COMPLETED, "message_completed", {"by": "file deleted by its agent while ackd was away"}

    def _in_archive(self, entry: TakenIn) -> Place | None:
        since = datetime.fromtimestamp(entry.at, UTC).date() - timedelta(days=1)
        today = datetime.fromtimestamp(self.clock.now().wall, UTC).date()
        days = min(max((today - since).days, 0), 3660)
        dates = [(today - timedelta(days=n)).strftime("%Y%m%d") for n in range(days + 1)]
        return self.spool.find_in_archive(entry.box, entry.name, dates)

    def _graves(self) -> dict[str, str]:
        """Dead letters by message id, with their reasons."""
        found = {}
        for _, head in self.spool.dead_letters():
            fields = dict(ignite.headers(head))
            found[ignite.bare_id(fields.get("Message-ID", ""))] = fields.get("X-IGNITE-Error-Reason", "unknown")
        return found

    def _told_by_log(self) -> set[tuple[str, str]]:
        """Ends that the last sessions' logs already tell of. Two: the newest file is this session's own."""
        told = set()
        for path in session_log.session_files(self.logs_dir)[-3:]:
            for line in session_log.read_lines(path):
                if line.type in _TERMINAL:
                    told.add((str(line.data.get("message_id")), str(line.data.get("agent"))))
        return told
