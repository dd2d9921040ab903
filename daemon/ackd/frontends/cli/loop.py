"""`ackd loop`: messages that are held because agents answer each other for ever, and letting one go.

Owns that only what is held can be let go. The word travels as a receipt: the daemon acts on it, or the next one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ackd.core.words import ReceiptKind
from ackd.frontends.cli.errors import NO, Failure, accepted, creating
from ackd.frontends.cli.options import Commands, site_options
from ackd.frontends.cli.output import print_json, say

if TYPE_CHECKING:
    from ackd.site import Site


@click.group(cls=Commands)
def loop() -> None:
    """Messages that stay in the queue because each answers the one before, round after round without an end.

    10 times loop_limit rounds within an hour hold the newest of them. Other mail of its agent goes on.
    """


@loop.command("list")
@site_options
def list_(site: Site, as_json: bool) -> None:
    """What is held, for whom, and why."""
    from ackd.frontends.cli.status import held_messages

    held = held_messages(site)
    if as_json:
        print_json(held)
    elif not held:
        click.echo("nothing is held")
    for one in () if as_json else held:
        say(f"{one['message_id']} for {one['agent']}: {one['reason']}")


@loop.command("release")
@click.argument("message_ids", nargs=-1, required=True, metavar="ID...")
@site_options
def release(site: Site, as_json: bool, message_ids: tuple[str, ...]) -> None:
    """Let held messages go to their agents. An ID is whole, or a unique beginning."""
    from ackd.adapters import maildrop, root_lock
    from ackd.core import message_ids as ids
    from ackd.core.errors import UnknownMessage
    from ackd.frontends.cli.status import held_messages

    held = {str(one["message_id"]): str(one["agent"]) for one in held_messages(site)}
    meant: dict[str, str] = {}
    for wanted in message_ids:
        try:
            chosen = ids.choose(wanted.removeprefix("<").removesuffix(">"), held)
        except UnknownMessage:
            raise Failure(NO, f"{wanted} is not held: `ackd loop list` shows what is") from None
        meant[chosen] = held[chosen]
    with creating(site.receipts):
        receipts = maildrop.drop_receipts(site.receipts, ReceiptKind.RELEASE, meant, fsync=site.fsync)
    with accepted(f"release: {len(receipts)} written"):
        if as_json:
            print_json(
                [{"message_id": one, "agent": meant[one], "receipt": str(path)} for one, path in receipts.items()]
            )
            return
        waits = "" if root_lock.holder(site.run) is not None else " (waits: no daemon is running)"
        for one in receipts:
            say(f"release: asked for {one}, for {meant[one]}{waits}")
