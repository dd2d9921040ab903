"""`ackd bus`: a message bus by hand, with or without a daemon.

The commands init, read, wait and status; post has a module of its own. The use cases are those of
``coordination/bus/door``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ackd.cli.command_line import Group, argument, at_least, for_team
from ackd.cli.errors import NO, Ended, creating
from ackd.cli.output import echo, print_json, say
from ackd.cli.waiting import waiting
from ackd.coordination.bus.commands.post import post
from ackd.coordination.bus.commands.tracks import TRACK

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.coordination.bus.standing import BusStanding
    from ackd.core.errors import BadBusLine


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
    from ackd.coordination.bus.door import BusDoor

    door = BusDoor(site)
    with creating(door.place(path).bus):
        found = door.make(path)
    if as_json:
        print_json({"track": found.track.name, "bus": found.track.bus, "made": list(found.made)})
    else:
        say(f"{found.track.bus}: {'made' if '' in found.made else 'completed' if found.made else 'there already'}")


# --- read -------------------------------------------------------------------------------------------------------------
@bus.command
@argument("--since", metavar="T", help="Messages since 30s, 10m, 2h or 1d ago, or since an ISO time.")
@argument("--offset", type=at_least(0, int), metavar="N", help="Begin at this byte of queue.jsonl.")
@argument(
    "--type",
    dest="kind",
    metavar="TYPE",
    complete="ackd.coordination.bus.rules.words:BusType",
    help="Only messages of this type.",
)
@argument("-f", "--follow", action="store_true", help="Print new messages as they come, also if the file is replaced.")
@TRACK
@for_team
def read(
    site: Site, as_json: bool, since: str | None, offset: int | None, kind: str | None, follow: bool, track: str | None
) -> None:
    """Print what was said on a bus. With --json each line has its offset, and `next`, the one to go on from.

    Exit codes: 0 printed, 65 no such type, 66 no bus, 130 ended by Ctrl-C.
    """
    from ackd.cli.tail import parse_since
    from ackd.coordination.bus.door import BusDoor

    after = parse_since(since, time.time()) if since else None
    door = BusDoor(site)
    kind = kind.upper() if kind else None
    for line in door.read(since=after, offset=offset, type_=kind, follow=follow, track=track):
        _print_line(line, as_json=as_json)


def _print_line(line: BusLine | BadBusLine, *, as_json: bool) -> None:
    from ackd.core.errors import BadBusLine
    from ackd.core.escalations import stamp
    from ackd.facts import local_time

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
        say(f"{local_time(line.at)}  {line.type.value:<13}  {line.source:<14}  {words}")


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
    from ackd.coordination.bus.door import BusDoor

    with waiting(f"for the event {pattern}, {timeout:g} s at most"):
        happened = BusDoor(site).wait(pattern, timeout, new=new, track=track)
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
    from ackd.coordination.bus.door import BusDoor

    found = BusDoor(site).status(stale_after_s=stale_after, track=track)
    if as_json:
        print_json(_as_data(found))
    else:
        _print_standing(found)


def _as_data(found: BusStanding) -> dict[str, Any]:
    from ackd.core.escalations import stamp

    workers = {
        name: {
            "status": one.status,
            "task": one.task,
            "since": stamp(one.since),
            "last_heard": stamp(one.last_heard),
            "silent_s": one.silent_s,
            "progress_pct": one.progress_pct,
            "waiting_for": list(one.waiting_for),
            "stale": one.is_stale,
        }
        for name, one in found.workers.items()
    }
    tasks = {
        name: {"worker": one.worker, "state": one.state, "since": stamp(one.since)} for name, one in found.tasks.items()
    }
    return {
        "track": found.track.name,
        "bus": found.track.bus,
        "messages": found.messages,
        "bad_lines": found.bad_lines,
        "workers": workers,
        "tasks": tasks,
        "waits": [{"worker": one.worker, "for": one.waits_for, "what": one.what} for one in found.waits],
        **({"trouble": list(found.trouble)} if found.trouble else {}),
    }


def _print_standing(found: BusStanding) -> None:
    from ackd.facts import duration

    bad = f", {found.bad_lines} lines that cannot be read" if found.bad_lines else ""
    say(f"{found.track.name} ({found.track.bus}): {found.messages} messages{bad}")
    for name, worker in found.workers.items():
        task = f"  task {worker.task}" if worker.task else ""
        percent = f"  {worker.progress_pct:g}%" if worker.progress_pct is not None else ""
        waits = f"  waits for {', '.join(worker.waiting_for)}" if worker.waiting_for else ""
        heard = f"  {'STALE: ' if worker.is_stale else ''}heard {duration(worker.silent_s)} ago"
        say(f"  {name:<20} {worker.status:<9}{task}{percent}{waits}{heard}")
    tasks = found.tasks.values()
    if tasks:
        ended = {state: sum(task.state == state for task in tasks) for state in ("open", "COMPLETE", "FAILED")}
        say(f"  {len(tasks)} tasks: {ended['open']} open, {ended['COMPLETE']} complete, {ended['FAILED']} failed")
    for trouble in found.trouble:
        say(f"  ! {trouble}")
