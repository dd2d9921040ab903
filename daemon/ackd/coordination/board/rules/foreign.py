"""Sessions that the seed's own ``create_board_session`` has begun: adopted as meetings, and driven.

Whoever made the session may have an orchestrator that goes on by itself (``advance_board_phase``). So a complete phase
is left for ``HAND_S``, three times the seed's own polling interval, to be ended by that orchestrator. If it does so, we
follow it, and ask nobody ourselves. If not, or when a phase's time is up, the meeting goes on as one of ours. Somebody
has to do this, because the seed's own ``advance_board_phase`` fails on its way to VOTING.

| driver | a phase is complete | its time is up | the orchestrator changed the session's status |
|---|---|---|---|
| ours | ends at once | ends | ignored |
| adopted | ends after ``HAND_S`` | ends | followed, driver: another |
| another | left to it | ends, driver: adopted | followed |

Fails with ``BadMeeting`` for a session that cannot be driven.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.board.rules.meeting import Driver, Meeting, Seat, context_excess, turned_by_hand
from ackd.coordination.board.rules.phases import OPEN, BoardCheckpoint, Phase
from ackd.core.errors import BadMeeting
from ackd.core.names import is_agent_name
from ackd.formats import utc_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HAND_S: Final = 15.0
MAX_DIRECTORS: Final = 50
MAX_ROUNDS: Final = 10
_ORDER: Final = (Phase.ASSESSING, Phase.DISCUSSING, Phase.VOTING, Phase.RESOLVING, Phase.COMPLETE)


def status_of(session: object) -> Phase | None:
    """Return the session's phase; None for a value that is no session of the seed's."""
    said = session.get("status") if isinstance(session, dict) else None
    return Phase(said) if isinstance(said, str) and said in {phase.value for phase in _ORDER} else None


def is_open(session: object) -> bool:
    return status_of(session) in OPEN


def adopted(
    meeting_id: str,
    session: object,
    *,
    seat_of: Callable[[str], Seat],
    opener: str,
    rounds: int,
    queue_from: int,
    begun_at: float,
) -> Meeting:
    """Return the session as a meeting in the phase of assessments; ``followed`` then brings it to the session's phase.

    ``begun_at``: when its file was written, for a session that does not say when it began.
    """
    path = f"session-{meeting_id}.json"
    phase = status_of(session)
    if not isinstance(session, dict) or phase is None:
        raise BadMeeting(path, "no session of a board: it has no status that the seed knows")
    kinds = {one.value: one for one in BoardCheckpoint}
    kind = kinds.get(str(session.get("checkpoint", "")))
    if kind is None:
        raise BadMeeting(path, f"its checkpoint is none of {', '.join(kinds)}")
    directors = _directors(session.get("directors"))
    if not directors:
        raise BadMeeting(path, "it names no directors, or one by what is no name")
    opened_by = session.get("opened_by")
    proposal, context = _proposal(session.get("proposal"))
    if (excess := context_excess(context)) is not None:
        raise BadMeeting(path, f"its context {excess}")
    started_at = utc_times.read(session.get("started_at"))
    return Meeting(
        meeting_id=meeting_id,
        checkpoint=kind,
        proposal=proposal,
        context=context,
        opener=opened_by if isinstance(opened_by, str) and is_agent_name(opened_by) else opener,
        opened_at=begun_at if started_at is None else min(started_at, begun_at),
        seats=tuple(map(seat_of, directors)),
        rounds=_rounds(session, rounds),
        queue_from=queue_from,
        driver=Driver.ADOPTED,
    )


def followed(meeting: Meeting, session: object, now: float) -> Meeting:
    """Move the meeting on to the session's phase. A proposal that nobody has assessed is not discussed."""
    target = status_of(session)
    if meeting.driver is Driver.OURS or target is None or _rank(target) <= _rank(meeting.phase):
        return meeting
    after = meeting
    while after.is_open and _rank(after.phase) < _rank(target) and after.assessments:
        after = turned_by_hand(after, now, "the orchestrator")
    return after if after == meeting else replace(after, driver=Driver.ANOTHER)


def lags(session: object, meeting: Meeting) -> bool:
    """Return whether the session's file names an earlier phase. A file that cannot be read may be being written."""
    status = status_of(session)
    return status is not None and _rank(status) < _rank(meeting.phase)


def _rank(phase: Phase) -> int:
    return _ORDER.index(phase) if phase in _ORDER else len(_ORDER)


def _directors(said: object) -> list[str]:
    """Return the directors' names. Each may be asked by mail, so each must be a possible agent's name."""
    names = list(dict.fromkeys(said)) if isinstance(said, list) and all(isinstance(name, str) for name in said) else []
    return names if len(names) <= MAX_DIRECTORS and all(map(is_agent_name, names)) else []


def _proposal(said: Any) -> tuple[str, object]:
    """Return proposal and context, from the seed's ``{"proposal": …, "context": …}``.

    Any other value is the proposal.
    """
    if isinstance(said, dict) and isinstance(said.get("proposal"), str):
        return said["proposal"], said.get("context")
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False), None


def _rounds(session: Mapping[str, Any], default: int) -> int:
    phases = session.get("phases")
    discuss = phases.get("discuss") if isinstance(phases, dict) else None
    said = discuss.get("max_rounds") if isinstance(discuss, dict) else None
    return said if type(said) is int and 1 <= said <= MAX_ROUNDS else default
