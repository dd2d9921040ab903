"""`ackd inbox`: list an agent's mail. "No mail" is exit 0, mail that cannot be read is exit 66."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.errors import WrongUsage
from ackd.cli.output import echo, print_json
from ackd.client import Client
from ackd.core.names import identity
from ackd.formats import utc_times

if TYPE_CHECKING:
    from ackd.client.mail import MailEntry
    from ackd.config.site import Site

_STYLES: Final = {
    "critical": "bold red",
    "high": "yellow",
    "low": "dim",
    "unreadable": "red",
    "stray": "red",
    "dead": "red",
}


@command
@argument("name", nargs="?", metavar="[AGENT]")
@argument("--agent", metavar="NAME", help="The same as AGENT (default: ACKD_AGENT, or this pane's agent).")
@argument("--all", dest="everything", action="store_true", help="List completed and dead messages too.")
@for_team
def inbox(site: Site, as_json: bool, name: str | None, agent: str | None, everything: bool) -> None:
    """List an agent's mail: what waits, and what it was told of and has not completed."""
    if name and agent and identity(name) != identity(agent):
        raise WrongUsage("AGENT and --agent are one thing: name one agent")
    found = Client.at(site).inbox(name or agent, everything=everything)
    if as_json:
        print_json({"agent": found.agent, "messages": list(map(_as_data, found.messages))})
    elif not found.messages:
        echo(f"no mail for {found.agent}")
    else:
        from ackd.cli.table import age, print_table

        now = time.time()
        rows = [
            [
                (one.message_id or one.file.rpartition("/")[2]).partition("@")[0],
                age(now - one.arrived_at),
                *(cell or "-" for cell in (one.sender, one.type, one.priority, _state(one), one.subject)),
            ]
            for one in found.messages
        ]
        heads = ["ID", "AGE", "FROM", "TYPE", "PRIORITY", "STATE", "SUBJECT"]
        if any(one.deadline or one.expires for one in found.messages):
            heads.insert(-1, "DUE")
            for row, one in zip(rows, found.messages, strict=True):
                row.insert(-1, _due(one, now))
        print_table(heads, rows, _STYLES)


def _state(one: MailEntry) -> str:
    return "unread" if one.unread else one.state


def _due(one: MailEntry, now: float) -> str:
    """The time until its deadline, or until it expires."""
    from ackd.cli.table import age
    from ackd.formats import utc_times

    at = utc_times.read(one.deadline or one.expires)
    if at is None:
        return "-"
    words = f"in {age(at - now)}" if at > now else f"{age(now - at)} ago"
    return words if one.deadline else f"expires {words}"


def _as_data(one: MailEntry) -> dict[str, Any]:
    said = {("from" if key == "sender" else key): value for key, value in one._asdict().items()}
    return {**said, "arrived_at": utc_times.write(one.arrived_at)}
