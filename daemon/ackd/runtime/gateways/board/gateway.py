"""Drives meetings: asks the directors phase by phase, ends phases by their time, tells whoever called the meeting.

Owns the clocks of meetings and the errands that follow from their state. A meeting's record is the truth: a look reads
it, starts its clock if nobody has, lets it advance, runs the errands that were not run yet (mail with derived ids, then
the line), and notes them in the record; after a crash the same look makes the same mail. Refuses to decide anything
about a meeting (core/board) and to know its files (runtime/board_room). Another process that holds the board's lock for
long delays its track only, and so does a file of a board that cannot be read or written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.adapters import board_files
from ackd.core.board import foreign
from ackd.core.board.errands import Address, Errand, errands
from ackd.core.board.meeting import Driver, Meeting, Seat, advanced, timed, waited_for
from ackd.core.board.phases import Phase
from ackd.core.errors import BadMeeting, Busy, NoMeeting, UnknownAgent
from ackd.core.message import USER
from ackd.core.waits import Wait
from ackd.runtime.board_room import WRITING_S, BoardRoom
from ackd.runtime.gateways.gateway import LookRefused
from ackd.runtime.gateways.waits_said import WaitsSaid
from ackd.threads import in_thread
from ackd.tracks import find_tracks, watch_places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.config_coordination import Board, Bus
    from ackd.core.bus_layout import Track
    from ackd.core.bus_words import BusLine
    from ackd.runtime.gateways.gateway import Around

#: When a board whose lock another process held is looked at again.
HELD_S: Final = 1.0


class BoardGateway:
    """A gateway, and a subscriber of the bus."""

    name = "board"
    listens: frozenset[str] = frozenset()

    def __init__(self, board: Board, bus: Bus | None, escalate_to: str, around: Around) -> None:
        self._timeouts = {
            Phase.ASSESSING: board.assess_timeout_s,
            Phase.DISCUSSING: board.discuss_timeout_s,
            Phase.VOTING: board.vote_timeout_s,
        }
        self._patterns = bus.tracks if bus is not None else ()
        self._board, self._rounds = board, board.rounds
        self._escalate_to = escalate_to
        self._orchestrator = (bus.orchestrator if bus is not None else "") or escalate_to
        self._around = around
        self._tracks: list[Track] = []
        self._rooms: dict[str, BoardRoom] = {}
        #: By the bus: meetings that are over and told of, and when it is to be looked at again (monotonic).
        self._finished: dict[str, set[str]] = {}
        self._due: dict[str, float] = {}
        #: When each phase that was met ends, by the monotonic clock: a wall clock that is set ends none.
        self._ends: dict[tuple[str, str, str, int], float] = {}
        #: Since when each of those that are not ours has all its answers.
        self._complete: dict[tuple[str, str, str, int], float] = {}
        self._open: dict[str, dict[str, str]] = {}
        self._told_of: set[str] = set()
        #: By the bus and the meeting: who called it, and waits for its end.
        self._openers: dict[str, dict[str, str]] = {}
        self._waits_said = WaitsSaid(self.name, around.post)

    # --- as a gateway -------------------------------------------------------------------------------------------------
    def heard(self, type_: str, data: dict[str, object]) -> None:
        """Listens to no lines."""

    def places(self) -> frozenset[str]:
        """A board's directory, those of older meetings that are open, and where a new board would show itself."""
        found = watch_places(self._around.base, self._patterns, self._around.root)
        for track in self._tracks:
            found.add(track.board if Path(track.board).is_dir() else track.bus)
            found.update(f"{track.board}/{meeting_id}" for meeting_id in self._open.get(track.bus, ()))
        return frozenset(found)

    async def look(self, where: frozenset[str] | None) -> float | None:
        self._tracks = find_tracks(self._around.base, self._patterns, self._around.root)
        refused: dict[str, OSError] = {}
        for track in self._tracks:
            if where is None or self._is_touched(track, where) or self._is_due(track):
                try:
                    await self._attend(track)
                except OSError as error:
                    refused[f"track {track.name}"] = error
        known = {track.bus for track in self._tracks}
        self._due = {bus: at for bus, at in self._due.items() if bus in known}
        self._openers = {bus: openers for bus, openers in self._openers.items() if bus in known}
        self._waits_said.say(
            (self._around.called(opener), Wait(None, f"board meeting {meeting_id}", self._open[bus][meeting_id]))
            for bus, openers in self._openers.items()
            for meeting_id, opener in openers.items()
        )
        wish = max(0.0, min(self._due.values()) - self._around.clock.now().mono) if self._due else None
        if refused:
            raise LookRefused(refused, wish)
        return wish

    def page(self) -> dict[str, object]:
        """Open meetings by track."""
        names = {track.bus: track.name for track in self._tracks}
        return {names.get(bus, bus): meetings for bus, meetings in self._open.items() if meetings}

    def _is_touched(self, track: Track, where: frozenset[str]) -> bool:
        return any(place == track.bus or place.startswith(track.board) for place in where)

    def _is_due(self, track: Track) -> bool:
        due_at = self._due.get(track.bus, float("inf"))
        return track.bus not in self._finished or due_at <= self._around.clock.now().mono

    # --- as a subscriber ----------------------------------------------------------------------------------------------
    async def line(self, track: Track, line: BusLine) -> None:
        """What a director says on the bus. The record changes, and the look that this brings about does the rest."""
        if not line.type.value.startswith("BOARD_"):
            return
        try:
            await self._adopt(track)  # what is said to a session is said after it was begun
            if not board_files.meeting_ids(track.board):
                return
            await in_thread(self._room(track).hear, line, self._around.clock.now().wall)
        except Busy as error:
            raise OSError(0, str(error)) from error  # the line will come again

    # --- one track ----------------------------------------------------------------------------------------------------
    async def _attend(self, track: Track) -> None:
        """One meeting that the disk refuses keeps no other waiting: the first refusal is raised when all were met."""
        finished = self._finished.setdefault(track.bus, set())
        room, self._due[track.bus] = self._room(track), float("inf")
        self._open[track.bus], self._openers[track.bus] = {}, {}
        try:
            await self._adopt(track)
        except Busy:
            self._look_again(track, HELD_S)
        newest, refused = True, list[OSError]()
        for meeting_id in board_files.newest_first(track.board):
            if newest or meeting_id not in finished:
                try:
                    await self._drive(track, room, meeting_id)
                except OSError as error:
                    refused.append(error)
            newest = False
        self._tell_of_strange(track, room)
        if self._due[track.bus] == float("inf"):
            del self._due[track.bus]
        if refused:
            raise refused[0]

    async def _adopt(self, track: Track) -> None:
        """A session that the seed's own ``create_board_session`` has begun, if it is younger than its first phase may
        last: what is older was somebody's long ago."""
        room = self._room(track)
        make = partial(self._as_meeting, track, room)
        await in_thread(room.adopt, make, self._around.clock.now().wall)

    def _as_meeting(
        self, track: Track, room: BoardRoom, meeting_id: str, session: object, written_at: float, queue_from: int
    ) -> Meeting | None:
        if not foreign.is_open(session):
            return None
        path, wall = f"{track.board}/session-{meeting_id}.json", self._around.clock.now().wall
        if abs(wall - written_at) > self._timeouts[Phase.ASSESSING]:
            room.strange[path] = "a session that is older than its first phase may last: nobody drives it"
            return None
        try:
            return foreign.adopted(
                meeting_id,
                session,
                seat_of=self._seat,
                opener=self._orchestrator,
                rounds=self._rounds,
                queue_from=queue_from,
                begun_at=min(written_at, wall),
            )
        except BadMeeting as error:
            room.strange[path] = error.why
            return None

    def _seat(self, director: str) -> Seat:
        board = self._board
        return Seat(director, board.directors.get(director, "the whole"), board.agents.get(director, director))

    async def _drive(self, track: Track, room: BoardRoom, meeting_id: str) -> None:
        now = self._around.clock.now()
        act = partial(self._timed_and_advanced, track, now.wall)
        room.unsettled = False
        try:
            meeting = await in_thread(room.change, meeting_id, act, now.wall)
            meeting = await self._run_errands(track, room, meeting)
        except Busy:
            self._look_again(track, HELD_S)
            return
        except BadMeeting as error:
            room.strange[error.path] = error.why
            return
        except NoMeeting:  # removed by hand
            return
        if room.unsettled:
            self._look_again(track, WRITING_S)
        if meeting.is_over:
            self._finished[track.bus].add(meeting_id)
            return
        self._openers[track.bus][meeting_id] = meeting.opener
        self._open[track.bus][meeting_id] = f"{meeting.phase.value} {meeting.round or ''}".rstrip()
        self._look_again(track, self._left_s(track, meeting))

    def _look_again(self, track: Track, in_s: float) -> None:
        self._due[track.bus] = min(self._due[track.bus], self._around.clock.now().mono + in_s)

    # --- time ---------------------------------------------------------------------------------------------------------
    def _timed_and_advanced(self, track: Track, wall: float, meeting: Meeting) -> Meeting:
        """A phase that begins by this gets its clock, too. In the thread that holds the lock."""
        while meeting.is_open:
            meeting = timed(meeting, wall, self._timeouts[meeting.phase])
            after = advanced(meeting, wall, time_is_up=self._left_s(track, meeting) <= 0)
            if after == meeting:
                return meeting
            meeting = after
        return meeting

    def _left_s(self, track: Track, meeting: Meeting) -> float:
        """Of the phase or round. By its deadline when it is first met, from then on by the monotonic clock. What is
        complete and not ours is left for a moment to the hand that made it."""
        if not meeting.is_open or meeting.deadline_at is None:
            return 0.0
        now = self._around.clock.now()
        key = (track.bus, meeting.meeting_id, meeting.phase.value, meeting.round)
        end = self._ends.setdefault(key, now.mono + meeting.deadline_at - now.wall)
        if meeting.driver is Driver.ADOPTED and not waited_for(meeting):
            end = min(end, self._complete.setdefault(key, now.mono) + foreign.HAND_S)
        else:
            self._complete.pop(key, None)
        return end - now.mono

    # --- errands ------------------------------------------------------------------------------------------------------
    async def _run_errands(self, track: Track, room: BoardRoom, meeting: Meeting) -> Meeting:
        address = Address(track.name, track.bus, self._escalate_to)
        due = list(errands(meeting, address))
        for errand in due:
            await self._run(errand)
        if due:
            keys = [errand.key for errand in due]
            await in_thread(room.note, meeting.meeting_id, keys)
        return meeting

    async def _run(self, errand: Errand) -> None:
        if errand.mail is not None:
            try:
                await self._around.mail(errand.mail)
            except UnknownAgent as error:
                await self._nobody(errand, error)
        if errand.data is not None:
            self._around.record(errand.type, dict(errand.data))

    async def _nobody(self, errand: Errand, error: UnknownAgent) -> None:
        """A director without an agent may still answer by the files. Whoever called the meeting must hear of its end:
        then the user does."""
        assert errand.mail is not None
        about = {"meeting": errand.mail.thread_id, "agent": error.name}
        self._around.record("board_answer", {**about, "what": errand.mail.type, "refused": f"{error}: nobody is told"})
        if errand.mail.type != "board_request":
            await self._around.mail(replace(errand.mail, recipient=USER))

    # --- the rest -----------------------------------------------------------------------------------------------------
    def _room(self, track: Track) -> BoardRoom:
        return self._rooms.setdefault(track.bus, BoardRoom(track, self._around.durable))

    def _tell_of_strange(self, track: Track, room: BoardRoom) -> None:
        for path, why in _fresh(room.strange.items(), self._told_of):
            self._around.record("stray_file", {"file": path, "reason": why, "track": track.name})


def _fresh(strange: Iterable[tuple[str, str]], told_of: set[str]) -> list[tuple[str, str]]:
    """Each once."""
    new = [(path, why) for path, why in strange if f"{path}: {why}" not in told_of]
    told_of.update(f"{path}: {why}" for path, why in new)
    return new
