"""Takes in what others wrote by hand: entries of the seed's files, lines of its discussion, lines of the bus.

The same answer counts once, although by the seed a director writes a file *and* a bus line. An answer that makes no
sense, comes too late, or is from somebody who has no seat is kept as a refusal with its reason, once. An answer that
comes too early waits where it is. Cannot fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from ackd.coordination.board.rules import answers, exports
from ackd.coordination.board.rules.answers import Answer, AnswerKind, AnswerMark, Channel, Remark, digest, digest_of
from ackd.coordination.board.rules.meeting import PHASE_OF, Meeting, Refusal, current, recorded
from ackd.core.errors import BadAnswer, NotNow, NotOnBoard

MAX_REFUSALS: Final = 200
#: The most bus lines that a meeting takes in. More than this is a flood.
MAX_HEARD: Final = 2_000
_READ: Final[Mapping[AnswerKind, Callable[[str, Mapping[str, object]], Answer]]] = {
    AnswerKind.ASSESS: answers.assessment,
    AnswerKind.DISCUSS: answers.remark,
    AnswerKind.VOTE: answers.vote,
}


# --- files ------------------------------------------------------------------------------------------------------------
def take_entries(meeting: Meeting, kind: AnswerKind, found: Mapping[str, object], now: float) -> Meeting:
    """Take in the entries of ``assessments.json`` or ``votes.json``."""
    if _is_early(meeting, kind):
        return meeting
    for name, entry in found.items():
        mark = digest_of(entry)
        if meeting.taken.flat.get(f"{kind.value}:{name}") == mark:
            continue
        meeting = _met(meeting, kind, name, mark)
        meeting = _take_entry(meeting, kind, name, entry, now)
    return meeting


def _take_entry(meeting: Meeting, kind: AnswerKind, name: str, entry: object, now: float) -> Meeting:
    try:
        answer = _understood(meeting, kind, name, entry)
        if digest(answer) == current(meeting, kind, answer.director):
            return meeting
        if (heard := _without_echo(meeting, Channel.FILE, answer)) is not None:
            return heard
        return _with_echo(recorded(meeting, answer, Channel.FILE, now), Channel.BUS, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, name, kind, str(error), Channel.FILE, now)


def take_lines(meeting: Meeting, found: Iterable[object], now: float) -> Meeting:
    """Take in the lines of ``discussion.jsonl``, as values. Our own lines have our ids."""
    if _is_early(meeting, AnswerKind.DISCUSS):
        return meeting
    ours = {exports.line_id(meeting, heard.mark) for heard in meeting.remarks}
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
        answer = _understood(meeting, AnswerKind.DISCUSS, name if isinstance(name, str) else "", said)
        if (heard := _without_echo(meeting, Channel.FILE, answer)) is not None:
            return heard
        return _with_echo(recorded(meeting, answer, Channel.FILE, now), Channel.BUS, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, str(name or "nobody"), AnswerKind.DISCUSS, str(error), Channel.FILE, now)


# --- lines of the bus -------------------------------------------------------------------------------------------------
def take_bus_line(
    meeting: Meeting, kind: AnswerKind, source: str, payload: Mapping[str, object], message_id: str, now: float
) -> Meeting:
    """Take in a BOARD_* line that is not ours. The seed's votes name no director: then the line's source is meant."""
    if is_known(meeting, message_id) or len(meeting.taken.heard) >= MAX_HEARD:
        return meeting
    meeting = replace(meeting, taken=replace(meeting.taken, heard=(*meeting.taken.heard, message_id)))
    named = payload.get("from" if kind is AnswerKind.DISCUSS else "director") or source
    name = named if isinstance(named, str) else source
    try:
        answer = _understood(meeting, kind, name, payload)
        if (heard := _without_echo(meeting, Channel.BUS, answer)) is not None:
            return _said(heard, answer)
        if digest(answer) == current(meeting, kind, answer.director):
            return _said(meeting, answer)
        return _with_echo(recorded(meeting, answer, Channel.BUS, now, said=True), Channel.FILE, answer)
    except (BadAnswer, NotOnBoard, NotNow) as error:
        return refused(meeting, name, kind, str(error), Channel.BUS, now)


def is_known(meeting: Meeting, message_id: str) -> bool:
    return message_id in meeting.taken.heard or is_ours(meeting, message_id)


def is_ours(meeting: Meeting, message_id: str) -> bool:
    return message_id.startswith(f"msg-{meeting.meeting_id}-")


# --- both -------------------------------------------------------------------------------------------------------------
def refused(meeting: Meeting, name: str, kind: AnswerKind, why: str, channel: Channel, now: float) -> Meeting:
    refusal = Refusal(name[:64], kind.value, why[:500], channel, now)
    return replace(meeting, refusals=(*meeting.refusals, refusal)[:MAX_REFUSALS])


def _understood(meeting: Meeting, kind: AnswerKind, name: str, said: object) -> Answer:
    seat = meeting.seat(name)
    if not isinstance(said, Mapping):
        raise BadAnswer(kind.value, "is no object")
    answer = _READ[kind](seat.director, said)
    if isinstance(answer, Remark) and answer.to != answers.ALL:
        return replace(answer, to=meeting.seat(answer.to).director)
    return answer


def _is_early(meeting: Meeting, kind: AnswerKind) -> bool:
    """Return whether an answer comes before its phase. It is not refused: it counts when its phase begins."""
    phase = PHASE_OF[kind]
    return meeting.is_open and meeting.phase is not phase and phase not in {one.phase for one in meeting.turns}


def _met(meeting: Meeting, kind: AnswerKind, name: str, mark: str) -> Meeting:
    flat = {**meeting.taken.flat, f"{kind.value}:{name}": mark}
    return replace(meeting, taken=replace(meeting.taken, flat=flat))


def _echo(channel: Channel, answer: Answer) -> str:
    return f"{channel.value}:{answers.kind_of(answer).value}:{digest(answer)}"


def _with_echo(meeting: Meeting, channel: Channel, answer: Answer) -> Meeting:
    return replace(meeting, taken=replace(meeting.taken, echoes=(*meeting.taken.echoes, _echo(channel, answer))))


def _without_echo(meeting: Meeting, channel: Channel, answer: Answer) -> Meeting | None:
    """Return the meeting without this echo, if the answer was expected by this channel and is nothing new."""
    echo = _echo(channel, answer)
    if echo not in meeting.taken.echoes:
        return None
    left = list(meeting.taken.echoes)
    left.remove(echo)
    return replace(meeting, taken=replace(meeting.taken, echoes=tuple(left)))


def to_show(meeting: Meeting, kind: AnswerKind, there: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of the record that the file lacks, or has in an older version.

    An entry that somebody changed after we had written ours stays as it is. So does the whole file once the meeting is
    over: it may belong to another meeting by then.
    """
    ours = exports.assessments(meeting) if kind is AnswerKind.ASSESS else exports.votes(meeting)
    return {
        name: entry
        for name, entry in ours.items()
        if (name not in there and not meeting.is_over)
        or (
            _shown(meeting, kind, name) != current(meeting, kind, name)
            and not _same(meeting, kind, name, there.get(name))
        )
    }


def mirrored(meeting: Meeting, kind: AnswerKind, written: Mapping[str, object]) -> Meeting:
    """Note the entries that we wrote into the file, so that they are not taken in when it is read back."""
    for name, entry in written.items():
        meeting = _met(meeting, kind, name, digest_of(entry))
    for name in exports.assessments(meeting) if kind is AnswerKind.ASSESS else exports.votes(meeting):
        meeting = _met(meeting, kind, f"{name} shown", current(meeting, kind, name) or "")
    return meeting


def _shown(meeting: Meeting, kind: AnswerKind, name: str) -> str | None:
    return meeting.taken.flat.get(f"{kind.value}:{name} shown")


def _same(meeting: Meeting, kind: AnswerKind, name: str, entry: object) -> bool:
    try:
        return digest(_understood(meeting, kind, name, entry)) == current(meeting, kind, name)
    except (BadAnswer, NotOnBoard):
        return False


def said(meeting: Meeting, numbers: AbstractSet[int]) -> Meeting:
    """Note that the bus has lines of these answers."""
    return _said_where(meeting, lambda _, mark: mark.number in numbers) if numbers else meeting


def _said(meeting: Meeting, answer: Answer) -> Meeting:
    wanted = digest(answer)
    return _said_where(meeting, lambda one, _: digest(one) == wanted)


def _said_where(meeting: Meeting, holds: Callable[[Answer, AnswerMark], bool]) -> Meeting:
    def marked(one: Answer, mark: AnswerMark) -> AnswerMark:
        return replace(mark, said=True) if not mark.said and holds(one, mark) else mark

    return replace(
        meeting,
        assessments={name: (one, marked(one, mark)) for name, (one, mark) in meeting.assessments.items()},
        votes={name: (one, marked(one, mark)) for name, (one, mark) in meeting.votes.items()},
        remarks=tuple(replace(heard, mark=marked(heard.remark, heard.mark)) for heard in meeting.remarks),
    )
