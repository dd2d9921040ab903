"""The use cases of a board, for programs and every front door: open a meeting, speak and vote in it, end it.

Everything works on the files, and needs no daemon. Asking the directors, deadlines, and telling whoever called the
meeting do need one; ``MeetingStanding.daemon_running`` says whether there is one. A caller that speaks for an agent
names it (``agent``): agents speak from their own seats only. None stands for a person, who may speak from any seat.

Each call takes the message bus that the board belongs to (``track``) by its name or path; None stands for ACKD_TRACK's,
else the only one there is, else the team's own.

Fails with the errors below, ``NoTrack``, ``WhichTrack``, ``NotNow``, ``NotOnBoard``, ``NoMeeting``, ``BadAnswer``,
``BadMeeting``, ``BoardHeld`` and OSError.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.config.model import load_site
from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Channel
from ackd.coordination.board.rules.meeting import (
    Meeting,
    Seat,
    cancelled,
    closed,
    context_excess,
    passed,
    recorded,
    waited_for,
)
from ackd.coordination.board.rules.phases import BoardCheckpoint
from ackd.coordination.board.settings import BoardSettings
from ackd.coordination.board.track_board import TrackBoard
from ackd.coordination.bus.tracks import choose_track
from ackd.core.errors import NoMeeting, NotOnBoard, TheirFault
from ackd.core.names import USER, identity
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ackd.config.site import Site
    from ackd.coordination.board.rules.answers import Answer
    from ackd.coordination.bus.rules.layout import Track

    Which = str | Track | None


class UnknownDirector(NotOnBoard):
    """A director that the table [board] does not have."""

    def __str__(self) -> str:
        return f"no director {self.name!r}; [board] has {', '.join(self.directors)}"


class OthersSeat(NotOnBoard):
    """A director's seat that belongs to another agent."""

    def __init__(self, director: str, holder: str, agent: str) -> None:
        super().__init__(director)
        self.holder, self.agent = holder, agent

    def __str__(self) -> str:
        return f"{self.name} is {self.holder}'s seat, and this is {self.agent}"


class NoSeat(NotOnBoard):
    """An agent that has no seat in the meeting."""

    def __init__(self, agent: str, meeting_id: str, directors: tuple[str, ...]) -> None:
        super().__init__(agent, directors)
        self.meeting_id = meeting_id

    def __str__(self) -> str:
        return f"{self.name} is no director of {self.meeting_id}: it has {', '.join(self.directors)}"


class WhichSeat(TheirFault):
    """Raised where neither the call nor its surroundings say which director speaks.

    ``agent``: has all of ``directors``' seats; None: a person, who must choose.
    """

    def __init__(self, agent: str | None, directors: tuple[str, ...]) -> None:
        super().__init__(agent, directors)
        self.agent, self.directors = agent, directors

    def __str__(self) -> str:
        if self.agent is None:
            return f"which director speaks: {', '.join(self.directors)}?"
        return f"{self.agent} is {' and '.join(self.directors)}: which of them speaks?"


class BadProposal(TheirFault):
    def __str__(self) -> str:
        return "the proposal is empty"


class BadContext(TheirFault):
    """A context that is too large. ``why``: "is nested too deep", "has too many values"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the context {self.why}"


@dataclass(frozen=True)
class MeetingCall:
    """A call for a meeting that was checked and can be opened."""

    checkpoint: BoardCheckpoint
    proposal: str
    context: object
    opener: str
    seats: tuple[Seat, ...]
    rounds: int


@dataclass(frozen=True)
class MeetingStanding:
    """A meeting after a change, and the directors that its phase waits for."""

    meeting: Meeting
    track: Track
    waits_for: tuple[str, ...]
    daemon_running: bool


@dataclass(frozen=True)
class Meetings:
    """All meetings of a track, the newest first. ``unreadable``: files that were passed over, with the reason."""

    meetings: tuple[Meeting, ...]
    unreadable: Mapping[str, str]


class BoardDoor:
    """The boards of one team. ``meeting_id`` None stands for the newest meeting that is open."""

    def __init__(self, site: Site) -> None:
        self._site = site

    # --- opening and ending -------------------------------------------------------------------------------------------
    def prepare(
        self,
        checkpoint: BoardCheckpoint,
        proposal: str,
        *,
        opener: str,
        context: object = None,
        directors: Sequence[str] | None = None,
    ) -> MeetingCall:
        """Check a call for a meeting, and change nothing.

        ``opener``: the agent that is told the result; ``directors`` None: all of the config.
        """
        seats, rounds = self._seats(directors)
        who = self._site.resolve_address(opener)
        if not proposal.strip():
            raise BadProposal
        if (excess := context_excess(context)) is not None:
            raise BadContext(excess)
        return MeetingCall(checkpoint, proposal, context, who, seats, rounds)

    def open(self, track: Which, call: MeetingCall) -> MeetingStanding:
        """Open the meeting that was called. The team's own bus is made if it is meant and does not exist."""
        now = time.time()
        where = choose_track(self._site, track, make=True)

        def make(meeting_id: str, queue_from: int) -> Meeting:
            return Meeting(
                meeting_id=meeting_id,
                checkpoint=call.checkpoint,
                proposal=call.proposal,
                context=call.context,
                opener=call.opener,
                opened_at=now,
                seats=call.seats,
                rounds=call.rounds,
                queue_from=queue_from,
            )

        return self._standing(where, self._board(where).open(now, make))

    def resolve(self, track: Which = None, meeting_id: str | None = None, *, by: str = USER) -> Meeting:
        """Count now, without the directors who are missing. A meeting that is over is returned as it is.

        Without an id: the newest that is open, else the newest that was counted.
        """
        board, now = self._board(self._track(track)), time.time()

        def count(meeting: Meeting) -> Meeting:
            return meeting if meeting.resolution is not None else closed(meeting, now, by)

        return board.change(meeting_id or _newest_to_count(board), count, now)

    def cancel(self, track: Which = None, meeting_id: str | None = None, *, by: str = USER) -> MeetingStanding:
        """End a meeting without a result."""
        return self._change(track, meeting_id, lambda meeting, now: cancelled(meeting, now, by))

    # --- speaking -----------------------------------------------------------------------------------------------------
    def assess(
        self,
        track: Which = None,
        meeting_id: str | None = None,
        *,
        verdict: str,
        score: float | None = None,
        concerns: Iterable[str] = (),
        recommendations: Iterable[str] = (),
        director: str | None = None,
        agent: str | None = None,
    ) -> MeetingStanding:
        said: dict[str, object] = {"verdict": verdict, "score": score}
        said |= {"concerns": tuple(concerns), "recommendations": tuple(recommendations)}
        return self._say(
            track, meeting_id, director, agent, lambda name: answers.assessment(name, said, most=answers.SCALE)
        )

    def discuss(
        self,
        track: Which = None,
        meeting_id: str | None = None,
        *,
        message: str,
        kind: str | None,
        to: str = answers.ALL,
        changes_my_verdict: bool = False,
        director: str | None = None,
        agent: str | None = None,
    ) -> MeetingStanding:
        said = {"to": to, "type": kind, "message": message, "changes_my_verdict": changes_my_verdict}
        return self._say(track, meeting_id, director, agent, lambda name: answers.remark(name, said))

    def pass_round(
        self,
        track: Which = None,
        meeting_id: str | None = None,
        *,
        director: str | None = None,
        agent: str | None = None,
    ) -> MeetingStanding:
        """Say nothing in this round of the discussion."""
        return self._change(
            track, meeting_id, lambda meeting, _: passed(meeting, self._seat_of(meeting, director, agent))
        )

    def vote(
        self,
        track: Which = None,
        meeting_id: str | None = None,
        *,
        verdict: str,
        confidence: float | None = None,
        conditions: Iterable[str] = (),
        director: str | None = None,
        agent: str | None = None,
    ) -> MeetingStanding:
        said = {"final_verdict": verdict, "confidence": confidence, "conditions": tuple(conditions)}
        return self._say(track, meeting_id, director, agent, lambda name: answers.vote(name, said))

    # --- looking ------------------------------------------------------------------------------------------------------
    def show(self, track: Which = None, meeting_id: str | None = None) -> Meeting:
        """Return a meeting; without an id the newest that is open, else the newest."""
        board = self._board(self._track(track, listing=True))
        if meeting_id is not None:
            return board.read(meeting_id)
        every = list(board.every())
        found = next((meeting for meeting in every if meeting.is_open), None) or next(iter(every), None)
        return found if found is not None else board.find(None)

    def meetings(self, track: Which = None) -> Meetings:
        board = self._board(self._track(track, listing=True))
        return Meetings(tuple(board.every()), board.unreadable)

    # --- common steps -------------------------------------------------------------------------------------------------
    def _track(self, wanted: Which, *, listing: bool = False) -> Track:
        return choose_track(self._site, wanted, make=False, listing=listing)

    def _board(self, track: Track) -> TrackBoard:
        return TrackBoard(track, self._site.fsync)

    def _seats(self, wanted: Sequence[str] | None) -> tuple[tuple[Seat, ...], int]:
        settings = load_site(self._site).settings(BoardSettings) or BoardSettings()
        known = {name.casefold(): name for name in settings.directors}
        names = list(settings.directors) if wanted is None else [one.strip() for one in wanted]
        if strangers := [one for one in names if one.casefold() not in known]:
            raise UnknownDirector(strangers[0], tuple(settings.directors))
        chosen = dict.fromkeys(known[one.casefold()] for one in names)
        return (
            tuple(Seat(one, settings.directors[one], settings.agents.get(one, one)) for one in chosen),
            settings.rounds,
        )

    def _say(
        self,
        track: Which,
        meeting_id: str | None,
        director: str | None,
        agent: str | None,
        answer: Callable[[str], Answer],
    ) -> MeetingStanding:
        def act(meeting: Meeting, now: float) -> Meeting:
            return recorded(meeting, answer(self._seat_of(meeting, director, agent)), Channel.ACKD, now)

        return self._change(track, meeting_id, act)

    def _seat_of(self, meeting: Meeting, director: str | None, agent: str | None) -> str:
        return seat_of(meeting, director, agent, self._site.shared_by(agent) if agent is not None else ())

    def _change(
        self, track: Which, meeting_id: str | None, act: Callable[[Meeting, float], Meeting]
    ) -> MeetingStanding:
        where, now = self._track(track), time.time()
        return self._standing(where, self._board(where).change(meeting_id, lambda meeting: act(meeting, now), now))

    def _standing(self, track: Track, meeting: Meeting) -> MeetingStanding:
        return MeetingStanding(meeting, track, waited_for(meeting), root_lock.holder(self._site.run) is not None)


def seat_of(meeting: Meeting, director: str | None, agent: str | None, together: Iterable[str] = ()) -> str:
    """Return the director that speaks. An agent speaks from its own seats, and those of the groups and pools that it is
    in (``together``); a person may speak from any."""
    mine = {identity(name) for name in (agent, *together) if name is not None}
    own = [seat.director for seat in meeting.seats if identity(seat.agent) in mine]
    if director is not None:
        seat = meeting.seat(director)
        if agent is not None and agent != USER and seat.director not in own:
            raise OthersSeat(seat.director, seat.agent, agent)
        return seat.director
    if len(own) == 1:
        return own[0]
    if own or agent is None:
        raise WhichSeat(agent, tuple(own) or meeting.directors)
    raise NoSeat(agent, meeting.meeting_id, meeting.directors)


def _newest_to_count(board: TrackBoard) -> str | None:
    try:
        return board.find(None).meeting_id
    except NoMeeting:
        return next((meeting.meeting_id for meeting in board.every() if meeting.resolution is not None), None)
