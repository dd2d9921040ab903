"""`ackd bus`: a message bus by hand, with or without a daemon.

Owns the command lines of init, read, wait and status; post is bus_post.py's. What the files say is read here as the
daemon reads it (core/bus_track), so that both tell the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from ackd.frontends.cli.bus_post import POST, check_type
from ackd.frontends.cli.errors import NO, Ended, creating
from ackd.frontends.cli.options import Commands, click_command, described, site_options
from ackd.frontends.cli.output import echo, print_json, say
from ackd.frontends.cli.tracks import TRACK, choose_track

if TYPE_CHECKING:
    from ackd.core.bus_words import BusLine
    from ackd.core.errors import BadBusLine
    from ackd.site import Site

_POLL_S: Final = 0.1


@click.group(cls=Commands)
def bus() -> None:
    """A message bus: queue.jsonl, locks.json, worker-status.json, events/ and board/.

    Which one is meant: --track, else ACKD_TRACK, else the only one there is, else the team's own (.ackd/bus).
    """


bus.add_command(click_command(POST))


@bus.command()
@click.argument("path", required=False)
@site_options
def init(site: Site, as_json: bool, path: str | None) -> None:
    """Make a message bus, or what is missing of one: PATH/.message-bus, or the team's own. What is there stays.

    Exit codes: 0 made or there already, 73 it cannot be made.
    """
    from ackd.bus import Bus
    from ackd.tracks import house_track

    made = Bus(path if path is not None else house_track(site.root))
    with creating(made.track.bus):
        names = made.make()
    if as_json:
        print_json({"track": made.track.name, "bus": made.track.bus, "made": names})
    else:
        say(f"{made.track.bus}: {'made' if '' in names else 'completed' if names else 'there already'}")


# --- read -------------------------------------------------------------------------------------------------------------
@bus.command()
@click.option("--since", metavar="T", help="Since 30s, 10m, 2h or 1d ago, or since an ISO time.")
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="From this byte of queue.jsonl on.")
@click.option("--type", "kind", metavar="TYPE", help="Only messages of this type.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, also when the file is cut or replaced.")
@described(TRACK)
@site_options
def read(
    site: Site, as_json: bool, since: str | None, offset: int | None, kind: str | None, follow: bool, track: str | None
) -> None:
    """Print what was said on a bus. With --json each line has its offset, and `next`, the one to go on from.

    Exit codes: 0 printed, 65 no such type, 66 no bus, 130 ended by Ctrl-C.
    """
    from ackd.adapters.bus_files.tailing import Position, position_at
    from ackd.bus import Bus, fits
    from ackd.frontends.cli.tail import parse_since

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
@bus.command()
@click.argument("pattern")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=300.0, metavar="S", show_default=True, help="Wait so long."
)
@click.option("--new", is_flag=True, help="Only what happens from now on counts.")
@described(TRACK)
@site_options
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
@bus.command()
@click.option(
    "--stale-after", type=click.FloatRange(min=0), metavar="S",
    help="A worker that was not heard for so long is stale (default: heartbeat_timeout_s of [bus], 600).",
)  # fmt: skip
@described(TRACK)
@site_options
def status(site: Site, as_json: bool, stale_after: float | None, track: str | None) -> None:
    """Show a bus's workers and tasks: who does what, who waits for whom, who has fallen silent.

    Exit codes: 0 shown, 66 no bus.
    """
    from ackd.bus import Bus
    from ackd.frontends.cli.bus_picture import picture, print_picture

    limit_s = site.bus_heartbeat_timeout_s if stale_after is None else stale_after
    found = picture(Bus(choose_track(site, track, make=False)), time.time(), limit_s)
    if as_json:
        print_json(found)
    else:
        print_picture(found)
