"""`ackd ack`, `done`, `refuse`, `defer`: an agent's word about its mail, as a receipt file.

Owns whose word it is (``--agent``, else ACKD_AGENT, else nobody's: usage error) and that there is such a message. The
daemon acts on the receipt when it reads it; until then it waits, and that is what is said. All ids are found before the
first receipt is written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.words import Folder, ReceiptKind
from ackd.frontends.cli.errors import NO, Failure, accepted, creating
from ackd.frontends.cli.options import print_json, site_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.message_lookup import Found
    from ackd.site import Site

#: A dead letter can still be answered for: a late completion completes it.
_LATE: Final = frozenset({ReceiptKind.ACK, ReceiptKind.DONE})


def agent_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--agent", metavar="NAME", help="Whose mail it is (default: ACKD_AGENT).")(command)


def acting_agent(site: Site, given: str | None) -> str:
    name = given or os.environ.get("ACKD_AGENT")
    if not name:
        raise click.UsageError("whose mail? Say --agent NAME, or set ACKD_AGENT")
    return site.resolve_agent(name)


_ids = click.argument("message_ids", nargs=-1, required=True, metavar="ID...")


@click.command()
@_ids
@agent_option
@site_options
def ack(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None) -> None:
    """Say that messages have arrived and are being worked on. An ID is whole, a unique beginning, or a path."""
    _drop(site, ReceiptKind.ACK, message_ids, agent, None, as_json=as_json)


@click.command()
@_ids
@agent_option
@site_options
def done(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None) -> None:
    """Say that messages are dealt with. An ID is whole, a unique beginning, or a path."""
    _drop(site, ReceiptKind.DONE, message_ids, agent, None, as_json=as_json)


@click.command()
@_ids
@click.option("--reason", required=True, metavar="TEXT", help="Why; it goes to the sender.")
@agent_option
@site_options
def refuse(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None, reason: str) -> None:
    """Give messages back for good: they become dead letters, and their senders are told."""
    _drop(site, ReceiptKind.REFUSE, message_ids, agent, reason, as_json=as_json)


@click.command()
@_ids
@click.option("--reason", required=True, metavar="TEXT", help="Why not now.")
@agent_option
@site_options
def defer(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None, reason: str) -> None:
    """Give messages back to be offered again later. Each time counts as a retry."""
    _drop(site, ReceiptKind.DEFER, message_ids, agent, reason, as_json=as_json)


def _drop(
    site: Site, kind: ReceiptKind, message_ids: tuple[str, ...], agent: str | None, reason: str | None, *, as_json: bool
) -> None:
    from ackd.adapters import maildrop, message_lookup, root_lock

    name = acting_agent(site, agent)
    found = [message_lookup.find(site.root, wanted, agent=name)[0] for wanted in message_ids]
    pending = dict.fromkeys(one.message_id for one in found if _is_open(kind, one))
    with creating(site.receipts):
        receipts = {
            one: maildrop.drop_receipt(site.receipts, kind, one, name, reason, fsync=site.fsync) for one in pending
        }
    results = [
        {
            "message_id": one.message_id,
            "agent": name,
            "receipt": str(receipts[one.message_id]) if one.message_id in receipts else None,
        }
        for one in found
    ]
    with accepted(f"{kind.value}: {len(receipts)} written"):
        if as_json:
            print_json(results)
            return
        waits = "" if root_lock.holder(site.run) is not None else " (waits: no daemon is running)"
        for one in found:
            if one.message_id in pending:
                click.echo(f"{kind.value}: receipt written for {one.message_id}{waits}")
            else:
                click.echo(f"{one.message_id} is completed already: nothing to say")


def _is_open(kind: ReceiptKind, one: Found) -> bool:
    match one.folder:
        case Folder.ARCHIVE:
            if kind in _LATE:
                return False
            raise Failure(NO, f"{one.message_id} is completed already: it cannot be given back")
        case Folder.DEAD if kind not in _LATE:
            raise Failure(NO, f"{one.message_id} is dead already: `ackd dead` shows it")
        case _:
            return True
