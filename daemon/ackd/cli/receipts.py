"""`ackd ack`, `done`, `refuse`, `defer`, `checkpoint`: an agent's statements about its mail.

The daemon acts on a statement when it reads the receipt. Until then it waits, and that is what is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import AGENT, argument, at_least, command, for_root
from ackd.cli.errors import WrongUsage, accepted
from ackd.cli.output import print_json, read_stdin, say
from ackd.client import Client

if TYPE_CHECKING:
    from ackd.client.receipts import WrittenReceipt
    from ackd.config.site import Site

_MESSAGES: Final = argument("message_ids", nargs="+", metavar="ID...")


@command
@_MESSAGES
@AGENT
@for_root
def ack(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None) -> None:
    """Say that messages have arrived and are being worked on. An ID is whole, a unique beginning, its hash, or a
    path."""
    client = Client.at(site, agent)
    _report(client, "ack", client.ack(*message_ids), as_json=as_json)


@command
@argument("message_ids", nargs="*", metavar="ID...")
@argument("--all", dest="everything", action="store_true", help="All messages that the agent was told of.")
@AGENT
@for_root
def done(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None, everything: bool) -> None:
    """Say that messages are completed. An ID is whole, a unique beginning, its hash, or a path."""
    if everything == bool(message_ids):
        raise WrongUsage("name the messages, or say --all")
    client = Client.at(site, agent)
    written = client.done(*message_ids, everything=everything)
    if not written and not as_json:
        say("nothing is in hand: `ackd inbox` lists what waits")
    _report(client, "done", written, as_json=as_json)


@command
@_MESSAGES
@argument("--reason", required=True, metavar="TEXT", help="The reason; the sender is told it.")
@AGENT
@for_root
def refuse(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None, reason: str) -> None:
    """Give messages back for good: they become dead letters, and their senders are told."""
    client = Client.at(site, agent)
    _report(client, "refuse", client.refuse(*message_ids, reason=reason), as_json=as_json)


@command
@_MESSAGES
@argument("--reason", required=True, metavar="TEXT", help="The reason for the delay.")
@AGENT
@for_root
def defer(site: Site, as_json: bool, message_ids: tuple[str, ...], agent: str | None, reason: str) -> None:
    """Give messages back to be offered again later. Each time counts as a retry."""
    client = Client.at(site, agent)
    _report(client, "defer", client.defer(*message_ids, reason=reason), as_json=as_json)


@command
@argument("words", nargs="+", metavar="ID [TEXT]")
@argument("--step", type=at_least(0), metavar="N", help="The number of steps done so far.")
@argument("--file", metavar="FILE", help="Read the text from a file, or from stdin (-).")
@AGENT
@for_root
def checkpoint(
    site: Site, as_json: bool, words: tuple[str, ...], step: float | None, file: str | None, agent: str | None
) -> None:
    """Record where the work on a message stands, for whoever goes on with it. An ID is whole, a unique beginning, its
    hash, or a path. The last checkpoint counts."""
    message_id, *texts = words
    number = _whole_step(step)
    client = Client.at(site, agent)
    written = client.checkpoint(message_id, _checkpoint_text(texts, file), step=number)
    with accepted("checkpoint: 1 written"):
        if as_json:
            print_json(_as_data(written))
        else:
            say(f"checkpoint: receipt written for {written.message_id}{_waits(client)}")


def _report(client: Client, word: str, written: tuple[WrittenReceipt, ...], *, as_json: bool) -> None:
    count = len({one.path for one in written} - {None})
    with accepted(f"{word}: {count} written"):
        if as_json:
            print_json({"receipts": [_as_data(one) for one in written]})
            return
        waits = _waits(client)
        for one in written:
            if one.path is None:
                say(f"{one.message_id} is completed already: nothing to say")
            else:
                say(f"{word}: receipt written for {one.message_id}{waits}")


def _waits(client: Client) -> str:
    return "" if client.daemon_running else " (waits: no daemon is running)"


def _as_data(written: WrittenReceipt) -> dict[str, str | None]:
    return {"message_id": written.message_id, "agent": written.agent, "receipt": written.path}


def _whole_step(step: float | None) -> int | None:
    from ackd.core.receipt_form import MAX_STEP

    if step is None:
        return None
    if not (0 <= step <= MAX_STEP and step == int(step)):
        raise WrongUsage(f"--step is a whole number of 0 to {MAX_STEP}")
    return int(step)


def _checkpoint_text(texts: list[str], file: str | None) -> str | bytes:
    """The text, from the argument, a file or stdin, with one byte more than is allowed if there is more."""
    from ackd.core.receipt_form import MAX_CHECKPOINT_BYTES

    if len(texts) > 1:
        raise WrongUsage("TEXT is one argument: put it in quotes")
    if texts and texts != ["-"] and file is None:
        return texts[0]
    if texts and file is not None:
        raise WrongUsage("give TEXT or --file, not both")
    if not texts and file is None:
        raise WrongUsage("where does the work stand? Give TEXT, or --file FILE (- reads stdin)")
    if file in (None, "-"):
        return read_stdin(MAX_CHECKPOINT_BYTES + 1)
    with open(str(file), "rb") as source:  # noqa: PTH123 - pathlib is not needed for more
        return source.read(MAX_CHECKPOINT_BYTES + 1)
