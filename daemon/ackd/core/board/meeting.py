"""One meeting of a board, as a value: who sits in it, what was said, in which phase it is, and how it goes on.

Owns who may say what when, when a phase or round is over, and who was absent. Of two answers of one director the last
before its phase closes counts; remarks are kept all. Whoever has said nothing at all is not waited for in the
discussion, but may join it, and is waited for in the vote. Time is an argument. Refuses to know files, lines and mail.
Fails with ``NotOnBoard`` and ``NotNow``, and then nothing has changed.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from ackd.core.board import counting
from ackd.core.board.answers import ALL, Answer, Assessment, Door, Kind, Mark, Remark, Vote, digest, kind_of
from ackd.core.board.counting import Resolution
from ackd.core.board.phases import ENDED, OPEN, Checkpoint, Phase, Turn, after
from ackd.core.errors import NotNow, NotOnBoard
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_REMARKS: Final = 500

_PHASE_OF: Final = {Kind.ASSESS: Phase.ASSESSING, Kind.DISCUSS: Phase.DISCUSSING, Kind.VOTE: Phase.VOTING}
_DOING: Final = {
    Phase.ASSESSING: "assessing",
    Phase.DISCUSSING: "discussing",
    Phase.VOTING: "voting",
    Phase.RESOLVING: "counting",
    Phase.COMPLETE: "over",
    Phase.CANCELLED: "cancelled",
}


@value
class Seat:
    """``agent``: who is asked."""

    director: str
    focus: str
    agent: str


@value
class Turned:
    """A phase or round that ended: which, why, and who had not spoken. ``by``: complete, time, or whose hand."""

    turn: Turn
    phase: Phase
    round: int
    at: float
    by: str
    absent: tuple[str, ...] = ()


@value
class Heard:
    """A remark, and in which round it was made."""

    remark: Remark
    mark: Mark
    round: int


@value
class Refusal:
    """What somebody said and what was not recorded, with the reason."""

    director: str
    kind: str
    why: str
    door: Door
    at: float


@value
class Taken:
    """What was taken in from others' files and lines, so that nothing counts twice. ``flat``: whose entry of which file
    was last met with which content; ``lines``: how often each foreign line of discussion; ``heard``: ids of bus lines;
    ``echoes``: what came by one door and is expected by the other."""

    flat: Mapping[str, str] = field(default_factory=dict, hash=False)
    lines: Mapping[str, int] = field(default_factory=dict, hash=False)
    heard: tuple[str, ...] = ()
    echoes: tuple[str, ...] = ()


class Driver(Word):
    """Who ends the phases of a meeting before their time (core/board/foreign)."""

    OURS = "ours"
    ADOPTED = "adopted"  # begun by the seed's own code, and driven by us
    ANOTHER = "another"  # begun by it, and driven by another hand, which is followed


@value
class Meeting:
    """``deadline_at``: wall time, None until somebody has been told. ``queue_from``: how long the bus was when it was
    opened. ``done``: what the daemon has told of it."""

    meeting_id: str
    checkpoint: Checkpoint
    proposal: str
    context: object
    opener: str
    opened_at: float
    seats: tuple[Seat, ...]
    rounds: int
    queue_from: int = 0
    phase: Phase = Phase.ASSESSING
    round: int = 0
    deadline_at: float | None = None
    assessments: Mapping[str, tuple[Assessment, Mark]] = field(default_factory=dict, hash=False)
    remarks: tuple[Heard, ...] = ()
    passes: tuple[tuple[int, str], ...] = ()
    votes: Mapping[str, tuple[Vote, Mark]] = field(default_factory=dict, hash=False)
    numbers: int = 0
    turns: tuple[Turned, ...] = ()
    resolution: Resolution | None = None
    refusals: tuple[Refusal, ...] = ()
    taken: Taken = field(default_factory=Taken)
    done: frozenset[str] = frozenset()
    driver: Driver = Driver.OURS

    @property
    def directors(self) -> tuple[str, ...]:
        return tuple(seat.director for seat in self.seats)

    @property
    def is_quick(self) -> bool:
        return self.checkpoint is Checkpoint.QUICK_REVIEW

    @property
    def is_open(self) -> bool:
        return self.phase in OPEN

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED

    @property
    def is_sealed(self) -> bool:
        """Whether votes are nobody's to see yet."""
        return self.phase is Phase.VOTING

    def seat(self, director: str) -> Seat:
        """By any case of its name."""
        for seat in self.seats:
            if seat.director.casefold() == director.casefold():
                return seat
        raise NotOnBoard(director, self.directors)


# --- saying something -------------------------------------------------------------------------------------------------
def recorded(meeting: Meeting, answer: Answer, door: Door, at: float, *, said: bool = False) -> Meeting:
    """The meeting with this answer in it. ``said``: it came as a line of the bus, or one is there."""
    meeting.seat(answer.director)
    check_time(meeting, kind_of(answer))
    mark = Mark(meeting.numbers + 1, at, door, said)
    meeting = replace(meeting, numbers=mark.number)
    match answer:
        case Assessment():
            return replace(meeting, assessments={**meeting.assessments, answer.director: (answer, mark)})
        case Vote():
            return replace(meeting, votes={**meeting.votes, answer.director: (answer, mark)})
        case Remark():
            to = ALL if answer.to == ALL else meeting.seat(answer.to).director
            if len(meeting.remarks) >= MAX_REMARKS:
                raise NotNow(f"{MAX_REMARKS} remarks were made: that is enough for a meeting")
            heard = Heard(replace(answer, to=to), mark, meeting.round)
            return replace(meeting, remarks=(*meeting.remarks, heard))


def passed(meeting: Meeting, director: str) -> Meeting:
    """Has nothing to say in this round."""
    name = meeting.seat(director).director
    check_time(meeting, Kind.DISCUSS)
    one = (meeting.round, name)
    return meeting if one in meeting.passes else replace(meeting, passes=(*meeting.passes, one))


def check_time(meeting: Meeting, kind: Kind) -> None:
    phase = _PHASE_OF[kind]
    if meeting.phase is phase:
        return
    if meeting.is_quick and kind is not Kind.ASSESS:
        raise NotNow(f"{meeting.meeting_id} is a quick review: it has assessments only")
    if meeting.is_open and phase not in {one.phase for one in meeting.turns}:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: it is too early to {kind.value}")
    raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: it is too late to {kind.value}")


def current(meeting: Meeting, kind: Kind, director: str) -> str | None:
    """The digest of what counts for this director now."""
    held: Mapping[str, tuple[Assessment | Vote, Mark]] = (
        meeting.assessments if kind is Kind.ASSESS else meeting.votes if kind is Kind.VOTE else {}
    )
    return digest(held[director][0]) if director in held else None


# --- going on ---------------------------------------------------------------------------------------------------------
def missing(meeting: Meeting) -> tuple[str, ...]:
    """Who has not spoken in this phase, or round."""
    spoken: set[str] = set()
    match meeting.phase:
        case Phase.ASSESSING:
            spoken = set(meeting.assessments)
        case Phase.DISCUSSING:
            spoken = {heard.remark.director for heard in meeting.remarks if heard.round == meeting.round}
            spoken |= {director for number, director in meeting.passes if number == meeting.round}
        case Phase.VOTING:
            spoken = set(meeting.votes)
        case _:
            return ()
    return tuple(name for name in meeting.directors if name not in spoken)


def waited_for(meeting: Meeting) -> tuple[str, ...]:
    """Without whom this phase does not end before its time."""
    if meeting.phase is not Phase.DISCUSSING:
        return missing(meeting)
    present = {*meeting.assessments, *(heard.remark.director for heard in meeting.remarks)}
    present |= {director for _, director in meeting.passes}
    return tuple(name for name in missing(meeting) if name in present)


def advanced(meeting: Meeting, now: float, *, time_is_up: bool = False) -> Meeting:
    """As far as it goes by itself. ``time_is_up``: of the phase or round it is in; only that one ends by it. One that
    was not opened by us does not end a phase by itself (core/board/foreign)."""
    by_itself = meeting.driver is Driver.OURS and not waited_for(meeting)
    if meeting.is_open and (time_is_up or by_itself):
        turned = _turned(meeting, now, "complete" if not waited_for(meeting) else "time")
        driver = Driver.ADOPTED if meeting.driver is Driver.ANOTHER else meeting.driver
        return advanced(replace(turned, driver=driver), now)
    return meeting


def turned_by_hand(meeting: Meeting, now: float, by: str) -> Meeting:
    """The phase or round it is in is over, because somebody says so."""
    return _turned(meeting, now, by)


def closed(meeting: Meeting, now: float, by: str) -> Meeting:
    """Counted now, by somebody's hand: whoever has not spoken is absent."""
    can_be_counted = meeting.phase is Phase.VOTING or (meeting.phase is Phase.ASSESSING and meeting.is_quick)
    if not can_be_counted:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: there is nothing to count")
    return _turned(meeting, now, by)


def cancelled(meeting: Meeting, now: float, by: str) -> Meeting:
    if not meeting.is_open:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: there is nothing to cancel")
    return _moved(meeting, Turn.CANCELLED, now, by)


def made_known(meeting: Meeting, now: float) -> Meeting:
    """The resolution is where everybody can see it."""
    return _moved(meeting, Turn.RESOLVED, now, "complete")


def _turned(meeting: Meeting, now: float, by: str) -> Meeting:
    match meeting.phase:
        case Phase.ASSESSING if not meeting.assessments:
            moved = _moved(meeting, Turn.DESERTED, now, by)
            nobody = counting.deserted(meeting.directors, now, quick=meeting.is_quick)
            return replace(moved, resolution=nobody)
        case Phase.ASSESSING if meeting.is_quick:
            given = {name: one for name, (one, _) in meeting.assessments.items()}
            reviewed = counting.count_assessments(given, meeting.directors, now)
            return replace(_moved(meeting, Turn.REVIEWED, now, by), resolution=reviewed)
        case Phase.ASSESSING:
            return replace(_moved(meeting, Turn.ASSESSED, now, by), round=1)
        case Phase.DISCUSSING if meeting.round < meeting.rounds:
            return replace(_moved(meeting, Turn.ROUND_OVER, now, by), round=meeting.round + 1)
        case Phase.DISCUSSING:
            return replace(_moved(meeting, Turn.DISCUSSED, now, by), round=0)
        case _:
            cast = {name: one for name, (one, _) in meeting.votes.items()}
            voted = counting.count_votes(cast, meeting.directors, now)
            return replace(_moved(meeting, Turn.VOTED, now, by), resolution=voted)


def _moved(meeting: Meeting, turn: Turn, now: float, by: str) -> Meeting:
    turned = Turned(turn, meeting.phase, meeting.round, now, by, missing(meeting))
    phase = after(meeting.phase, turn)
    return replace(meeting, phase=phase, deadline_at=None, turns=(*meeting.turns, turned))


# --- time -------------------------------------------------------------------------------------------------------------
def timed(meeting: Meeting, now: float, timeout_s: float) -> Meeting:
    """With a deadline, from when somebody is told. One from a clock that was set back since is not believed."""
    if not meeting.is_open:
        return meeting
    latest = now + timeout_s
    if meeting.deadline_at is None or meeting.deadline_at > latest:
        return replace(meeting, deadline_at=latest)
    return meeting
