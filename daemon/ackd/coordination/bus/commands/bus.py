"""`ackd bus`: a message bus by hand, with or without a daemon.

The commands init, read, wait and status; post has a module of its own. The files are read as the daemon reads them
(coordination/bus/rules/track), so that both say the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import Group, argument, at_least, for_team
from ackd.cli.errors import NO, Ended, creating
from ackd.cli.output import echo, print_json, say
from ackd.coordination.bus.commands.post import check_type, post
from ackd.coordination.bus.commands.tracks import TRACK, choose_track

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.core.errors import BadBusLine

_POLL_S: Final = 0.1


bus = Group(
    """Post to a message bus (queue.jsonl, locks.json, worker-status.json, events/, board/), read it, wait for events.

    The bus is the one of --track, else of ACKD_TRACK, else the only one there is, else the team's own (.ackd/bus).
    """
)


bus.add(post)


@bus.command
@argument("path", nargs="?")
@for_team
def init(site: Site, as_json: bool, path: str | None) -> None:
    """Make a message bus, or what is missing of one: PATH/.message-bus, or the team's own. What is there stays.

    Exit codes: 0 made or there already, 73 it cannot be made.
    """
    from ackd.bus import Bus
    from ackd.coordination.bus.tracks import house_track

    made = Bus(path if path is not None else house_track(site.root))
    with creating(made.track.bus):
        names = made.make()
    if as_json:
        print_json({"track": made.track.name, "bus": made.track.bus, "made": names})
    else:
        say(f"{made.track.bus}: {'made' if '' in names else 'completed' if names else 'there already'}")


# --- read -------------------------------------------------------------------------------------------------------------
@bus.command
@argument("--since", metavar="T", help="Messages since 30s, 10m, 2h or 1d ago, or since an ISO time.")
@argument("--offset", type=at_least(0, int), metavar="N", help="Begin at this byte of queue.jsonl.")
@argument("--type", dest="kind", metavar="TYPE", help="Only messages of this type.")
@argument("-f", "--follow", action="store_true", help="Print new messages as they come, also if the file is replaced.")
@TRACK
@for_team
def read(
    site: Site, as_json: bool, since: str | None, offset: int | None, kind: str | None, follow: bool, track: str | None
) -> None:
    """Print what was said on a bus. With --json each line has its offset, and `next`, the one to go on from.

    Exit codes: 0 printed, 65 no such type, 66 no bus, 130 ended by Ctrl-C.
    """
    from ackd.bus import Bus, fits
    from ackd.cli.tail import parse_since
    from ackd.coordination.bus.files.tailing import Position, position_at

    kind = kind.upper() if kind else None
    if kind is not None:
        check_type(kind)
    after = parse_since(since, time.time()) if since else None
    found = Bus(choose_track(site, track, make=False))
    position = Position() if not offset else position_at(found.track.queue, offset)
    while True:
        lines, position, more = found.read_on(position)
        for line in lines:
            if fits(line, after, kind):
                _print_line(line, as_json=as_json)
        if not more and not follow:
            return
        if not more:
            time.sleep(_POLL_S)


def _print_line(line: BusLine | BadBusLine, *, as_json: bool) -> None:
    from ackd.core.errors import BadBusLine
    from ackd.core.escalations import stamp

    if isinstance(line, BadBusLine):
        if as_json:
            print_json({"offset": line.offset, "next": line.end, "bad": line.code, "error": line.detail})
        else:
            echo(f"ackd: byte {line.offset}: {line.detail}", err=True)
        return
    said = {"id": line.message_id, "type": line.type.value, "source": line.source, "timestamp": stamp(line.at)}
    if as_json:
        print_json({**said, "payload": dict(line.payload), "offset": line.offset, "next": line.end})
    else:
        words = " ".join(f"{key}={_shown(value)}" for key, value in line.payload.items() if value not in ([], {}))
        say(f"{said['timestamp']}  {line.type.value:<13}  {line.source:<14}  {words}")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- wait -------------------------------------------------------------------------------------------------------------
@bus.command
@argument("pattern")
@argument("--timeout", type=at_least(0), default=300.0, metavar="S", help="Seconds to wait.  [default: %(default)s]")
@argument("--new", action="store_true", help="Ignore events that happened before now.")
@TRACK
@for_team
def wait(site: Site, as_json: bool, pattern: str, timeout: float, new: bool, track: str | None) -> None:
    """Wait for an event: TASK_COMPLETE_1.1, TASK_FAILED_*, FILE_UNLOCK_src/a.py, BOARD_RESOLVE, MESSAGE_<id>.

    Succeeds at once if it has happened already; --new waits from now on.

    Exit codes: 0 it happened, 1 not in time, 66 no bus.
    """
    from ackd.bus import Bus

    happened = Bus(choose_track(site, track, make=False)).wait(pattern, timeout, new=new)
    if as_json:
        print_json({"pattern": pattern, "happened": happened})
    elif not happened:
        echo(f"ackd: no event {pattern!r} within {timeout:g} s", err=True)
    if not happened:
        raise Ended(NO)


# --- status -----------------------------------------------------------------------------------------------------------
@bus.command
@argument(
    "--stale-after",
    type=at_least(0),
    metavar="S",
    help="Call a worker stale after so many silent seconds (default: heartbeat_timeout_s of [bus], 600).",
)
@TRACK
@for_team
def status(site: Site, as_json: bool, stale_after: float | None, track: str | None) -> None:
    """Show a bus's workers and tasks: who does what, who waits for whom, who has fallen silent.

    Exit codes: 0 shown, 66 no bus.
    """
    from ackd.bus import Bus
    from ackd.coordination.bus.commands.picture import picture, print_picture

    limit_s = site.bus_heartbeat_timeout_s if stale_after is None else stale_after
    found = picture(Bus(choose_track(site, track, make=False)), time.time(), limit_s)
    if as_json:
        print_json(found)
    else:
        print_picture(found)
