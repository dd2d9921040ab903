"""`ackd board`: opening meetings by hand, saying something in them, seeing how they stand, ending them.

A command speaks for ``--director``, or for the director that the agent in ACKD_AGENT (or in this pane) is. Everything
is answered at once and needs no daemon. Asking the directors, deadlines, and telling whoever called the meeting need
one, and the commands say so when there is none. The use cases are those of ``coordination/board/door``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import Group, argument, for_team
from ackd.cli.errors import BAD_DATA, Failure, WrongUsage, accepted, creating
from ackd.cli.output import echo, print_json, say
from ackd.coordination.board.commands import inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.site import Site
    from ackd.coordination.board.door import BoardDoor, MeetingStanding, WhichSeat
    from ackd.coordination.bus.rules.layout import Track

_CHECKPOINTS: Final = ("EVALUATE_PLAN", "EVALUATE_EXECUTION", "PRE_LAUNCH", "QUICK_REVIEW")


board = Group(
    """Hold a board's meeting: directors assess a proposal, discuss it, and vote.

    MEETING is an id (`ackd board list`; default: the newest that is open). Of two answers of one director
    the last before its phase closes counts. Exit 1: not in this phase; 65: the answer makes no sense; 66: no such
    meeting; 67: no director, or another's seat; 75: another process holds the board.
    """
)


_meeting = argument("meeting_id", nargs="?", metavar="[MEETING]")
_track = argument("--track", metavar="NAME|PATH", help="The message bus (default: ACKD_TRACK, or the only one).")
_director = argument(
    "--director",
    metavar="NAME",
    help="The director who speaks (default: the one that ACKD_AGENT or this pane's agent is).",
)


def _answering(command: Callable[..., Any]) -> Callable[..., Any]:
    return _meeting(_director(_track(for_team(command))))


# --- opening and ending -----------------------------------------------------------------------------------------------
@board.command
@argument("--checkpoint", type=str.upper, choices=_CHECKPOINTS, metavar="|".join(_CHECKPOINTS), required=True)
@argument("--proposal", metavar="TEXT|@FILE", required=True, help="The proposal; @- reads stdin.")
@argument("--context", metavar="FILE", help="Background for the directors: JSON, or any text.")
@argument("--directors", metavar="CA,CPO,...", help="The directors who take part (default: all in the config).")
@argument(
    "--from", dest="opener", metavar="AGENT", help="The agent that is told the result (default: ACKD_AGENT, else user)."
)
@_track
@for_team
def open_(
    site: Site,
    as_json: bool,
    checkpoint: str,
    proposal: str,
    context: str | None,
    directors: str | None,
    opener: str | None,
    track: str | None,
) -> None:
    """Call a meeting: its directors are asked to assess the proposal."""
    from ackd.client.identity import person_or_agent
    from ackd.coordination.board.door import BadContext, BoardDoor
    from ackd.coordination.board.rules.phases import BoardCheckpoint

    door = BoardDoor(site)
    try:
        call = door.prepare(
            BoardCheckpoint(checkpoint.upper()),
            inputs.text_of(proposal, "--proposal"),
            opener=opener or person_or_agent(site),
            context=inputs.context(context),
            directors=None if directors is None else directors.split(","),
        )
    except BadContext as bad:
        raise Failure(BAD_DATA, f"--context {bad.why}") from None
    where = _track_of(site, track, make=True)
    with creating(where.board):
        opened = door.open(where, call)
    meeting = opened.meeting
    with accepted(f"meeting {meeting.meeting_id} is open"):
        if as_json:
            print_json(_as_dict(opened))
            return
        say(f"opened {meeting.meeting_id} in track {opened.track.name}: {', '.join(meeting.directors)}")
        _say_who_is_told(opened)


@board.command
@_meeting
@_track
@for_team
def resolve(site: Site, as_json: bool, meeting_id: str | None, track: str | None) -> None:
    """Count now, without missing directors: the votes, or in a quick review the assessments. Of a meeting that is over
    the resolution is printed again."""
    from ackd.cli.output import echo, printable_lines
    from ackd.client.identity import person_or_agent
    from ackd.coordination.board.door import BoardDoor
    from ackd.coordination.board.rules import exports

    where, by = _track_of(site, track), person_or_agent(site)
    with creating(where.board):
        meeting = BoardDoor(site).resolve(where, meeting_id, by=by)
    if as_json:
        print_json({**exports.answer(meeting), "absent": exports.absences(meeting)})
    else:
        echo(printable_lines(exports.resolution(meeting)))


@board.command
@_meeting
@_track
@for_team
def cancel(site: Site, as_json: bool, meeting_id: str | None, track: str | None) -> None:
    """End a meeting without a result, and tell its directors."""
    from ackd.client.identity import person_or_agent

    by = person_or_agent(site)
    _change(site, track, lambda door, where: door.cancel(where, meeting_id, by=by), "cancelled", as_json=as_json)


# --- saying something -------------------------------------------------------------------------------------------------
@board.command
@_answering
@argument("--verdict", metavar="APPROVE|CONCERNS|REJECT", required=True)
@argument("--score", type=float, help="The score, from 0 to 10.")
@argument("--concern", dest="concerns", action="append", metavar="TEXT", help="A concern. May be given again.")
@argument(
    "--recommendation",
    dest="recommendations",
    action="append",
    metavar="TEXT",
    help="A recommendation. May be given again.",
)
def assess(
    site: Site,
    as_json: bool,
    meeting_id: str | None,
    director: str | None,
    track: str | None,
    verdict: str,
    score: float | None,
    concerns: tuple[str, ...],
    recommendations: tuple[str, ...],
) -> None:
    """Assess the proposal on your own: the others' assessments are shown when all are in."""
    said: dict[str, Any] = {"verdict": verdict, "score": score, "concerns": concerns}
    said |= {"recommendations": recommendations, **_speaker(site, director)}
    _change(
        site, track, lambda door, where: door.assess(where, meeting_id, **said), "assessment recorded", as_json=as_json
    )


@board.command
@_answering
@argument("--to", default="ALL", metavar="DIRECTOR|ALL", help="The director who is addressed.  [default: %(default)s]")
@argument("--type", dest="kind", metavar="CHALLENGE|AGREE|QUESTION|CLARIFY")
@argument("--message", metavar="TEXT|@FILE", help="The words; @- reads stdin.")
@argument("--changes-my-verdict", action="store_true", help="Say that the discussion changed your verdict.")
@argument("--pass", dest="passes", action="store_true", help="Say nothing in this round.")
def discuss(
    site: Site,
    as_json: bool,
    meeting_id: str | None,
    director: str | None,
    track: str | None,
    to: str,
    kind: str | None,
    message: str | None,
    changes_my_verdict: bool,
    passes: bool,
) -> None:
    """Say something to another director, or to all. A round ends when everybody has spoken or passed."""
    if passes == (message is not None):
        raise WrongUsage("say something (--type, --message), or --pass")
    speaker = _speaker(site, director)
    if message is None:
        _change(
            site, track, lambda door, where: door.pass_round(where, meeting_id, **speaker), "passed", as_json=as_json
        )
        return
    said: dict[str, Any] = {"message": inputs.text_of(message, "--message"), "kind": kind, "to": to}
    said |= {"changes_my_verdict": changes_my_verdict, **speaker}
    _change(
        site, track, lambda door, where: door.discuss(where, meeting_id, **said), "remark recorded", as_json=as_json
    )


@board.command
@_answering
@argument("--verdict", metavar="APPROVE|REJECT", required=True)
@argument("--confidence", type=float, help="The confidence, from 0 to 1.")
@argument(
    "--condition",
    dest="conditions",
    action="append",
    metavar="TEXT",
    help="A condition of the vote. May be given again.",
)
def vote(
    site: Site,
    as_json: bool,
    meeting_id: str | None,
    director: str | None,
    track: str | None,
    verdict: str,
    confidence: float | None,
    conditions: tuple[str, ...],
) -> None:
    """Vote. Votes are shown when all directors have voted, or the time is up."""
    said: dict[str, Any] = {"verdict": verdict, "confidence": confidence, "conditions": conditions}
    said |= _speaker(site, director)
    _change(site, track, lambda door, where: door.vote(where, meeting_id, **said), "vote recorded", as_json=as_json)


# --- looking ----------------------------------------------------------------------------------------------------------
@board.command
@_meeting
@argument("--for", dest="director", metavar="DIRECTOR", help="Show only what this director needs for the next answer.")
@_track
@for_team
def show(site: Site, as_json: bool, meeting_id: str | None, director: str | None, track: str | None) -> None:
    """Show a meeting; without MEETING the newest that is open, else the newest. Votes are shown only once they are
    counted."""
    from ackd.coordination.board.commands import view as board_view
    from ackd.coordination.board.door import BoardDoor

    where = _track_of(site, track, listing=True)
    meeting = BoardDoor(site).show(where, meeting_id)
    seat = None if director is None else meeting.seat(director)
    if as_json:
        print_json(board_view.as_dict(meeting, seat, where.bus))
    else:
        board_view.print_meeting(meeting, seat, where.bus)


@board.command
@_track
@for_team
def list_(site: Site, as_json: bool, track: str | None) -> None:
    """List all meetings of a message bus, the newest first."""
    from ackd.cli.table import print_table
    from ackd.coordination.board.door import BoardDoor
    from ackd.coordination.board.rules.exports import absences
    from ackd.core.escalations import stamp

    where = _track_of(site, track, listing=True)
    listed = BoardDoor(site).meetings(where)
    found = [
        {
            "session_id": meeting.meeting_id,
            "checkpoint": meeting.checkpoint.value,
            "phase": meeting.phase.value,
            "round": meeting.round,
            "verdict": meeting.resolution.decision.value if meeting.resolution is not None else None,
            "opened_by": meeting.opener,
            "opened_at": stamp(meeting.opened_at),
            "absent": absences(meeting),
            "proposal": meeting.proposal[:200],
        }
        for meeting in listed.meetings
    ]
    if as_json:
        print_json({"track": where.name, "meetings": found})
    elif not found:
        echo(f"no meetings in track {where.name}: `ackd board open` calls one")
    else:
        columns = ("session_id", "checkpoint", "phase", "verdict", "opened_by", "proposal")
        rows = [[str(one[key] or "-").splitlines()[0] for key in columns] for one in found]
        print_table(["MEETING", "CHECKPOINT", "PHASE", "VERDICT", "BY", "PROPOSAL"], rows)
    for path, why in listed.unreadable.items():
        echo(f"ackd: passed over {path}: {why}", err=True)


# --- shared by the commands -------------------------------------------------------------------------------------------
def _track_of(site: Site, wanted: str | None, *, make: bool = False, listing: bool = False) -> Track:
    from ackd.coordination.bus.commands.tracks import choose_track

    return choose_track(site, wanted, make=make, listing=listing)


def _speaker(site: Site, director: str | None) -> dict[str, str | None]:
    from ackd.client.identity import agent_here

    return {"director": director, "agent": agent_here(site)}


def _change(
    site: Site, track: str | None, act: Callable[[BoardDoor, Track], MeetingStanding], done: str, *, as_json: bool
) -> None:
    from ackd.coordination.board.door import BoardDoor, WhichSeat

    where = _track_of(site, track)
    try:
        with creating(where.board):
            changed = act(BoardDoor(site), where)
    except WhichSeat as unclear:
        raise WrongUsage(_which_seat(unclear)) from None
    meeting = changed.meeting
    with accepted(done):
        if as_json:
            print_json(_as_dict(changed))
            return
        say(f"{done}: {meeting.meeting_id} is {meeting.phase.value}{_waits_for(changed)}")
        if not meeting.is_over:
            _say_who_is_told(changed)


def _which_seat(unclear: WhichSeat) -> str:
    if unclear.agent is None:
        return f"say --director: {', '.join(unclear.directors)}"
    return f"{unclear.agent} is {' and '.join(unclear.directors)}: say --director"


def _waits_for(changed: MeetingStanding) -> str:
    meeting = changed.meeting
    round_ = f" (round {meeting.round} of {meeting.rounds})" if meeting.round else ""
    return f"{round_}, waits for {', '.join(changed.waits_for)}" if changed.waits_for else round_


def _as_dict(changed: MeetingStanding) -> dict[str, Any]:
    meeting = changed.meeting
    return {
        "session_id": meeting.meeting_id,
        "track": changed.track.name,
        "phase": meeting.phase.value,
        "round": meeting.round,
        "waits_for": list(changed.waits_for),
        "verdict": meeting.resolution.decision.value if meeting.resolution is not None else None,
        "daemon": changed.daemon_running,
    }


def _say_who_is_told(changed: MeetingStanding) -> None:
    if not changed.daemon_running:
        say("nobody is told until a daemon runs (`ackd run`): it is recorded")
