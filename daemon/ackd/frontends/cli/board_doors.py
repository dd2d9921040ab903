"""What the commands of `ackd board` share: which board, from whose seat, what was typed, and what came of it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from ackd.frontends.cli.errors import BAD_DATA, NO_AGENT, Failure, WrongUsage, accepted, creating
from ackd.frontends.cli.output import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.board.meeting import Meeting
    from ackd.runtime.board_room import BoardRoom
    from ackd.site import Site

MAX_TEXT_BYTES: Final = 128 * 1024


def room_of(site: Site, wanted: str | None, *, make: bool = False, listing: bool = False) -> BoardRoom:
    from ackd.frontends.cli.tracks import choose_track
    from ackd.runtime.board_room import BoardRoom

    return BoardRoom(choose_track(site, wanted, make=make, listing=listing), site.fsync)


def act(
    site: Site,
    track: str | None,
    meeting_id: str | None,
    act: Callable[[Meeting, float], Meeting],
    done: str,
    *,
    as_json: bool,
) -> None:
    room, now = room_of(site, track), time.time()
    with creating(room.board):
        meeting = room.change(meeting_id, lambda meeting: act(meeting, now), now)
    with accepted(done):
        if as_json:
            print_json(standing(site, room, meeting))
            return
        say(f"{done}: {meeting.meeting_id} is {meeting.phase.value}{_waits_for(meeting)}")
        if not meeting.is_over:
            say_who_is_told(site)


def _waits_for(meeting: Meeting) -> str:
    from ackd.core.board.meeting import waited_for

    round_ = f" (round {meeting.round} of {meeting.rounds})" if meeting.round else ""
    names = waited_for(meeting)
    return f"{round_}, waits for {', '.join(names)}" if names else round_


def standing(site: Site, room: BoardRoom, meeting: Meeting) -> dict[str, Any]:
    from ackd.adapters import root_lock
    from ackd.core.board.meeting import waited_for

    verdict = meeting.resolution.decision.value if meeting.resolution is not None else None
    return {
        "session_id": meeting.meeting_id,
        "track": room.track.name,
        "phase": meeting.phase.value,
        "round": meeting.round,
        "waits_for": list(waited_for(meeting)),
        "verdict": verdict,
        "daemon": root_lock.holder(site.run) is not None,
    }


def say_who_is_told(site: Site) -> None:
    from ackd.adapters import root_lock

    if root_lock.holder(site.run) is None:
        say("nobody is told until a daemon runs (`ackd run`): it is recorded")


def recorded(meeting: Meeting, answer: Any, now: float) -> Meeting:
    from ackd.core.board.answers import Door
    from ackd.core.board.meeting import recorded

    return recorded(meeting, answer, Door.ACKD, now)


def seats(site: Site, wanted: str | None) -> tuple[Any, int]:
    from ackd.config import load_site
    from ackd.config_coordination import Board
    from ackd.core.board.meeting import Seat

    config = load_site(site).board or Board()
    known = {name.casefold(): name for name in config.directors}
    names = [one.strip() for one in wanted.split(",")] if wanted is not None else list(config.directors)
    if strangers := [one for one in names if one.casefold() not in known]:
        raise Failure(NO_AGENT, f"no director {strangers[0]!r}; [board] has {', '.join(config.directors)}")
    chosen = dict.fromkeys(known[one.casefold()] for one in names)
    return tuple(Seat(one, config.directors[one], config.agents.get(one, one)) for one in chosen), config.rounds


def who(site: Site) -> str:
    from ackd.frontends.cli.whose import agent_here

    return agent_here(site) or "user"


def seat_of(site: Site, meeting: Meeting, director: str | None) -> str:
    """An agent speaks from its own seats only. A person (no ACKD_AGENT) may speak from any, and has to say which."""
    from ackd.core.names import identity
    from ackd.frontends.cli.whose import agent_here

    agent = agent_here(site)
    own = [seat.director for seat in meeting.seats if agent is not None and identity(seat.agent) == identity(agent)]
    if director is not None:
        seat = meeting.seat(director)
        if agent is not None and agent != "user" and seat.director not in own:
            raise Failure(NO_AGENT, f"{seat.director} is {seat.agent}'s seat, and this is {agent}")
        return seat.director
    if len(own) == 1:
        return own[0]
    if own:
        raise WrongUsage(f"{agent} is {' and '.join(own)}: say --director")
    if agent is None:
        raise WrongUsage(f"say --director: {', '.join(meeting.directors)}")
    raise Failure(NO_AGENT, f"{agent} is no director of {meeting.meeting_id}: it has {', '.join(meeting.directors)}")


def proposal(given: str) -> str:
    text = text_of(given, "--proposal")
    if not text.strip():
        raise Failure(BAD_DATA, "the proposal is empty")
    return text


def context(path: str | None) -> object:
    """What is no JSON is text. A JSON number that is none, NaN or 1e999, could be written nowhere as JSON again."""
    import json

    from ackd.core.board.context import TOO_DEEP, excess_of

    if path is None:
        return None
    text = text_of(f"@{path}", "--context")
    try:
        found: object = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise Failure(BAD_DATA, f"--context {TOO_DEEP}") from None
    except ValueError:
        return text
    if (excess := excess_of(found)) is not None:  # now, while somebody is there to hear it
        raise Failure(BAD_DATA, f"--context {excess}")
    return found


def _no_number(word: str) -> float:
    raise ValueError(word)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits)


def text_of(given: str, what: str) -> str:
    from ackd.adapters import atomic_file
    from ackd.frontends.cli.output import read_stdin

    if not given.startswith("@"):
        data = given.encode("utf-8", "surrogateescape")
    elif given == "@-":
        data = read_stdin(MAX_TEXT_BYTES + 1)
    else:
        data = atomic_file.read_regular(given[1:], MAX_TEXT_BYTES)
    if len(data) > MAX_TEXT_BYTES:
        raise Failure(BAD_DATA, f"{what} has more than {MAX_TEXT_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failure(BAD_DATA, f"{what} is not UTF-8 at byte {error.start}") from None
