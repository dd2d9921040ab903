"""Drives meetings: asks the directors phase by phase, ends phases when their time is up, tells who called the meeting.

A meeting's record is the truth. A look reads it, sets its deadline if it has none, lets the meeting advance, carries
out the follow-ups that are still due (mail with derived ids, then the line of the log), and notes them in the record.
After a crash the same look makes the same mail. What becomes of a meeting is decided in ``rules``, and its files are
``track_board``'s.

A process that holds a board's lock for long delays its track only, and so does a file that cannot be read or written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.coordination.board import files as board_files
from ackd.coordination.board.facts import board_answer
from ackd.coordination.board.rules import foreign
from ackd.coordination.board.rules.follow_ups import Address, FollowUp, follow_ups
from ackd.coordination.board.rules.meeting import Driver, Meeting, Seat, advanced, timed, waited_for
from ackd.coordination.board.rules.phases import Phase
from ackd.coordination.board.settings import BoardSettings
from ackd.coordination.board.track_board import WRITING_S, TrackBoard
from ackd.coordination.bus.gateway import BusGateway
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.bus.tracks import find_tracks, watch_places
from ackd.coordination.gateway import Gateway, LookRefused, WaitsSaid
from ackd.core.errors import BadMeeting, Busy, NoMeeting, UnknownAgent
from ackd.core.message import USER
from ackd.core.message_facts import stray_file
from ackd.core.waits import Wait
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.coordination.gateway import GatewayContext, GatewayServices

#: The time after which to look again at a board whose lock another process held.
HELD_S: Final = 1.0


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> Gateway:
    """Make the gateway. Every team that has buses has boards on them."""
    bus, board = context.config.settings(BusSettings), context.config.settings(BoardSettings) or BoardSettings()
    gateway = BoardGateway(settings=board, bus=bus, escalate_to=context.escalate_to, services=context.services)
    followed = others["bus"]
    assert isinstance(followed, BusGateway)
    followed.subscribers.append(gateway)
    return gateway


class BoardGateway(Gateway):
    """A gateway, and a subscriber of the bus."""

    name = "board"

    def __init__(
        self, *, settings: BoardSettings, bus: BusSettings | None, escalate_to: str, services: GatewayServices
    ) -> None:
        self._timeouts = {
            Phase.ASSESSING: settings.assess_timeout_s,
            Phase.DISCUSSING: settings.discuss_timeout_s,
            Phase.VOTING: settings.vote_timeout_s,
        }
        self._patterns = bus.tracks if bus is not None else ()
        self._settings, self._rounds = settings, settings.rounds
        self._escalate_to = escalate_to
        self._orchestrator = (bus.orchestrator if bus is not None else "") or escalate_to
        self._services = services
        self._tracks: list[Track] = []
        self._boards: dict[str, TrackBoard] = {}
        #: For each bus: meetings that are over and made known, and when to look again (monotonic).
        self._finished: dict[str, set[str]] = {}
        self._due: dict[str, float] = {}
        #: The end of each phase that was met, by the monotonic clock, so that setting the wall clock ends none.
        self._ends: dict[tuple[str, str, str, int], float] = {}
        #: The time at which each phase of a meeting that is not ours had all its answers.
        self._complete: dict[tuple[str, str, str, int], float] = {}
        self._open: dict[str, dict[str, str]] = {}
        self._told_of: set[str] = set()
        #: For each bus and meeting: who called the meeting, and waits for its end.
        self._openers: dict[str, dict[str, str]] = {}
        self._waits_said = WaitsSaid(self.name, services.post)

    # --- as a gateway -------------------------------------------------------------------------------------------------
    def places(self) -> frozenset[str]:
        """Return the boards' directories, those of older meetings that are open, and where a new board would appear."""
        found = watch_places(self._services.base, self._patterns, self._services.root)
        for track in self._tracks:
            found.add(track.board if Path(track.board).is_dir() else track.bus)
            found.update(f"{track.board}/{meeting_id}" for meeting_id in self._open.get(track.bus, ()))
        return frozenset(found)

    async def look(self, where: frozenset[str] | None) -> float | None:
        self._tracks = find_tracks(self._services.base, self._patterns, self._services.root)
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
            (self._services.called(opener), Wait(None, f"board meeting {meeting_id}", self._open[bus][meeting_id]))
            for bus, openers in self._openers.items()
            for meeting_id, opener in openers.items()
        )
        next_look_s = max(0.0, min(self._due.values()) - self._services.clock.now().mono) if self._due else None
        if refused:
            raise LookRefused(refused, next_look_s)
        return next_look_s

    def page(self) -> dict[str, object]:
        """Return the open meetings by track."""
        names = {track.bus: track.name for track in self._tracks}
        return {names.get(bus, bus): meetings for bus, meetings in self._open.items() if meetings}

    def _is_touched(self, track: Track, where: frozenset[str]) -> bool:
        return any(place == track.bus or place.startswith(track.board) for place in where)

    def _is_due(self, track: Track) -> bool:
        due_at = self._due.get(track.bus, float("inf"))
        return track.bus not in self._finished or due_at <= self._services.clock.now().mono

    # --- as a subscriber ----------------------------------------------------------------------------------------------
    async def line(self, track: Track, line: BusLine) -> None:
        """Take in what a director says on the bus. The record changes, and the look that follows does the rest."""
        if not line.type.value.startswith("BOARD_"):
            return
        try:
            await self._adopt(track)  # first, because a session begins before anybody speaks in it
            if not board_files.meeting_ids(track.board):
                return
            await in_thread(self._track_board(track).hear, line, self._services.clock.now().wall)
        except Busy as error:
            raise OSError(0, str(error)) from error  # the line will come again

    # --- one track ----------------------------------------------------------------------------------------------------
    async def _attend(self, track: Track) -> None:
        """Drive the meetings of a track.

        If the disk refuses one, the others go on, and the first refusal is raised last.
        """
        finished = self._finished.setdefault(track.bus, set())
        board, self._due[track.bus] = self._track_board(track), float("inf")
        self._open[track.bus], self._openers[track.bus] = {}, {}
        try:
            await self._adopt(track)
        except Busy:
            self._look_again(track, HELD_S)
        newest, refused = True, list[OSError]()
        for meeting_id in board_files.newest_first(track.board):
            if newest or meeting_id not in finished:
                try:
                    await self._drive(track, board, meeting_id)
                except OSError as error:
                    refused.append(error)
            newest = False
        self._record_unreadable(track, board)
        if self._due[track.bus] == float("inf"):
            del self._due[track.bus]
        if refused:
            raise refused[0]

    async def _adopt(self, track: Track) -> None:
        """Adopt a session that the seed's own ``create_board_session`` has begun.

        One that is older than its first phase may last is left alone: it was somebody's long ago.
        """
        board = self._track_board(track)
        make = partial(self._as_meeting, track, board)
        await in_thread(board.adopt, make, self._services.clock.now().wall)

    def _as_meeting(
        self, track: Track, board: TrackBoard, meeting_id: str, session: object, written_at: float, queue_from: int
    ) -> Meeting | None:
        if not foreign.is_open(session):
            return None
        path, wall = f"{track.board}/session-{meeting_id}.json", self._services.clock.now().wall
        if abs(wall - written_at) > self._timeouts[Phase.ASSESSING]:
            board.unreadable[path] = "a session that is older than its first phase may last: nobody drives it"
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
            board.unreadable[path] = error.why
            return None

    def _seat(self, director: str) -> Seat:
        settings = self._settings
        return Seat(director, settings.directors.get(director, "the whole"), settings.agents.get(director, director))

    async def _drive(self, track: Track, board: TrackBoard, meeting_id: str) -> None:
        now = self._services.clock.now()
        act = partial(self._timed_and_advanced, track, now.wall)
        board.unsettled = False
        try:
            meeting = await in_thread(board.change, meeting_id, act, now.wall)
            meeting = await self._carry_out_follow_ups(track, board, meeting)
        except Busy:
            self._look_again(track, HELD_S)
            return
        except BadMeeting as error:
            board.unreadable[error.path] = error.why
            return
        except NoMeeting:  # removed by hand
            return
        if board.unsettled:
            self._look_again(track, WRITING_S)
        if meeting.is_over:
            self._finished[track.bus].add(meeting_id)
            return
        self._openers[track.bus][meeting_id] = meeting.opener
        self._open[track.bus][meeting_id] = f"{meeting.phase.value} {meeting.round or ''}".rstrip()
        self._look_again(track, self._left_s(track, meeting))

    def _look_again(self, track: Track, in_s: float) -> None:
        self._due[track.bus] = min(self._due[track.bus], self._services.clock.now().mono + in_s)

    # --- time ---------------------------------------------------------------------------------------------------------
    def _timed_and_advanced(self, track: Track, wall: float, meeting: Meeting) -> Meeting:
        """Set deadlines and advance as far as possible. Runs in the thread that holds the lock."""
        while meeting.is_open:
            meeting = timed(meeting, wall, self._timeouts[meeting.phase])
            after = advanced(meeting, wall, time_is_up=self._left_s(track, meeting) <= 0)
            if after == meeting:
                return meeting
            meeting = after
        return meeting

    def _left_s(self, track: Track, meeting: Meeting) -> float:
        """Return how long the phase or round still lasts.

        Its deadline counts when it is first met, from then on the monotonic clock. A complete phase of a meeting that
        is not ours is left for a moment to whoever began the meeting.
        """
        if not meeting.is_open or meeting.deadline_at is None:
            return 0.0
        now = self._services.clock.now()
        key = (track.bus, meeting.meeting_id, meeting.phase.value, meeting.round)
        end = self._ends.setdefault(key, now.mono + meeting.deadline_at - now.wall)
        if meeting.driver is Driver.ADOPTED and not waited_for(meeting):
            end = min(end, self._complete.setdefault(key, now.mono) + foreign.HAND_S)
        else:
            self._complete.pop(key, None)
        return end - now.mono

    # --- follow-ups ---------------------------------------------------------------------------------------------------
    async def _carry_out_follow_ups(self, track: Track, board: TrackBoard, meeting: Meeting) -> Meeting:
        address = Address(track.name, track.bus, self._escalate_to)
        due = list(follow_ups(meeting, address))
        for follow_up in due:
            await self._run(follow_up)
        if due:
            keys = [follow_up.key for follow_up in due]
            await in_thread(board.note, meeting.meeting_id, keys)
        return meeting

    async def _run(self, follow_up: FollowUp) -> None:
        if follow_up.mail is not None:
            try:
                await self._services.mail(follow_up.mail)
            except UnknownAgent as error:
                await self._no_such_agent(follow_up, error)
        if follow_up.line is not None:
            self._services.record(follow_up.line)

    async def _no_such_agent(self, follow_up: FollowUp, error: UnknownAgent) -> None:
        """Record that a recipient does not exist. Mail about a meeting's end then goes to the user.

        A director without an agent may still answer by the files, so requests are not sent elsewhere.
        """
        assert follow_up.mail is not None
        self._services.record(
            board_answer(
                meeting=follow_up.mail.thread_id,
                agent=error.name,
                what=follow_up.mail.type,
                refused=f"{error}: nobody is told",
            )
        )
        if follow_up.mail.type != "board_request":
            await self._services.mail(replace(follow_up.mail, recipient=USER))

    # --- the rest -----------------------------------------------------------------------------------------------------
    def _track_board(self, track: Track) -> TrackBoard:
        return self._boards.setdefault(track.bus, TrackBoard(track, self._services.durable))

    def _record_unreadable(self, track: Track, board: TrackBoard) -> None:
        for path, why in _fresh(board.unreadable.items(), self._told_of):
            self._services.record(stray_file(file=path, reason=why, track=track.name))


def _fresh(found: Iterable[tuple[str, str]], told_of: set[str]) -> list[tuple[str, str]]:
    """Return the problems that were not reported before."""
    new = [(path, why) for path, why in found if f"{path}: {why}" not in told_of]
    told_of.update(f"{path}: {why}" for path, why in new)
    return new
