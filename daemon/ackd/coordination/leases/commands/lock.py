"""`ackd lock`: leases by hand and by agents' hooks.

Exit codes: 0 it is yours · 1 it is another's, or not yours · 75 it was waited for in vain, or is waited for · 65 the
path is not one of the workspace. The use cases are those of ``coordination/leases/door``. Quick to import.
"""

import time
from typing import Final

from ackd.cli.command_line import Group, argument, at_least, for_team
from ackd.cli.errors import NO, TRY_AGAIN, Ended, Failure, WrongUsage, creating
from ackd.cli.output import echo, print_json, printable, say
from ackd.cli.waiting import waiting
from ackd.client.identity import agent_here
from ackd.config.site import Site
from ackd.coordination.bus.commands.tracks import TRACK, choose_track
from ackd.coordination.leases.door import LeaseDoor, LeaseList, Trouble
from ackd.coordination.leases.rules.words import Denied, Granted, Lease, Queued, Waiter
from ackd.formats import utc_times

_LONGEST_S: Final = 7 * 86_400.0
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


# --- the commands -----------------------------------------------------------------------------------------------------
_AGENT: Final = argument(
    "--agent", metavar="NAME", complete="agents", help="The agent that asks (default: ACKD_AGENT, or this pane's)."
)
_ALL: Final = argument("--all", dest="every", action="store_true", help="Every lease that the agent holds.")
_TTL: Final = argument(
    "--ttl", metavar="TIME", help="The lease's length: 90s, 30m, 2h (default: lease_s of [bus], 30m)."
)
_PATH: Final = argument("path", nargs="?", metavar="[PATH]")

lock: Final = Group(
    """Lease files: each to one writer or several readers at a time, in order of asking, for a limited time.

    PATH is relative to the project (where ackd.toml lies), or absolute; the file need not exist. No daemon is needed;
    a running one wakes waiting agents, and takes back the leases of agents that have died.
    """
)


@lock.command
@argument("path", metavar="PATH")
@_AGENT
@argument("--shared", action="store_true", help="Lease for reading, together with other readers.")
@_TTL
@argument("--wait", type=at_least(0), default=0.0, metavar="S", help="Wait in line for at most so many seconds.")
@argument("--later", action="store_true", help="Stand in line and return; mail tells you when the file is yours.")
@TRACK
@for_team
def acquire(
    site: Site, as_json: bool, path: str, agent: str | None, shared: bool, ttl: str | None, wait: float, later: bool,
    track: str | None,
) -> None:  # fmt: skip
    """Lease a file. Exit 1: another agent has it; 75: waited in vain, or still in line; 65: not in the workspace."""
    if later and wait:
        raise WrongUsage("--wait waits here, --later does not: give one of them")
    door, holder, ttl_s = LeaseDoor(site), _holder(site, agent), None if ttl is None else _ttl(ttl)
    where = choose_track(site, track, make=True)
    patience = f"in line for {path}, {wait:g} s at most"
    with creating(where.bus), waiting(patience, stays=f"interrupted: {holder} no longer stands in line for {path}"):
        found = door.acquire(path, holder, shared=shared, ttl_s=ttl_s, wait_s=wait, later=later, track=where)
    _warn(found.trouble)
    answer = found.answer
    if isinstance(answer, Granted):
        _say_granted(answer, as_json=as_json)
        return
    _say_held(answer, wait, as_json=as_json)
    raise Ended(TRY_AGAIN if wait or later else NO)


@lock.command
@_PATH
@_AGENT
@_ALL
@_TTL
@TRACK
@for_team
def renew(
    site: Site, as_json: bool, path: str | None, every: bool, agent: str | None, ttl: str | None, track: str | None
) -> None:
    """Prolong a lease. Exit 1: it is not held."""
    _path_or_all(path, every)
    door, holder, ttl_s = LeaseDoor(site), _holder(site, agent), None if ttl is None else _ttl(ttl)
    where = choose_track(site, track, make=False)
    with creating(where.bus):
        renewed = door.renew(holder, path, ttl_s=ttl_s, track=where)
    _warn(renewed.trouble)
    if path is not None and not renewed.leases:
        raise Failure(NO, f"{path} is not held by {renewed.agent}")
    if as_json:
        print_json({"renewed": [_described(*one) for one in renewed.leases]})
    else:
        for key, lease in renewed.leases:
            say(f"renewed {key} for {lease.agent} until {_clock(lease.expires_at)}, token {lease.token}")


@lock.command
@_PATH
@_AGENT
@_ALL
@TRACK
@for_team
def release(site: Site, as_json: bool, path: str | None, every: bool, agent: str | None, track: str | None) -> None:
    """Give a lease back, and wake the next in line. Exit 1: it is not held."""
    _path_or_all(path, every)
    door, holder = LeaseDoor(site), _holder(site, agent)
    where = choose_track(site, track, make=False)
    with creating(where.bus):
        released = door.release(holder, path, track=where)
    _warn(released.trouble)
    if path is not None and not released.leases:
        raise Failure(NO, f"{path} is not held by {released.agent}")
    if as_json:
        print_json({"released": [_described(*one) for one in released.leases]})
    else:
        for key, lease in released.leases:
            say(f"released {key} of {released.agent}, token {lease.token}")


@lock.command
@argument("--agent", metavar="NAME", complete="agents", help="Only leases that this agent holds or waits for.")
@TRACK
@for_team
def list_(site: Site, as_json: bool, agent: str | None, track: str | None) -> None:
    """List the leases: each file's holder, until when, and who waits for it."""
    found = LeaseDoor(site).list(agent, track=track)
    _warn(found.trouble)
    if as_json:
        waiting = [{"path": path, **_waits(waiter)} for path, waiter in found.waiting]
        print_json({"track": found.track.bus, "held": [_described(*one) for one in found.held], "waiting": waiting})
    elif not found.held and not found.waiting:
        say("nobody holds anything")
    else:
        _print_table(found, time.time())


def _print_table(found: LeaseList, now: float) -> None:
    from ackd.cli.table import age, print_table

    rows = [
        ["over" if lease.expires_at <= now else _kind(lease), lease.agent, age(now - lease.acquired_at),
         _clock(lease.expires_at), str(lease.token or "-"), str(found.waiting_for.get(path, 0)), path]
        for path, lease in found.held
    ]  # fmt: skip
    rows += [
        ["waits", one.agent, age(now - one.since), _clock(one.until), "-", "-", path] for path, one in found.waiting
    ]
    print_table(["LEASE", "HOLDER", "SINCE", "UNTIL", "TOKEN", "WAITING", "PATH"], rows, {"over": "red"})


# --- reading what was typed -------------------------------------------------------------------------------------------
def _holder(site: Site, given: str | None) -> str:
    """Return who asks, checked before a bus is made for it."""
    name = given or agent_here(site)
    if not name:
        raise WrongUsage("who asks? Say --agent NAME, or set ACKD_AGENT")
    return LeaseDoor(site).holder(name)


def _ttl(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _LONGEST_S:
        raise WrongUsage(f"--ttl {text!r}: a time such as 90s, 30m or 2h, at most 7d")
    return seconds


def _path_or_all(path: str | None, every: bool) -> None:
    if (path is None) != every:
        raise WrongUsage("give PATH, or --all")


# --- saying what came of it -------------------------------------------------------------------------------------------
def _say_granted(granted: Granted, *, as_json: bool) -> None:
    lease = granted.lease
    if as_json:
        print_json({"granted": True, "again": granted.again, **_described(granted.path, lease)})
        return
    already = "already " if granted.again else ""
    until = f"until {_clock(lease.expires_at)}, token {lease.token}"
    say(f"{granted.path} is {already}leased to {lease.agent} ({_kind(lease)}) {until}")


def _say_held(answer: Denied | Queued, wait_s: float, *, as_json: bool) -> None:
    holders = answer.holders if isinstance(answer, Denied) else ()
    ahead = answer.ahead if isinstance(answer, Denied) else ()
    if as_json:
        said: dict[str, object] = {"granted": False, "queued": isinstance(answer, Queued), "path": answer.path}
        said |= {
            "holders": [_described(answer.path, lease) for lease in holders],
            "ahead": [_waits(one) for one in ahead],
        }
        print_json(said | ({"behind": list(answer.behind)} if isinstance(answer, Queued) else {}))
        return
    if isinstance(answer, Queued):
        words = f"in line behind {', '.join(answer.behind)}; told by mail when it is yours"
    else:
        held = [f"held by {one.agent} ({_kind(one)}) {_span(one)}" for one in holders]
        words = "; ".join(held + [f"waited for by {one.agent} since {_clock(one.since)}" for one in ahead])
    waited = f" (waited {wait_s:g} s)" if wait_s else ""
    echo(f"ackd: {printable(answer.path)}: {printable(words)}{waited}", err=True)


def _described(path: str, lease: Lease) -> dict[str, object]:
    times = {"acquired_at": utc_times.write(lease.acquired_at), "expires_at": utc_times.write(lease.expires_at)}
    return {"path": path, "agent": lease.agent, "lock_type": _kind(lease), **times, "token": lease.token}


def _waits(waiter: Waiter) -> dict[str, object]:
    kind = "shared" if waiter.shared else "exclusive"
    times = {"since": utc_times.write(waiter.since), "until": utc_times.write(waiter.until)}
    return {"agent": waiter.agent, "lock_type": kind, **times}


def _kind(lease: Lease) -> str:
    return "shared" if lease.shared else "exclusive"


def _span(lease: Lease) -> str:
    return f"since {_clock(lease.acquired_at)} until {_clock(lease.expires_at)}"


def _clock(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))


def _warn(trouble: Trouble) -> None:
    for kept in trouble.set_aside:
        echo(f"ackd: a file of leases could not be read: kept as {printable(kept)}, taken for empty", err=True)
    if trouble.unsaid is not None:
        echo(f"ackd: done, but the bus could not be told: {trouble.unsaid.strerror or trouble.unsaid}", err=True)
