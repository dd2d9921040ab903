"""`ackd status`: the daemon, the agents and their mail.

Owns the picture: states and reasons are what the daemon says in run/status.json while it runs; with no daemon an
agent's state is "unknown", unless a person paused it. The page is half a second behind at most, and waited for where
the log says more than it knows: who was answered ("completed", "paused") finds it so. What waits, is in flight, dead or
corrupt is counted in the directories, which are the state. A status file left behind by a daemon that died is not
believed. On a full or read-only disk no status can be written at all, so faults of the disk are looked for here, too.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.message import USER, identity
from ackd.core.message_files import STRAY_AFTER_S, STRAY_CURE, STRAY_WORDS, is_message_file
from ackd.frontends.cli import graveyard
from ackd.frontends.cli.options import site_options
from ackd.frontends.cli.output import print_json
from ackd.site import ALWAYS

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.site import Site

STATUS_NAME: Final = "status.json"
_MAX_STATUS_BYTES: Final = 4 * 1024 * 1024
_COUNTS: Final = ("queued", "in_flight")
#: How long a page is waited for. One takes half a second, and more on a machine that is busy.
_PATIENCE_S: Final = 2.0
_POLL_S: Final = 0.02
_TOTALS: Final = ("queued", "in_flight", "completed", "dead", "corrupt")


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@site_options
def status(site: Site, as_json: bool, watch: bool) -> None:
    """Show the daemon, the agents and their mail."""
    if not watch:
        _show(site, as_json=as_json)
        return
    try:
        while True:
            if not as_json:
                click.clear()
            _show(site, as_json=as_json)
            time.sleep(1)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


def _show(site: Site, *, as_json: bool) -> None:
    picture = take(site)
    if as_json:
        print_json(picture)
    else:
        _print(site, picture)


def take(site: Site) -> dict[str, Any]:
    """The whole picture: ``daemon``, ``agents``, ``totals``, and whatever else the daemon tells."""
    from ackd.adapters import root_lock

    pid = root_lock.holder(site.run)
    told = _told_by_daemon(site, pid) if pid is not None else {}
    daemon = told.pop("daemon", {})
    untold = not told
    agents = {name: _agent_on_disk(site, name) for name in site.known_agents()}
    if not told:
        _add_pauses(site, agents)
    for name, words in told.pop("agents", {}).items():
        spelling = next((one for one in agents if identity(one) == identity(name)), name)
        counts = {key: agents[spelling][key] for key in _COUNTS} if spelling in agents else {}
        agents[spelling] = {**words, **counts}
    named = {"session_id": daemon.get("session_id"), "pid": daemon.get("pid") or pid or None}
    totals = {
        "completed": 0,
        **({} if told else _remembered(site)),
        **told.pop("totals", {}),
        **_totals_on_disk(site, agents),
    }
    if lying := strays(site):
        told["strays"] = lying
    if untold and (held := held_messages(site)):
        told["held"] = held
    faults = [*_list(told.pop("faults", [])), *_faults_of_disk(site)]
    named_daemon = {**daemon, "running": pid is not None, **named}
    return {"daemon": named_daemon, "faults": faults, "agents": agents, "totals": totals, **told}


def held_messages(site: Site) -> list[dict[str, Any]]:
    """What stays queued until a person lets it go, as the daemon wrote it down. What cannot be read says nothing."""
    import json

    try:
        said = json.loads((site.state / "held.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    found = _list(said.get("held")) if isinstance(said, dict) else []
    return [
        {"message_id": one.get("message_id"), "agent": one.get("agent"), "reason": _circle_words(one)} for one in found
    ]


def _circle_words(held: dict[str, Any]) -> str:
    members = [str(name) for name in held.get("members") or ()]
    return f"{' and '.join(members)} answered each other for {held.get('rounds')} rounds within an hour"


def _list(said: object) -> list[dict[str, Any]]:
    return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []


def _faults_of_disk(site: Site) -> list[dict[str, Any]]:
    """What keeps everybody from writing, the daemon included."""
    from ackd.frontends.cli.surroundings import no_room

    places = (site.root, *(site.queue / box for box in site.boxes()))
    found = {words: path for path in reversed(places) if (words := no_room(path)) is not None}
    return [{"error": words, "what": str(path)} for words, path in found.items()]


def _told_by_daemon(site: Site, pid: int) -> dict[str, Any]:
    """What run/status.json says, and not less than the session log says now. A daemon that cannot write one (a full
    disk) or does not run (SIGSTOP) is not waited for longer than for one page."""
    told, deadline = _page(site, pid), time.monotonic() + _PATIENCE_S
    file, known = _told_log(told)
    reached = _size_bytes(site.logs / file) if file else 0
    while file and known < reached and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        told = _page(site, pid)
        now, known = _told_log(told)
        if now != file:
            break  # another log: written since we looked
    return told


def _told_log(told: dict[str, Any]) -> tuple[str, int]:
    """The log's file, and how far it reached when the page was written."""
    match told:
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
    """Nothing, if it is not there yet, is another daemon's or not what it should be."""
    import json

    try:
        with open(site.run / STATUS_NAME, "rb") as file:  # noqa: PTH123
            told = json.loads(file.read(_MAX_STATUS_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    shapes = {"daemon": dict, "agents": dict, "totals": dict, "escalations": list}
    if not isinstance(told, dict) or not all(isinstance(told.get(key, of()), of) for key, of in shapes.items()):
        return {}
    if pid and told.get("daemon", {}).get("pid") not in (pid, None):
        return {}
    told["agents"] = {name: words for name, words in told.get("agents", {}).items() if isinstance(words, dict)}
    return told


def _agent_on_disk(site: Site, name: str) -> dict[str, Any]:
    boxes = site.box_dirs(name)
    counts = {"queued": sum(map(_mail, boxes)), "in_flight": sum(_mail(box / "processed") for box in boxes)}
    return {"endpoint": endpoint_of(site, name), "state": "unknown", **counts}


def endpoint_of(site: Site, name: str) -> str:
    """By the config, under the spelling that counts."""
    inside = name in ALWAYS and name != USER
    return str(site.agents.get(name, {}).get("endpoint", "handler" if inside else "inbox"))


def _add_pauses(site: Site, agents: dict[str, dict[str, Any]]) -> None:
    """A person's word outlives the daemon that heard it. If it cannot be read, everybody is paused."""
    from ackd.runtime.pauses import BadPauses, Pauses

    pauses = Pauses(site.state)
    reason = "by hand"
    try:
        pauses.load()
    except (OSError, BadPauses) as error:
        reason = str(error)
    for name, said in agents.items():
        if name in pauses or (reason != "by hand" and name not in ALWAYS):
            said |= {"state": "paused", "reason": reason}


def _totals_on_disk(site: Site, agents: dict[str, dict[str, Any]]) -> dict[str, int]:
    sums = {key: sum(_number(agent.get(key)) for agent in agents.values()) for key in _COUNTS}
    return {**sums, "dead": len(graveyard.dead_files(site)), "corrupt": len(graveyard.quarantined_files(site))}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _remembered(site: Site) -> dict[str, int]:
    """The ends of all sessions, as the last daemon saved them or its log tells. A root that never had a daemon of ours
    (an IGNITE workspace) has its archive at most."""
    from ackd.frontends.saved_totals import saved_totals

    totals = saved_totals(site.state, site.logs)
    return totals if totals is not None else {"completed": _archived(site)}


def _archived(site: Site) -> int:
    return sum(_count(box) for day in _subdirectories(site.archive) for box in _subdirectories(day))


def _mail(directory: Path) -> int:
    """Messages, by their names: what has another is never delivered, and so it does not wait."""
    try:
        with os.scandir(directory) as entries:
            return sum(is_message_file(entry.name) for entry in entries)
    except FileNotFoundError:
        return 0


def strays(site: Site) -> list[dict[str, Any]]:
    """Files in the queues that nobody will ever read, and what to do."""
    from ackd.adapters import message_lookup

    try:
        found = list(message_lookup.strays(site.root, time.time()))
    except OSError:
        return []  # what cannot be listed is said elsewhere
    old = [one for one in found if one.age_s > STRAY_AFTER_S]
    return [{"file": str(one.path), "agent": one.box, "reason": STRAY_WORDS, "mend": STRAY_CURE} for one in old]


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


# --- for people -------------------------------------------------------------------------------------------------------
def _print(site: Site, picture: dict[str, Any]) -> None:
    from ackd.frontends import facts
    from ackd.frontends.cli.agent_table import print_agents
    from ackd.frontends.cli.output import printable, say

    say(daemon_line(site, picture["daemon"]))
    for fault in picture["faults"]:
        click.echo(
            click.style(printable(f"fault: {_fault_words(fault)}"), fg="red"), color=facts.colour_wanted(sys.stdout)
        )
    click.echo()
    print_agents(picture["agents"], time.time())
    click.echo()
    totals = picture["totals"]
    say("  ".join(f"{totals.get(key, 0)} {key.replace('_', ' ')}" for key in _TOTALS))
    for stray in _list(picture.get("strays")):
        say(f"stray: {stray['file']}: {stray['reason']}. {stray['mend']}")
    for held in _list(picture.get("held")):
        say(
            f"held: {held.get('message_id')} for {held.get('agent')}, {held.get('reason')}: "
            f"`ackd loop release {str(held.get('message_id')).partition('@')[0]}` lets it go"
        )
    for escalation in picture.get("escalations", []):
        say(f"open escalation: {_escalation_words(escalation)}")
    if not any(totals.get(key) for key in _TOTALS):
        click.echo("no mail yet: `ackd send AGENT --body TEXT` writes the first")
    if totals.get("dead") or totals.get("corrupt"):
        click.echo("`ackd dead list` shows what is dead or corrupt, and why")


def daemon_line(site: Site, daemon: dict[str, Any]) -> str:
    if not daemon["running"]:
        return f"daemon: not running on {site.root} (`ackd run` starts it)"
    words = [f"running on {site.root}"]
    words += [f"pid {daemon['pid']}"] if daemon.get("pid") else []
    words += [f"session {daemon['session_id']}"] if daemon.get("session_id") else []
    words += [f"watching by {daemon['watch']}"] if daemon.get("watch") else []
    return f"daemon: {', '.join(words)}"


def _fault_words(fault: dict[str, Any]) -> str:
    words = f"{fault.get('error')} ({fault.get('what')})"
    words += f", first met{_ago(str(fault['since']))}" if "since" in fault else ""
    return words + (f", {fault['times']} times" if fault.get("times", 1) != 1 else "")


def _escalation_words(escalation: object) -> str:
    """``dead: worker, told leader 3 min ago, 2 counted: `ackd explain ID```; of what is not said, nothing is."""
    if not isinstance(escalation, dict):
        return str(escalation)
    said = {key: str(value) for key, value in escalation.items() if value is not None}
    words = f"{said.get('cause', 'escalated')}: {said.get('agent', 'nobody named')}"
    words += f", told {said['to']}{_ago(said.get('since', ''))}" if "to" in said else ""
    words += f", {said['counted']} counted" if said.get("counted", "1") != "1" else ""
    return words + (f": `ackd explain {said['escalation_id'].partition('@')[0]}`" if "escalation_id" in said else "")


def _ago(since: str) -> str:
    from ackd.frontends.cli.agent_table import ago

    words = ago(since, time.time())
    return "" if words == "-" else f" {words}"
