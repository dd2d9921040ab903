"""Messages that are held because agents answer each other without end: list them, and release them.

Only a held message can be released. The release travels as a receipt: a running daemon acts on it, or the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ackd.client.errors import NotHeld
from ackd.client.writing import creating
from ackd.core import message_ids
from ackd.core.errors import UnknownMessage
from ackd.core.words import ReceiptKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.config.site import Site


class HeldMessage(NamedTuple):
    """A message that stays queued until a person releases it. The values are as the daemon saved them."""

    message_id: Any
    agent: Any
    reason: str


class ReleasedMessage(NamedTuple):
    """A release that was asked for, and the receipt that asks."""

    message_id: str
    agent: str
    receipt: Path


def held_messages(site: Site) -> list[HeldMessage]:
    """List what is held, as the daemon saved it in state/held.json. A file that cannot be read names nothing."""
    from ackd.storage.json_state import load_or_empty

    found = load_or_empty(site.state / "held.json").get("held")
    entries = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [HeldMessage(one.get("message_id"), one.get("agent"), _reason(one)) for one in entries]


def _reason(held: dict[str, Any]) -> str:
    from ackd.core.loops import words_of_chain

    members = held.get("members")
    return words_of_chain(tuple(map(str, members)) if isinstance(members, list) else (), held.get("rounds"))


def release(site: Site, wanted: Iterable[str]) -> list[ReleasedMessage]:
    """Ask that held messages go to their agents, all or none. Each is named by its id or a unique beginning of it.

    Fails with ``NotHeld``, ``AmbiguousMessage`` and ``CannotWrite``.
    """
    from ackd.storage import maildrop

    held = {str(one.message_id): str(one.agent) for one in held_messages(site)}
    meant: dict[str, str] = {}
    for one in wanted:
        try:
            chosen = message_ids.choose(one.removeprefix("<").removesuffix(">"), held)
        except UnknownMessage:
            raise NotHeld(one) from None
        meant[chosen] = held[chosen]
    with creating(site.receipts):
        receipts = maildrop.drop_receipts(site.receipts, ReceiptKind.RELEASE, meant, fsync=site.fsync)
    return [ReleasedMessage(one, meant[one], path) for one, path in receipts.items()]
