"""Taking in what others wrote by hand: entries of the seed's files, lines of its discussion, lines of the bus.

Owns that the same word counts once, by whichever doors it came: the seed has a director write a file *and* a line. What
makes no sense, or comes from somebody who has no seat, or too late, is kept as a refusal with words, once; what comes
too early waits where it lies. Refuses to know how files and lines are read. Cannot fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from ackd.core.board import answers, papers
from ackd.core.board.answers import Answer, Door, Kind, Mark, Remark, digest, digest_of
from ackd.core.board.meeting import Meeting, Refusal, current, recorded
from ackd.core.board.phases import Phase
from ackd.core.errors import BadAnswer, NotNow, NotOnBoard

MAX_REFUSALS: Final = 200
#: A meeting hears no more lines of the bus than this: somebody floods it.
MAX_HEARD: Final = 2_000
_OPEN_IN: Final = {Kind.ASSESS: Phase.ASSESSING, Kind.DISCUSS: Phase.DISCUSSING, Kind.VOTE: Phase.VOTING}
_READ: Final[Mapping[Kind, Callable[[str, Mapping[str, object]], Answer]]] = {
    Kind.ASSESS: answers.assessment,
    Kind.DISCUSS: answers.remark,
    Kind.VOTE: answers.vote,
}


# --- files ------------------------------------------------------------------------------------------------------------
def take_entries(meeting: Meeting, kind: Kind, found: Mapping[str, object], now: float) -> Meeting:
    """``assessments.json`` or ``votes.json``, as it lies there."""
    if _is_early(meeting, kind):
        return meeting
    for name, entry in found.items():
        mark = digest_of(entry)
        if meeting.taken.flat.get(f"{kind.value}:{name}") == mark:
            continue
        meeting = _met(meeting, kind, name, mark)
        meeting = _take_entry(meeting, kind, name, entry, now)
    return meeting


def _take_entry(meeting: Meeting, kind: Kind, name: str, entry: object, now: float) -> Meeting:
    try:
        answer = _understood(meeting, kind, name, entry)
        if digest(answer) == current(meeting, kind, answer.director):
            return meeting
        if (heard := _without_echo(meeting, Door.FILE, answer)) is not None:
            return heard
        return _with_echo(recorded(meeting, answer, Door.FILE, now), Door.BUS, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, name, kind, str(error), Door.FILE, now)


def take_lines(meeting: Meeting, found: Iterable[object], now: float) -> Meeting:
    """``discussion.jsonl``: its lines, each what came out of JSON. Ours bear our id."""
    if _is_early(meeting, Kind.DISCUSS):
        return meeting
    ours = {papers.line_id(meeting, heard.mark) for heard in meeting.remarks}
    seen: Counter[str] = Counter()
    for said in found:
        if isinstance(said, dict) and said.get("id") in ours:
            continue
        mark = digest_of(said)
        seen[mark] += 1
        if seen[mark] > meeting.taken.lines.get(mark, 0):
            lines = {**meeting.taken.lines, mark: seen[mark]}
            meeting = _take_line(replace(meeting, taken=replace(meeting.taken, lines=lines)), said, now)
    return meeting


def _take_line(meeting: Meeting, said: object, now: float) -> Meeting:
    name = said.get("from") if isinstance(said, dict) else None
    try:
        answer = _understood(meeting, Kind.DISCUSS, name if isinstance(name, str) else "", said)
        if (heard := _without_echo(meeting, Door.FILE, answer)) is not None:
            return heard
        return _with_echo(recorded(meeting, answer, Door.FILE, now), Door.BUS, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, str(name or "nobody"), Kind.DISCUSS, str(error), Door.FILE, now)


# --- lines of the bus -------------------------------------------------------------------------------------------------
def take_bus_line(
    meeting: Meeting, kind: Kind, source: str, payload: Mapping[str, object], message_id: str, now: float
) -> Meeting:
    """A BOARD_* line that is not ours. The seed's votes do not say whose they are: then the source is meant."""
    if is_known(meeting, message_id) or len(meeting.taken.heard) >= MAX_HEARD:
        return meeting
    meeting = replace(meeting, taken=replace(meeting.taken, heard=(*meeting.taken.heard, message_id)))
    named = payload.get("from" if kind is Kind.DISCUSS else "director") or source
    name = named if isinstance(named, str) else source
    try:
        answer = _understood(meeting, kind, name, payload)
        if (heard := _without_echo(meeting, Door.BUS, answer)) is not None:
            return _said(heard, answer)
        if digest(answer) == current(meeting, kind, answer.director):
            return _said(meeting, answer)
        return _with_echo(recorded(meeting, answer, Door.BUS, now, said=True), Door.FILE, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, name, kind, str(error), Door.BUS, now)


def is_known(meeting: Meeting, message_id: str) -> bool:
    return message_id in meeting.taken.heard or is_ours(meeting, message_id)


def is_ours(meeting: Meeting, message_id: str) -> bool:
    return message_id.startswith(f"msg-{meeting.meeting_id}-")


# --- both -------------------------------------------------------------------------------------------------------------
def refused(meeting: Meeting, name: str, kind: Kind, why: str, door: Door, now: float) -> Meeting:
    refusal = Refusal(name[:64], kind.value, why[:500], door, now)
    return replace(meeting, refusals=(*meeting.refusals, refusal)[:MAX_REFUSALS])


def _understood(meeting: Meeting, kind: Kind, name: str, said: object) -> Answer:
    seat = meeting.seat(name)
    if not isinstance(said, Mapping):
        raise BadAnswer(kind.value, "is no object")
    answer = _READ[kind](seat.director, said)
    if isinstance(answer, Remark) and answer.to != answers.ALL:
        return replace(answer, to=meeting.seat(answer.to).director)
    return answer


def _is_early(meeting: Meeting, kind: Kind) -> bool:
    """What lies in a file before its time is not refused: it counts when its phase begins."""
    phase = _OPEN_IN[kind]
    return meeting.is_open and meeting.phase is not phase and phase not in {one.phase for one in meeting.turns}


def _met(meeting: Meeting, kind: Kind, name: str, mark: str) -> Meeting:
    flat = {**meeting.taken.flat, f"{kind.value}:{name}": mark}
    return replace(meeting, taken=replace(meeting.taken, flat=flat))


def _echo(door: Door, answer: Answer) -> str:
    return f"{door.value}:{answers.kind_of(answer).value}:{digest(answer)}"


def _with_echo(meeting: Meeting, door: Door, answer: Answer) -> Meeting:
    return replace(meeting, taken=replace(meeting.taken, echoes=(*meeting.taken.echoes, _echo(door, answer))))


def _without_echo(meeting: Meeting, door: Door, answer: Answer) -> Meeting | None:
    """The meeting, if this is what was expected by this door, and nothing new."""
    echo = _echo(door, answer)
    if echo not in meeting.taken.echoes:
        return None
    left = list(meeting.taken.echoes)
    left.remove(echo)
    return replace(meeting, taken=replace(meeting.taken, echoes=tuple(left)))


def to_show(meeting: Meeting, kind: Kind, there: Mapping[str, object]) -> dict[str, object]:
    """The entries of the record that the file lacks, or has in an older form. What a hand has changed after we had
    shown ours stays as the hand left it; so does all of it once the meeting is over: it may be another's by then."""
    ours = papers.assessments(meeting) if kind is Kind.ASSESS else papers.votes(meeting)
    return {
        name: entry
        for name, entry in ours.items()
        if (name not in there and not meeting.is_over)
        or (
            _shown(meeting, kind, name) != current(meeting, kind, name)
            and not _same(meeting, kind, name, there.get(name))
        )
    }


def mirrored(meeting: Meeting, kind: Kind, written: Mapping[str, object]) -> Meeting:
    """What we have written into the file ourselves is no news when it is read back."""
    for name, entry in written.items():
        meeting = _met(meeting, kind, name, digest_of(entry))
    for name in papers.assessments(meeting) if kind is Kind.ASSESS else papers.votes(meeting):
        meeting = _met(meeting, kind, f"{name} shown", current(meeting, kind, name) or "")
    return meeting


def _shown(meeting: Meeting, kind: Kind, name: str) -> str | None:
    return meeting.taken.flat.get(f"{kind.value}:{name} shown")


def _same(meeting: Meeting, kind: Kind, name: str, entry: object) -> bool:
    try:
        return digest(_understood(meeting, kind, name, entry)) == current(meeting, kind, name)
    except (BadAnswer, NotOnBoard):
        return False


def said(meeting: Meeting, numbers: AbstractSet[int]) -> Meeting:
    """The bus has lines of these answers."""
    return _said_where(meeting, lambda _, mark: mark.number in numbers) if numbers else meeting


def _said(meeting: Meeting, answer: Answer) -> Meeting:
    wanted = digest(answer)
    return _said_where(meeting, lambda one, _: digest(one) == wanted)


def _said_where(meeting: Meeting, holds: Callable[[Answer, Mark], bool]) -> Meeting:
    def marked(one: Answer, mark: Mark) -> Mark:
        return replace(mark, said=True) if not mark.said and holds(one, mark) else mark

    return replace(
        meeting,
        assessments={name: (one, marked(one, mark)) for name, (one, mark) in meeting.assessments.items()},
        votes={name: (one, marked(one, mark)) for name, (one, mark) in meeting.votes.items()},
        remarks=tuple(replace(heard, mark=marked(heard.remark, heard.mark)) for heard in meeting.remarks),
    )
