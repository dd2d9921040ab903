"""`ackd board`: meetings by hand: opening one, saying something in it, seeing how it stands, ending it.

Owns the command lines and whose word a command is: ``--director``, or the director that the agent in ACKD_AGENT (or
this pane) is. Everything is answered at once and needs no daemon; asking the directors, deadlines and the answer to
whoever called the meeting do, and that is said. What a meeting is: core/board; how it is kept: runtime/board_room.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.frontends.cli import board_doors as doors
from ackd.frontends.cli.errors import accepted, creating
from ackd.frontends.cli.options import Commands, site_options
from ackd.frontends.cli.output import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.board.meeting import Meeting
    from ackd.runtime.board_room import BoardRoom
    from ackd.site import Site

_CHECKPOINTS: Final = ("EVALUATE_PLAN", "EVALUATE_EXECUTION", "PRE_LAUNCH", "QUICK_REVIEW")


@click.group(cls=Commands)
def board() -> None:
    """A board that decides: directors assess a proposal, discuss it, and vote.

    MEETING is an id (`ackd board list`); without one the newest that is open is meant. Of two answers of one director
    the last before its phase closes counts. Exit 1: not in this phase; 65: the answer makes no sense; 66: no such
    meeting; 67: no director, or another's seat; 75: another process holds the board.
    """


_meeting = click.argument("meeting_id", metavar="[MEETING]", required=False)
_track = click.option("--track", metavar="NAME|PATH", help="Which message bus (default: ACKD_TRACK, or the only one).")
_director = click.option(
    "--director", metavar="NAME", help="Whose word it is (default: the director that ACKD_AGENT, or this pane's, is)."
)


def _answering(command: Callable[..., Any]) -> Callable[..., Any]:
    return _meeting(_director(_track(site_options(command))))


# --- opening and ending -----------------------------------------------------------------------------------------------
@board.command("open")
@click.option(
    "--checkpoint", type=click.Choice(_CHECKPOINTS, case_sensitive=False), metavar="|".join(_CHECKPOINTS), required=True
)
@click.option("--proposal", required=True, metavar="TEXT|@FILE", help="What is proposed; @- reads stdin.")
@click.option("--context", metavar="FILE", help="What the directors should know besides: JSON, or any text.")
@click.option("--directors", metavar="CA,CPO,...", help="Who sits in it (default: all of the config).")
@click.option("--from", "opener", metavar="AGENT", help="Who is told the result (default: ACKD_AGENT, else user).")
@_track
@site_options
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
    """Call a meeting."""
    from ackd.core.board.meeting import Meeting
    from ackd.core.board.phases import Checkpoint
    from ackd.frontends.cli.whose import agent_here

    seats, rounds = doors.seats(site, directors)
    who = site.resolve_agent(opener or agent_here(site) or "user")
    text, more = doors.proposal(proposal), doors.context(context)
    room, now = doors.room_of(site, track, make=True), time.time()

    def make(meeting_id: str, queue_from: int) -> Meeting:
        kind = Checkpoint(checkpoint.upper())
        return Meeting(meeting_id, kind, text, more, who, now, seats, rounds, queue_from)

    with creating(room.board):
        meeting = room.open(now, make)
    with accepted(f"meeting {meeting.meeting_id} is open"):
        if as_json:
            print_json(doors.standing(site, room, meeting))
            return
        say(f"opened {meeting.meeting_id} in track {room.track.name}: {', '.join(meeting.directors)}")
        doors.say_who_is_told(site)


@board.command()
@_meeting
@_track
@site_options
def resolve(site: Site, as_json: bool, meeting_id: str | None, track: str | None) -> None:
    """Count now, without whoever is missing: the votes, or in a quick review the assessments. Of a meeting that is over
    the resolution is printed again."""
    from ackd.core.board import papers
    from ackd.core.board.meeting import closed

    room, by, now = doors.room_of(site, track), doors.who(site), time.time()

    def count(meeting: Meeting) -> Meeting:
        return meeting if meeting.resolution is not None else closed(meeting, now, by)

    with creating(room.board):
        meeting = room.change(meeting_id or _newest_counted(room), count, now)
    if as_json:
        print_json({**papers.answer(meeting), "absent": papers.absences(meeting)})
    else:
        from ackd.frontends.cli.output import echo, printable_lines

        echo(printable_lines(papers.resolution(meeting)))


def _newest_counted(room: BoardRoom) -> str | None:
    """Without an id: the newest that is open, else the newest that is over."""
    from ackd.core.errors import NoMeeting

    try:
        return room.find(None).meeting_id
    except NoMeeting:
        return next((meeting.meeting_id for meeting in room.every() if meeting.resolution is not None), None)


@board.command()
@_meeting
@_track
@site_options
def cancel(site: Site, as_json: bool, meeting_id: str | None, track: str | None) -> None:
    """End a meeting without a result. Whoever was asked is told."""
    from ackd.core.board.meeting import cancelled

    by = doors.who(site)
    doors.act(site, track, meeting_id, lambda meeting, now: cancelled(meeting, now, by), "cancelled", as_json=as_json)


# --- saying something -------------------------------------------------------------------------------------------------
@board.command()
@_answering
@click.option("--verdict", required=True, metavar="APPROVE|CONCERNS|REJECT")
@click.option("--score", type=float, help="From 0 to 10.")
@click.option("--concern", "concerns", multiple=True, metavar="TEXT", help="What worries you; may be given again.")
@click.option("--recommendation", "recommendations", multiple=True, metavar="TEXT", help="May be given again.")
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
    """Say what you think of the proposal, on your own: others' assessments are shown when all are in."""
    from ackd.core.board import answers

    said = {"verdict": verdict, "score": score, "concerns": concerns, "recommendations": recommendations}

    def act(meeting: Meeting, now: float) -> Meeting:
        answer = answers.assessment(doors.seat_of(site, meeting, director), said, most=answers.SCALE)
        return doors.recorded(meeting, answer, now)

    doors.act(site, track, meeting_id, act, "assessment recorded", as_json=as_json)


@board.command()
@_answering
@click.option("--to", default="ALL", show_default=True, metavar="DIRECTOR|ALL")
@click.option("--type", "kind", metavar="CHALLENGE|AGREE|QUESTION|CLARIFY")
@click.option("--message", metavar="TEXT|@FILE", help="What you say; @- reads stdin.")
@click.option("--changes-my-verdict", is_flag=True, help="It makes you think otherwise than you assessed.")
@click.option("--pass", "passes", is_flag=True, help="Nothing to say in this round.")
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
    from ackd.core.board import answers
    from ackd.core.board.meeting import passed

    if passes == (message is not None):
        raise click.UsageError("say something (--type, --message), or --pass")
    text = "" if message is None else doors.text_of(message, "--message")
    said = {"to": to, "type": kind, "message": text, "changes_my_verdict": changes_my_verdict}

    def act(meeting: Meeting, now: float) -> Meeting:
        name = doors.seat_of(site, meeting, director)
        return passed(meeting, name) if passes else doors.recorded(meeting, answers.remark(name, said), now)

    doors.act(site, track, meeting_id, act, "passed" if passes else "remark recorded", as_json=as_json)


@board.command()
@_answering
@click.option("--verdict", required=True, metavar="APPROVE|REJECT")
@click.option("--confidence", type=float, help="From 0 to 1.")
@click.option("--condition", "conditions", multiple=True, metavar="TEXT", help="May be given again.")
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
    """Vote. Nobody sees it before all have, or the time is up."""
    from ackd.core.board import answers

    said = {"final_verdict": verdict, "confidence": confidence, "conditions": conditions}

    def act(meeting: Meeting, now: float) -> Meeting:
        return doors.recorded(meeting, answers.vote(doors.seat_of(site, meeting, director), said), now)

    doors.act(site, track, meeting_id, act, "vote recorded", as_json=as_json)


# --- looking ----------------------------------------------------------------------------------------------------------
@board.command()
@_meeting
@click.option("--for", "director", metavar="DIRECTOR", help="What this director needs now.")
@_track
@site_options
def show(site: Site, as_json: bool, meeting_id: str | None, director: str | None, track: str | None) -> None:
    """How a meeting stands; without MEETING the newest that is open, else the newest. Votes only once they are
    counted."""
    from ackd.frontends.cli import board_view

    room = doors.room_of(site, track, listing=True)
    meeting = room.read(meeting_id) if meeting_id is not None else _open_or_newest(room)
    seat = None if director is None else meeting.seat(director)
    if as_json:
        print_json(board_view.as_dict(meeting, seat, room.track.bus))
    else:
        board_view.print_meeting(meeting, seat, room.track.bus)


def _open_or_newest(room: BoardRoom) -> Meeting:
    every = list(room.every())
    found = next((meeting for meeting in every if meeting.is_open), None) or next(iter(every), None)
    return found if found is not None else room.find(None)


@board.command("list")
@_track
@site_options
def list_(site: Site, as_json: bool, track: str | None) -> None:
    """All meetings of a track, the newest first."""
    from ackd.core.board.papers import absences
    from ackd.core.escalations import stamp
    from ackd.frontends.cli.table import print_table

    room = doors.room_of(site, track, listing=True)
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
        for meeting in room.every()
    ]
    if as_json:
        print_json(found)
    elif not found:
        click.echo(f"no meetings in track {room.track.name}: `ackd board open` calls one")
    else:
        columns = ("session_id", "checkpoint", "phase", "verdict", "opened_by", "proposal")
        rows = [[str(one[key] or "-").splitlines()[0] for key in columns] for one in found]
        print_table(["MEETING", "CHECKPOINT", "PHASE", "VERDICT", "BY", "PROPOSAL"], rows)
    for path, why in room.strange.items():
        click.echo(f"ackd: passed over {path}: {why}", err=True)
