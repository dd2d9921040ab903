"""`ackd cancel`: have messages worked on no more. Only their sender and user may; anybody else is refused, exit 1.

The daemon acts on the request when it reads it. Until then it waits, and that is what is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.errors import accepted
from ackd.cli.output import print_json, say
from ackd.client import Client

if TYPE_CHECKING:
    from ackd.client.cancelling import CancelRequest
    from ackd.config.site import Site


@command
@argument("message_ids", nargs="+", metavar="ID...")
@argument(
    "--tree",
    action="store_true",
    help="Also cancel the open parts that came of it, down to the last, and what answers it.",
)
@argument("--reason", metavar="TEXT", help="The reason; whoever is told of it is told that, too.")
@argument(
    "--agent", metavar="NAME", complete="agents",
    help="The agent that cancels (default: ACKD_AGENT, this pane's agent, or user).",
)  # fmt: skip
@for_team
def cancel(
    site: Site, as_json: bool, message_ids: tuple[str, ...], tree: bool, reason: str | None, agent: str | None
) -> None:
    """Cancel messages that you have sent: one that waits is withdrawn; an agent that has one in hand is told to stop.
    An ID is whole, a unique beginning, its hash, or a path.

    --tree takes what is there now. A part that an agent sends later, before it has let go, goes on: `ackd thread ID`
    shows it, and the same command once more cancels it. Reports, notices and escalations stay.
    """
    client = Client.at(site)
    done = client.cancel(*message_ids, tree=tree, reason=reason, agent=agent)
    count = sum(one.path is not None for one in done)
    with accepted(f"cancel: {count} written"):
        if as_json:
            print_json({"requests": [one._asdict() for one in done], "daemon_running": client.daemon_running})
            return
        waits = "" if client.daemon_running else " (waits: no daemon is running)"
        for one in done:
            say(_words(one, waits))


def _words(one: CancelRequest, waits: str) -> str:
    if one.path is None:
        return f"{one.message_id} for {one.agent} is {one.state} already: nothing to cancel"
    return f"cancel: asked for {one.message_id} for {one.agent}{waits}"
