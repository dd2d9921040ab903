"""`ackd status`: print the daemon, the agents and their mail. client/status.py takes the picture."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.errors import Ended
from ackd.cli.output import clear_screen, echo, print_json
from ackd.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.client.status import DaemonStatus, Status
    from ackd.config.site import Site

_TOTALS: Final = ("queued", "in_flight", "completed", "dead", "corrupt")


@command
@argument("--watch", action="store_true", help="Repeat every second, until Ctrl-C.")
@for_team
def status(site: Site, as_json: bool, watch: bool) -> None:
    """Show the daemon, the agents and their mail."""
    if not watch:
        _show(site, as_json=as_json)
        return
    try:
        while True:
            if not as_json:
                clear_screen()
            _show(site, as_json=as_json)
            time.sleep(1)
    except KeyboardInterrupt:
        raise Ended(0) from None


def _show(site: Site, *, as_json: bool) -> None:
    found = Client.at(site).status()
    if as_json:
        print_json(found.details)
    else:
        _print(site, found)


def _print(site: Site, found: Status) -> None:
    from ackd import facts
    from ackd.cli.agent_table import print_agents
    from ackd.cli.output import printable, say, styled

    say(daemon_line(site, found.daemon))
    for fault in found.faults:
        echo(styled(printable(f"fault: {_fault_words(fault)}"), "red"), colour=facts.colour_wanted(sys.stdout))
    echo("")
    print_agents({name: agent.details for name, agent in found.agents.items()}, time.time())
    echo("")
    totals = found.totals
    say("  ".join(f"{totals.get(key, 0)} {key.replace('_', ' ')}" for key in _TOTALS))
    for stray in found.strays:
        say(f"stray: {stray['file']}: {stray['reason']}. {stray['mend']}")
    for held in found.held:
        say(
            f"held: {held.get('message_id')} for {held.get('agent')}, {held.get('reason')}: "
            f"`ackd loop release {str(held.get('message_id')).partition('@')[0]}` lets it go"
        )
    for escalation in found.escalations:
        say(f"open escalation: {_escalation_words(escalation)}")
    if not any(totals.get(key) for key in _TOTALS):
        echo("no mail yet: `ackd send AGENT --body TEXT` writes the first")
    if totals.get("dead") or totals.get("corrupt"):
        echo("`ackd dead list` shows what is dead or corrupt, and why")


def daemon_line(site: Site, daemon: DaemonStatus) -> str:
    if not daemon.running:
        return f"daemon: not running on {site.root} (`ackd run` starts it)"
    words = [f"running on {site.root}"]
    words += [f"pid {daemon.pid}"] if daemon.pid else []
    words += [f"session {daemon.session_id}"] if daemon.session_id else []
    words += [f"watching by {daemon.watch}"] if daemon.watch else []
    return f"daemon: {', '.join(words)}"


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
