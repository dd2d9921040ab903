"""A meeting of a board, as a value: who sits in it, what was said, in which phase it is, and how it goes on.

If a director answers twice, the last answer before the phase closes counts; all remarks are kept. A director who has
said nothing at all is not waited for in the discussion, but may join it, and is waited for in the vote. Time is an
argument. Fails with ``NotOnBoard`` and ``NotNow``, and then nothing has changed.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from ackd.coordination.board.rules import counting
from ackd.coordination.board.rules.answers import (
    ALL,
    Answer,
    AnswerKind,
    AnswerMark,
    Assessment,
    Channel,
    Remark,
    Vote,
    digest,
    kind_of,
)
from ackd.coordination.board.rules.counting import Resolution
from ackd.coordination.board.rules.phases import ENDED, OPEN, BoardCheckpoint, Phase, Turn, after
from ackd.core.errors import NotNow, NotOnBoard
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_REMARKS: Final = 500
#: The bounds of a meeting's context, which every request to a director must be able to hold, and which a record that
#: somebody wrote by hand must keep to. Mail allows 32 levels, of which the body is the first, and 20,000 values
#: (formats/yaml_body), of which the discussion needs some.
MAX_CONTEXT_DEPTH: Final = 31
MAX_CONTEXT_VALUES: Final = 10_000
TOO_DEEP: Final = f"is nested more than {MAX_CONTEXT_DEPTH} deep"
TOO_MANY: Final = f"has more than {MAX_CONTEXT_VALUES} values"

#: The phase in which each kind of answer is given.
PHASE_OF: Final = {
    AnswerKind.ASSESS: Phase.ASSESSING,
    AnswerKind.DISCUSS: Phase.DISCUSSING,
    AnswerKind.VOTE: Phase.VOTING,
}
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
    """A director's place in a meeting. ``agent``: the agent that is asked."""

    director: str
    focus: str
    agent: str


@value
class PhaseEnd:
    """The end of a phase or round.

    ``by``: complete, time, or the name of who ended it; ``absent``: who had not spoken.
    """

    turn: Turn
    phase: Phase
    round: int
    at: float
    by: str
    absent: tuple[str, ...] = ()


@value
class HeardRemark:
    """A remark, with the round in which it was made."""

    remark: Remark
    mark: AnswerMark
    round: int


@value
class Refusal:
    """An answer that was not recorded, with the reason."""

    director: str
    kind: str
    why: str
    channel: Channel
    at: float


@value
class ImportMemory:
    """A memory of what was taken in from others' files and lines, so that nothing counts twice.

    ``flat``: the content with which each entry of a file was last met. ``lines``: how often each foreign line of the
    discussion was met. ``heard``: ids of bus lines. ``echoes``: answers that came by one channel and are expected by
    the other.
    """

    flat: Mapping[str, str] = field(default_factory=dict, hash=False)
    lines: Mapping[str, int] = field(default_factory=dict, hash=False)
    heard: tuple[str, ...] = ()
    echoes: tuple[str, ...] = ()


class Driver(Word):
    """The one who ends the phases of a meeting before their time (see ``foreign``)."""

    OURS = "ours"
    ADOPTED = "adopted"  # begun by the seed's own code, and driven by us
    ANOTHER = "another"  # begun by the seed's own code, and driven by its orchestrator, which is followed


@value
class Meeting:
    """``deadline_at``: wall time, None until the directors are asked. ``queue_from``: the length of the bus when the
    meeting was opened. ``done``: the keys of the follow-ups that were carried out."""

    meeting_id: str
    checkpoint: BoardCheckpoint
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
    assessments: Mapping[str, tuple[Assessment, AnswerMark]] = field(default_factory=dict, hash=False)
    remarks: tuple[HeardRemark, ...] = ()
    passes: tuple[tuple[int, str], ...] = ()
    votes: Mapping[str, tuple[Vote, AnswerMark]] = field(default_factory=dict, hash=False)
    numbers: int = 0
    turns: tuple[PhaseEnd, ...] = ()
    resolution: Resolution | None = None
    refusals: tuple[Refusal, ...] = ()
    taken: ImportMemory = field(default_factory=ImportMemory)
    done: frozenset[str] = frozenset()
    driver: Driver = Driver.OURS

    @property
    def directors(self) -> tuple[str, ...]:
        return tuple(seat.director for seat in self.seats)

    @property
    def is_quick(self) -> bool:
        return self.checkpoint is BoardCheckpoint.QUICK_REVIEW

    @property
    def is_open(self) -> bool:
        return self.phase in OPEN

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED

    @property
    def is_sealed(self) -> bool:
        """Return whether votes are secret: nobody may see them before the phase is over."""
        return self.phase is Phase.VOTING

    def seat(self, director: str) -> Seat:
        """Find a director's seat, by its name in any case."""
        for seat in self.seats:
            if seat.director.casefold() == director.casefold():
                return seat
        raise NotOnBoard(director, self.directors)


# --- saying something -------------------------------------------------------------------------------------------------
def recorded(meeting: Meeting, answer: Answer, channel: Channel, at: float, *, said: bool = False) -> Meeting:
    """Record an answer. ``said``: it came as a bus line, or the bus has one."""
    meeting.seat(answer.director)
    check_time(meeting, kind_of(answer))
    mark = AnswerMark(meeting.numbers + 1, at, channel, said)
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
            heard = HeardRemark(replace(answer, to=to), mark, meeting.round)
            return replace(meeting, remarks=(*meeting.remarks, heard))


def passed(meeting: Meeting, director: str) -> Meeting:
    """Note that a director has nothing to say in this round."""
    name = meeting.seat(director).director
    check_time(meeting, AnswerKind.DISCUSS)
    one = (meeting.round, name)
    return meeting if one in meeting.passes else replace(meeting, passes=(*meeting.passes, one))


def check_time(meeting: Meeting, kind: AnswerKind) -> None:
    phase = PHASE_OF[kind]
    if meeting.phase is phase:
        return
    if meeting.is_quick and kind is not AnswerKind.ASSESS:
        raise NotNow(f"{meeting.meeting_id} is a quick review: it has assessments only")
    if meeting.is_open and phase not in {one.phase for one in meeting.turns}:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: it is too early to {kind.value}")
    raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: it is too late to {kind.value}")


def current(meeting: Meeting, kind: AnswerKind, director: str) -> str | None:
    """Return the digest of the director's answer that counts now."""
    held: Mapping[str, tuple[Assessment | Vote, AnswerMark]] = (
        meeting.assessments if kind is AnswerKind.ASSESS else meeting.votes if kind is AnswerKind.VOTE else {}
    )
    return digest(held[director][0]) if director in held else None


# --- going on ---------------------------------------------------------------------------------------------------------
def missing(meeting: Meeting) -> tuple[str, ...]:
    """Return the directors who have not spoken in this phase or round."""
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
    """Return the directors without whom this phase does not end before its time."""
    if meeting.phase is not Phase.DISCUSSING:
        return missing(meeting)
    present = {*meeting.assessments, *(heard.remark.director for heard in meeting.remarks)}
    present |= {director for _, director in meeting.passes}
    return tuple(name for name in missing(meeting) if name in present)


def advanced(meeting: Meeting, now: float, *, time_is_up: bool = False) -> Meeting:
    """Advance the meeting as far as it goes by itself.

    ``time_is_up`` ends the current phase or round, and only that. A meeting that was not opened by us does not end a
    phase by itself (see ``foreign``).
    """
    by_itself = meeting.driver is Driver.OURS and not waited_for(meeting)
    if meeting.is_open and (time_is_up or by_itself):
        turned = _turned(meeting, now, "complete" if not waited_for(meeting) else "time")
        driver = Driver.ADOPTED if meeting.driver is Driver.ANOTHER else meeting.driver
        return advanced(replace(turned, driver=driver), now)
    return meeting


def turned_by_hand(meeting: Meeting, now: float, by: str) -> Meeting:
    """End the current phase or round because somebody says so."""
    return _turned(meeting, now, by)


def closed(meeting: Meeting, now: float, by: str) -> Meeting:
    """Count now, because somebody says so. Directors who have not spoken are absent."""
    can_be_counted = meeting.phase is Phase.VOTING or (meeting.phase is Phase.ASSESSING and meeting.is_quick)
    if not can_be_counted:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: there is nothing to count")
    return _turned(meeting, now, by)


def cancelled(meeting: Meeting, now: float, by: str) -> Meeting:
    if not meeting.is_open:
        raise NotNow(f"{meeting.meeting_id} is {_DOING[meeting.phase]}: there is nothing to cancel")
    return _moved(meeting, Turn.CANCELLED, now, by)


def made_known(meeting: Meeting, now: float) -> Meeting:
    """Complete the meeting: the resolution is where everybody can see it."""
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
    turned = PhaseEnd(turn, meeting.phase, meeting.round, now, by, missing(meeting))
    phase = after(meeting.phase, turn)
    return replace(meeting, phase=phase, deadline_at=None, turns=(*meeting.turns, turned))


# --- time -------------------------------------------------------------------------------------------------------------
def timed(meeting: Meeting, now: float, timeout_s: float) -> Meeting:
    """Set the deadline, if there is none. One that is too far away is from a clock that was set back, and replaced."""
    if not meeting.is_open:
        return meeting
    latest = now + timeout_s
    if meeting.deadline_at is None or meeting.deadline_at > latest:
        return replace(meeting, deadline_at=latest)
    return meeting


# --- the context ------------------------------------------------------------------------------------------------------
def context_excess(context: object) -> str | None:
    """Say why a context is too large, or return None. Goes level by level, so that any nesting can be counted."""
    level, depth, values = [context], 0, 0
    while level:
        values += len(level)
        if values > MAX_CONTEXT_VALUES:
            return TOO_MANY
        inner = [one for one in level if isinstance(one, dict | list)]
        depth += bool(inner)
        if depth > MAX_CONTEXT_DEPTH:
            return TOO_DEEP
        level = [value for one in inner for value in ([*one, *one.values()] if isinstance(one, dict) else one)]
    return None
