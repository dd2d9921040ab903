"""`ackd status`: print the daemon, the agents and their mail. client/status.py takes the picture."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.index_notice import announce_building
from ackd.cli.output import clear_screen, echo, print_json
from ackd.client import Client
from ackd.config.file_mark import DIFFERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ackd.client.shared_queues import PoolStatus
    from ackd.client.status import DaemonStatus, Status
    from ackd.config.site import Site

_TOTALS: Final = ("queued", "in_flight", "retrying", "unread", "completed", "dead", "corrupt")
#: The most agents of whom is shown for whom they wait; a bus may have hundreds of workers.
_MOST_WAITS: Final = 20


@command
@argument("--watch", action="store_true", help="Repeat every second, until Ctrl-C, which is exit 130.")
@for_team
def status(site: Site, as_json: bool, watch: bool) -> None:
    """Show the daemon, the agents and their mail."""
    announce_building()
    if not watch:
        _show(site, as_json=as_json)
        return
    while True:
        if not as_json:
            clear_screen()
        _show(site, as_json=as_json)
        time.sleep(1)


def _show(site: Site, *, as_json: bool) -> None:
    found = Client.at(site).status()
    if as_json:
        print_json(found.details)
    else:
        _print(site, found)


def _print(site: Site, found: Status) -> None:
    from ackd.cli.agent_table import print_agents
    from ackd.cli.table import say_folded as say

    say(daemon_line(site, found.daemon))
    for words in _config_words(found.daemon.config):
        say(f"config: {words}", "yellow")
    for fault in found.faults:
        say(f"fault: {_fault_words(fault)}", "red")
    echo("")
    print_agents({name: agent.details for name, agent in found.agents.items()}, time.time())
    echo("")
    for group in found.groups.values():
        waiting = f"; {group.queued} to be handed on" if group.queued else ""
        say(f"group {group.name}: {', '.join(group.members)}{waiting}")
    for pool in found.pools.values():
        say(f"pool {pool.name}: {_pool_words(pool, found)}")
    totals = found.totals
    say(_totals_words(totals), in_pairs=True)
    for wait in found.waits[:_MOST_WAITS]:
        say(f"waits: {_wait_words(wait)}")
    if len(found.waits) > _MOST_WAITS:
        say(f"waits: {len(found.waits) - _MOST_WAITS} more, which `ackd status --json` lists")
    for stray in found.strays:
        say(f"stray: {stray['file']}: {stray['reason']}. {stray['mend']}")
    for held in found.held:
        say(
            f"held: {held.get('message_id')} for {held.get('agent')}, {held.get('reason')}: "
            f"`ackd loop release {str(held.get('message_id')).partition('@')[0]}` lets it go"
        )
    for one in found.deadlines:
        say(f"{_due_words(one)}: {one.get('message_id')} for {one.get('agent')}, {one.get('state')}")
    for escalation in found.escalations:
        say(f"open escalation: {_escalation_words(escalation)}")
    if not any(totals.get(key) for key in _TOTALS):
        say("no mail yet: `ackd send AGENT --body TEXT` writes the first")
    if totals.get("dead") or totals.get("corrupt"):
        say("`ackd dead list` shows what is dead or corrupt, and why")


def _pool_words(pool: PoolStatus, found: Status) -> str:
    """Word it as ``3 wait, 2 at work: w1 available (1), w2 busy (1), w3 paused``."""
    members = [
        f"{name} {found.agents[name].state if name in found.agents else 'unknown'}"
        + (f" ({pool.at_work[name]})" if name in pool.at_work else "")
        for name in pool.members
    ]
    return f"{pool.queued} wait, {pool.in_hand} at work: {', '.join(members) or 'nobody serves it'}"


def _totals_words(totals: Mapping[str, int]) -> str:
    """The team's mail, each message once."""
    apart = totals.get("retrying", 0) + totals.get("unread", 0)
    shown = {**{key: totals.get(key, 0) for key in _TOTALS}, "in_flight": max(0, totals.get("in_flight", 0) - apart)}
    return "  ".join(
        f"{number} {key.replace('_', ' ')}"
        for key, number in shown.items()
        if key not in ("retrying", "unread") or number
    )


def _wait_words(wait: Mapping[str, Any]) -> str:
    """Word it as ``leader for worker, 3 messages, the oldest came 12 min ago``."""
    whom = f" for {wait['for']}" if wait.get("for") else ""
    since = _ago(str(wait.get("since", "")))
    oldest = f", {'which' if str(wait.get('what')).startswith('1 ') else 'the oldest'} came{since}" if since else ""
    return f"{wait.get('agent')}{whom}, {wait.get('what')}{oldest}"


def daemon_line(site: Site, daemon: DaemonStatus) -> str:
    if not daemon.running:
        return f"daemon: not running on {site.root} (`ackd run` starts it)"
    words = [f"running on {site.root}"]
    words += [f"pid {daemon.pid}"] if daemon.pid else []
    words += [f"session {daemon.session_id}"] if daemon.session_id else []
    words += [f"watching by {daemon.watch}"] if daemon.watch else []
    return f"daemon: {', '.join(words)}"


def _config_words(said: Mapping[str, Any]) -> Iterator[str]:
    """Say how the config that the daemon runs with differs from the file, and what a reload left to be done."""
    path = said.get("path", "ackd.toml")
    if said.get("differs"):
        yield f"{path} is not what the daemon runs with: {DIFFERS}"
    if isinstance(refused := said.get("refused"), dict):
        problems = "; ".join(map(str, refused.get("problems", ())))
        yield f"refused{_ago(str(refused.get('at')))} ({refused.get('by')}), and nothing has changed: {problems}"
    if not_live := said.get("not_live"):
        yield f"{', '.join(map(str, not_live))}: the new value holds once the daemon is started again"
    if waiting := said.get("waiting"):
        yield f"another endpoint, once the old one has finished what it has: {', '.join(map(str, waiting))}"
    if isinstance(removed := said.get("removed"), dict):
        for name, count in removed.items():
            yield f"{name} is no longer in the file; {count} open in its queue, as in an inbox: `ackd inbox {name}`"


def _due_words(one: Mapping[str, Any]) -> str:
    due, expires = one.get("deadline"), one.get("expires")
    return " and ".join([f"due {due}"] * bool(due) + [f"expires {expires}"] * bool(expires))


def _fault_words(fault: Mapping[str, Any]) -> str:
    words = f"{fault.get('error')} ({fault.get('what')})"
    words += f", first met{_ago(str(fault['since']))}" if "since" in fault else ""
    return words + (f", {fault['times']} times" if fault.get("times", 1) != 1 else "")


def _escalation_words(escalation: object) -> str:
    """Word it as ``dead: worker, told leader 3 min ago, 2 counted: `ackd explain ID```, without what is not known."""
    if not isinstance(escalation, dict):
        return str(escalation)
    said = {key: str(value) for key, value in escalation.items() if value is not None}
    words = f"{said.get('cause', 'escalated')}: {said.get('agent', 'nobody named')}"
    words += f", told {said['to']}{_ago(said.get('since', ''))}" if "to" in said else ""
    words += f", {said['counted']} counted" if said.get("counted", "1") != "1" else ""
    return words + (f": `ackd explain {said['escalation_id'].partition('@')[0]}`" if "escalation_id" in said else "")


def _ago(since: str) -> str:
    from ackd.cli.agent_table import ago

    words = ago(since, time.time())
    return "" if words == "-" else f" {words}"
