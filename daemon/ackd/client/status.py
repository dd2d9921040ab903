"""The state of a team: the daemon, the agents and their mail.

While a daemon runs, states and reasons are those of its page run/status.json. The page is half a second behind at most.
Where the session log reaches further than the page knows, the next page is waited for, so that a caller who was told
"completed" or "paused" finds it so. A page that a dead daemon left behind is not believed. Without a daemon an agent's
state is "unknown", unless a person paused it.

What waits, is in flight, dead or corrupt is counted in the directories, which are the state. On a full or read-only
disk no page can be written at all, so faults of the disk are looked for here, too.

Fails with OSError where a directory cannot be read: that is not the same as an empty one.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackd.client import dead_letters, loops, shared_queues
from ackd.config.site import ALWAYS
from ackd.core.message import USER, identity
from ackd.core.message_files import STRAY_AFTER_S, STRAY_CURE, STRAY_WORDS, is_message_file
from ackd.endpoints.registry import DEFAULT, INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.client.shared_queues import GroupStatus, PoolStatus
    from ackd.config.site import Site

STATUS_NAME: Final = "status.json"
_MAX_STATUS_BYTES: Final = 4 * 1024 * 1024
_COUNTS: Final = ("queued", "in_flight")
#: How long a page is waited for. One takes half a second, and more on a machine that is busy.
_PAGE_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.02


class DaemonStatus(NamedTuple):
    running: bool
    pid: int | None
    session_id: str | None
    #: How files are noticed: ``inotify`` or ``polling``; None if no daemon tells.
    watch: str | None
    #: What is to be said about the config that it runs with: the file ``differs``, was ``refused`` (with its
    #: ``problems``), has keys that are ``not_live``; ``waiting``: agents whose new endpoint waits; ``removed``: the
    #: mail of agents that are no longer in the file.
    config: Mapping[str, Any] = {}


class AgentStatus(NamedTuple):
    """An agent as it stands. ``details`` has everything that is known of it, as `ackd status --json` prints it.

    ``in_flight`` counts all that the agent was given, ``retrying`` and ``unread`` what of that waits to be offered
    again, and what lies in an inbox unread; without a daemon both are counted from what the files say.
    """

    name: str
    endpoint: str
    state: str
    queued: int
    in_flight: int
    reason: str | None
    details: Mapping[str, Any]
    retrying: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a team. ``details`` has everything, as `ackd status --json` prints it.

    ``faults``, ``escalations``, ``strays`` and ``held`` are entries of it: what keeps the daemon or anybody from
    writing, what somebody was told and has not dealt with, files in queues that are never read, messages that wait for
    a person. ``waits``: which agent waits for which, and what for.
    """

    daemon: DaemonStatus
    agents: Mapping[str, AgentStatus]
    totals: Mapping[str, int]
    faults: tuple[Mapping[str, Any], ...]
    escalations: tuple[Any, ...]
    strays: tuple[Mapping[str, Any], ...]
    held: tuple[Mapping[str, Any], ...]
    #: Open messages that have a deadline or may expire, those that are due first; only while a daemon runs.
    deadlines: tuple[Mapping[str, Any], ...]
    details: Mapping[str, Any]
    waits: tuple[Mapping[str, Any], ...] = ()
    groups: Mapping[str, GroupStatus] = field(default_factory=dict)
    pools: Mapping[str, PoolStatus] = field(default_factory=dict)


def status(site: Site) -> Status:
    """Take the whole picture, once."""
    boxes = site.boxes_by_agent()
    groups, pools = shared_queues.groups(site, boxes), shared_queues.pools(site, boxes)
    details = _details(site, boxes, groups, pools)
    daemon = details["daemon"]
    return Status(
        daemon=DaemonStatus(
            daemon["running"], daemon["pid"], daemon["session_id"], daemon.get("watch"), _dict(daemon, "config")
        ),
        agents={name: _agent(name, said) for name, said in details["agents"].items()},
        totals=details["totals"],
        faults=tuple(details["faults"]),
        escalations=tuple(details.get("escalations", ())),
        strays=tuple(_list(details.get("strays"))),
        held=tuple(_list(details.get("held"))),
        deadlines=tuple(_list(details.get("deadlines"))),
        details=details,
        waits=tuple(_list(details.get("waits"))),
        groups=groups,
        pools=pools,
    )


def _agent(name: str, said: Mapping[str, Any]) -> AgentStatus:
    return AgentStatus(
        name=name,
        endpoint=str(said.get("endpoint", DEFAULT)),
        state=str(said.get("state", "unknown")),
        queued=_number(said.get("queued")),
        in_flight=_number(said.get("in_flight")),
        reason=str(said["reason"]) if said.get("reason") else None,
        details=said,
        retrying=_number(said.get("retrying")),
        unread=_number(said.get("unread")),
    )


def _details(
    site: Site,
    boxes: Mapping[str, list[str]],
    groups: Mapping[str, GroupStatus],
    pools: Mapping[str, PoolStatus],
) -> dict[str, Any]:
    """Put together the page of a running daemon, the directories, and what was saved."""
    from ackd.client.reloading import has_drifted
    from ackd.storage import root_lock

    pid = root_lock.holder(site.run)
    page = _newest_page(site, pid) if pid is not None else {}
    daemon = page.pop("daemon", {})
    has_page = bool(page)
    agents = {name: _agent_on_disk(site, name, boxes.get(identity(name), [])) for name in site.known_agents()}
    if not has_page:
        _add_pauses(site, agents)
        page["totals"] = _add_in_hand(site, agents, boxes)
    spellings = {identity(one): one for one in reversed(agents)}
    shared = {identity(name) for name in (*site.groups, *site.pools)}
    for name, said in page.pop("agents", {}).items():
        if identity(name) in shared:
            continue  # to the daemon they are like agents
        spelling = spellings.get(identity(name), name)
        counts = {key: agents[spelling][key] for key in _COUNTS} if spelling in agents else {}
        agents[spelling] = {**said, **counts}
    named = {"session_id": daemon.get("session_id"), "pid": daemon.get("pid") or pid or None}
    totals = {
        "completed": 0,
        **({} if has_page else _saved(site)),
        **page.pop("totals", {}),
        **_totals_on_disk(site, agents),
    }
    totals["queued"] += sum(one.queued for one in groups.values()) + sum(one.queued for one in pools.values())
    if groups:
        page["groups"] = {name: one.as_data() for name, one in groups.items()}
    if pools:
        said_of = _dict(page, "pools")
        page["pools"] = {name: {**_dict(said_of, name), **one.as_data()} for name, one in pools.items()}
    if (mark := restored(site, agents)) is not None:
        page["restored"] = mark
    if found := strays(site):
        page["strays"] = found
    if not has_page and (held := loops.held_messages(site)):
        page["held"] = [one._asdict() for one in held]
    faults = [*_list(page.pop("faults", [])), *_faults_of_disk(site)]
    named_daemon = {**daemon, "running": pid is not None, **named}
    if has_drifted(site):
        named_daemon["config"] = {**_dict(daemon, "config"), "differs": True}
    return {"daemon": named_daemon, "faults": faults, "agents": agents, "totals": totals, **page}


def agent_states(site: Site) -> dict[str, tuple[object, object]]:
    """Return how agents stand, with the reason, by their identities: as the page of a running daemon says, else who is
    paused. Quick, and never fails: who waits for mail asks."""
    from ackd.storage import root_lock

    pid = root_lock.holder(site.run)
    agents: dict[str, Any] = {}
    try:
        if pid is not None:
            agents = _page(site, pid).get("agents", {})
        else:
            agents = {name: {} for name in site.known_agents()}
            _add_pauses(site, agents)
    except OSError:
        pass
    return {identity(name): (said.get("state"), said.get("reason")) for name, said in agents.items()}


def running_daemon(site: Site) -> dict[str, Any]:
    """Return what a running daemon's page says of itself; nothing without a daemon, or without a page of it."""
    from ackd.storage import root_lock

    pid = root_lock.holder(site.run)
    said = _page(site, pid).get("daemon", {}) if pid is not None else {}
    return said if isinstance(said, dict) else {}


def _list(said: object) -> list[dict[str, Any]]:
    return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []


def _dict(said: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = said.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# --- the page of a running daemon -------------------------------------------------------------------------------------
def _newest_page(site: Site, pid: int) -> dict[str, Any]:
    """Read a page that knows as much as the session log does now. A daemon that cannot write one (a full disk) or does
    not run (SIGSTOP) is not waited for longer than one page takes."""
    from ackd.storage.session_log.files import age_order

    page, deadline = _page(site, pid), time.monotonic() + _PAGE_TIMEOUT_S
    file, known = _log_position(page)
    if not file:
        return page
    reached = _end_of_session(site, file)
    while file and (age_order(file), known) < reached and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        page = _page(site, pid)
        file, known = _log_position(page)
    return page


def _end_of_session(site: Site, file: str) -> tuple[tuple[str, int], int]:
    """Return how far the session has come to whose log this file belongs: the file in which it goes on, in order of
    age, and that one's size."""
    from ackd.storage.session_log.files import age_order, session_files

    second = age_order(file)[0]
    *_, newest = [file, *(path.name for path in session_files(site.logs) if age_order(path.name)[0] == second)]
    return age_order(newest), _size_bytes(site.logs / newest)


def _log_position(page: dict[str, Any]) -> tuple[str, int]:
    """Return the log's file name, and how far the log reached when the page was written."""
    match page:
        case {"daemon": {"log": {"file": str(file), "bytes": int(known)}}} if "/" not in file:
            return file, known
        case _:
            return "", 0


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def _page(site: Site, pid: int) -> dict[str, Any]:
    """Read the page; empty if it is not there yet, is another daemon's, or is not of the right shape."""
    import json

    try:
        with open(site.run / STATUS_NAME, "rb") as file:  # noqa: PTH123
            page = json.loads(file.read(_MAX_STATUS_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    shapes = {"daemon": dict, "agents": dict, "totals": dict, "escalations": list}
    if not isinstance(page, dict) or not all(isinstance(page.get(key, of()), of) for key, of in shapes.items()):
        return {}
    if pid and page.get("daemon", {}).get("pid") not in (pid, None):
        return {}
    page["agents"] = {name: said for name, said in page.get("agents", {}).items() if isinstance(said, dict)}
    return page


# --- agents and totals on disk ----------------------------------------------------------------------------------------
def _agent_on_disk(site: Site, name: str, boxes: list[str]) -> dict[str, Any]:
    queues = [f"{site.queue}/{box}" for box in boxes]
    counts = {"queued": sum(map(_mail, queues)), "in_flight": sum(_mail(f"{queue}/processed") for queue in queues)}
    return {"endpoint": endpoint_of(site, name), "state": "unknown", **counts}


def _add_in_hand(site: Site, agents: dict[str, dict[str, Any]], boxes: Mapping[str, list[str]]) -> dict[str, int]:
    """Tell apart what is in flight, as a daemon's page does: what is unread, and what waits for another try. Returns
    the sums."""
    from ackd.client import mail

    sums = mail.InHand(0, 0)
    for name, said in agents.items():
        if said["in_flight"]:
            found = mail.in_hand(site, name, boxes.get(identity(name), []))
            said.update(found._asdict())
            sums = mail.InHand(sums.unread + found.unread, sums.retrying + found.retrying)
    return sums._asdict()


def endpoint_of(site: Site, name: str) -> str:
    """Return the agent's endpoint kind by the config, given the spelling that counts."""
    inside = name in ALWAYS and name != USER
    return str(site.agents.get(name, {}).get("endpoint", INSIDE if inside else DEFAULT))


def _add_pauses(site: Site, agents: dict[str, dict[str, Any]]) -> None:
    """Mark paused agents: a pause outlives the daemon that was told of it. If the pauses cannot be read, or the root
    was just restored from a backup, everybody counts as paused."""
    from ackd.storage.backup import restored as marks
    from ackd.storage.paused import RESTORED, BadPauses, Pause, Pauses

    pauses = Pauses(site.state)
    unreadable = ""
    try:
        pauses.load()
        if marks.pending(site.state) is not None:
            for name in (name for name in agents if name not in ALWAYS):
                pauses.assume(name, Pause("", RESTORED))
    except (OSError, BadPauses) as error:
        unreadable = str(error)
    for name, said in agents.items():
        if unreadable and name not in ALWAYS:
            said |= {"state": "paused", "reason": unreadable}
        elif name in pauses:
            said |= {"state": "paused", "reason": pauses.reason(name)}


def restored(site: Site, agents: Iterable[str]) -> dict[str, Any] | None:
    """Say what the root was restored from, as long as agents of it are paused for that."""
    from ackd.storage.backup import restored as marks
    from ackd.storage.paused import RESTORED, BadPauses, Pauses

    try:
        mark, pauses = marks.load(site.state), Pauses(site.state)
        if mark is None:
            return None
        pauses.load()
    except (OSError, BadPauses):
        return None
    paused = [name for name, one in pauses.all().items() if one.by == RESTORED]
    if not mark.done:
        paused = [name for name in agents if name not in ALWAYS]
    said = {"root": mark.root, "taken_at": mark.taken_at, "at": mark.at, "paused": sorted(paused)}
    return said if paused or not mark.done else None


def _totals_on_disk(site: Site, agents: dict[str, dict[str, Any]]) -> dict[str, int]:
    sums = {key: sum(_number(agent.get(key)) for agent in agents.values()) for key in _COUNTS}
    dead, corrupt = dead_letters.dead_files(site), dead_letters.quarantined_files(site)
    return {**sums, "dead": len(dead), "corrupt": len(corrupt)}


def _saved(site: Site) -> dict[str, int]:
    """Return the totals of all sessions, as the last daemon saved them or its log tells. A root that never had a daemon
    of ours (an IGNITE workspace) has at most its archive."""
    from ackd.client import log_history
    from ackd.client.saved_totals import saved_totals

    totals = saved_totals(site.state, log_history.search(site))
    return totals if totals is not None else {"completed": _archived(site)}


def _archived(site: Site) -> int:
    return sum(_count(box) for day in _subdirectories(site.archive) for box in _subdirectories(day))


def _mail(directory: str) -> int:
    """Count messages by their names. A file with another name is never delivered, so it does not wait."""
    try:
        with os.scandir(directory) as entries:
            return sum(is_message_file(entry.name) for entry in entries)
    except FileNotFoundError:
        return 0


def _count(directory: Path) -> int:
    try:
        with os.scandir(directory) as entries:
            return sum(not entry.name.startswith(".") and entry.name != "processed" for entry in entries)
    except FileNotFoundError:
        return 0


def _subdirectories(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []


# --- strays and faults ------------------------------------------------------------------------------------------------
def strays(site: Site) -> list[dict[str, Any]]:
    """List files in the queues that are never read, each with what to do about it."""
    from ackd.storage import message_lookup

    try:
        found = list(message_lookup.strays(site.root, time.time()))
    except OSError:
        return []  # directories that cannot be listed are reported elsewhere
    old = [one for one in found if one.age_s > STRAY_AFTER_S]
    return [{"file": str(one.path), "agent": one.box, "reason": STRAY_WORDS, "mend": STRAY_CURE} for one in old]


def _faults_of_disk(site: Site) -> list[dict[str, Any]]:
    """List what keeps everybody from writing, the daemon included."""
    places = (site.root, *(site.queue / box for box in site.boxes()))
    found = {words: path for path in reversed(places) if (words := _no_room(path)) is not None}
    return [{"error": words, "what": str(path)} for words, path in found.items()]


def _no_room(path: Path) -> str | None:
    """Say in the kernel's words why nothing at all can be written there; None if something can."""
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    if room.f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    if room.f_bavail == 0 and room.f_blocks:
        return os.strerror(errno.ENOSPC)
    return f"{os.strerror(errno.ENOSPC)}: no inodes" if room.f_files and room.f_favail == 0 else None
