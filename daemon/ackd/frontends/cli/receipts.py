"""`ackd ack`, `done`, `refuse`, `defer`: an agent's word about its mail, as a receipt file.

Owns that there is such a message, and that it can still be spoken of; whose word it is, ``whose`` says. The daemon acts
on the receipt when it reads it; until then it waits, and that is what is said. All ids are found before the first
receipt is written, and no receipt is to be seen before all are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.words import Folder, ReceiptKind
from ackd.frontends.cli.errors import NO, Failure, accepted, creating
from ackd.frontends.cli.output import print_json, say
from ackd.frontends.cli.shape import AGENT, Command, Operand, Option
from ackd.frontends.cli.whose import check_reader, holder

if TYPE_CHECKING:
    from ackd.adapters.message_lookup import Found
    from ackd.site import Site

#: A dead letter can still be answered for: a late completion completes it.
_LATE: Final = frozenset({ReceiptKind.ACK, ReceiptKind.DONE})


def _command(kind: ReceiptKind, words: str, why: str | None = None) -> Command:
    """A command that drops receipts of one kind; ``why``: what the reason, which it then needs, is for."""

    def run(
        site: Site, message_ids: tuple[str, ...], agent: str | None, as_json: bool, reason: str | None = None
    ) -> None:
        _drop(site, kind, message_ids, agent, reason, as_json=as_json)

    reason = () if why is None else (Option("--reason", "reason", required=True, metavar="TEXT", help=why),)
    return Command(
        kind.value, words, Operand("message_ids", "ID...", several=True), (*reason, AGENT), run, root_only=True
    )


ACK: Final = _command(
    ReceiptKind.ACK,
    "Say that messages have arrived and are being worked on. An ID is whole, a unique beginning, its hash, or a path.",
)
DONE: Final = _command(
    ReceiptKind.DONE, "Say that messages are dealt with. An ID is whole, a unique beginning, its hash, or a path."
)
REFUSE: Final = _command(
    ReceiptKind.REFUSE,
    "Give messages back for good: they become dead letters, and their senders are told.",
    "Why; it goes to the sender.",
)
DEFER: Final = _command(
    ReceiptKind.DEFER, "Give messages back to be offered again later. Each time counts as a retry.", "Why not now."
)


def _drop(
    site: Site, kind: ReceiptKind, message_ids: tuple[str, ...], agent: str | None, reason: str | None, *, as_json: bool
) -> None:
    from ackd.adapters import maildrop, root_lock

    found = [holder(site, wanted, agent) for wanted in message_ids]
    pending = {one.message_id: name for name, one in found if _is_open(site, kind, one)}
    check_reader(site)
    with creating(site.receipts):
        receipts = maildrop.drop_receipts(site.receipts, kind, pending, reason, fsync=site.fsync)
    results = [
        {
            "message_id": one.message_id,
            "agent": name,
            "receipt": str(receipts[one.message_id]) if one.message_id in receipts else None,
        }
        for name, one in found
    ]
    with accepted(f"{kind.value}: {len(receipts)} written"):
        if as_json:
            print_json(results)
            return
        waits = "" if root_lock.holder(site.run) is not None else " (waits: no daemon is running)"
        for _, one in found:
            if one.message_id in pending:
                say(f"{kind.value}: receipt written for {one.message_id}{waits}")
            else:
                say(f"{one.message_id} is completed already: nothing to say")


def _is_open(site: Site, kind: ReceiptKind, one: Found) -> bool:
    match one.folder:
        case Folder.ARCHIVE if kind is ReceiptKind.DONE and _is_open_escalation(site, one.message_id):
            return True
        case Folder.ARCHIVE:
            if kind in _LATE:
                return False
            raise Failure(NO, f"{one.message_id} is completed already: it cannot be given back")
        case Folder.DEAD if kind not in _LATE:
            raise Failure(NO, f"{one.message_id} is dead already: `ackd dead` shows it")
        case _:
            return True


def _is_open_escalation(site: Site, message_id: str) -> bool:
    """Its mail was seen, and completed by that; the escalation waits for this word."""
    try:
        return message_id.encode() in (site.state / "escalations.json").read_bytes()
    except OSError:
        return False
