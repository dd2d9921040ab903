"""`ackd loop`: messages that are held because agents answer each other for ever, and letting one go.

client/loops.py does both. Exit 1 for a message that is not held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import Group, argument, for_team, shows_content
from ackd.cli.errors import accepted
from ackd.cli.output import echo, print_json, say
from ackd.client import Client

if TYPE_CHECKING:
    from ackd.config.site import Site


loop = Group(
    """List and release messages that are held because agents answer each other round after round without an end.

    After 10 times loop_limit rounds within an hour the newest message is held. Other mail of its agent goes on.
    """
)


@loop.command
@shows_content
@for_team
def list_(site: Site, as_json: bool) -> None:
    """List the held messages: for whom each is, and why it is held."""
    held = Client.at(site).held_messages()
    if as_json:
        print_json({"held": [one._asdict() for one in held]})
    elif not held:
        echo("nothing is held")
    for one in () if as_json else held:
        say(f"{one.message_id} for {one.agent}: {one.reason}")


@loop.command
@argument("message_ids", nargs="+", metavar="ID...")
@for_team
def release(site: Site, as_json: bool, message_ids: tuple[str, ...]) -> None:
    """Let held messages go to their agents. An ID is whole, or a unique beginning."""
    client = Client.at(site)
    released = client.release(*message_ids)
    with accepted(f"release: {len(released)} written"):
        if as_json:
            print_json({"released": [{**one._asdict(), "receipt": str(one.receipt)} for one in released]})
            return
        waits = "" if client.daemon_running else " (waits: no daemon is running)"
        for one in released:
            say(f"release: asked for {one.message_id}, for {one.agent}{waits}")
