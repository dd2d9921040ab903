"""Short forms of message ids, and the message that one means.

An id is ``epoch.pid.hash@host`` (ignite-mime, "Message-ID"). It may be written without its host, by its beginning, or
by its hash, which differs between ids of one minute and is what narrow terminals show. Fails with UnknownMessage and
AmbiguousMessage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import AmbiguousMessage, UnknownMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A hash may be shortened, but not to less than this, or it would fit too many.
LEAST_HASH_CHARS: Final = 4


def hash_part(message_id: str) -> str:
    """Return the third dotted part, without the host; empty for an id of another form."""
    parts = message_id.partition("@")[0].split(".")
    return parts[2] if len(parts) == 3 else ""


def may_be_hash(wanted: str) -> bool:
    return len(wanted) >= LEAST_HASH_CHARS and wanted.isalnum() and wanted.isascii()


def fits(wanted: str, message_id: str) -> bool:
    """Return whether the id, or the hash in it, begins with ``wanted``."""
    if not wanted:
        return False
    return message_id.startswith(wanted) or (may_be_hash(wanted) and hash_part(message_id).startswith(wanted))


def choose(wanted: str, ids: Iterable[str]) -> str:
    """Return the one id that is meant: a whole one, then one whole up to its ``@``, then by beginnings, then by
    hashes."""
    fitting = {one for one in ids if fits(wanted, one)}
    beginnings = {one for one in fitting if one.startswith(wanted)}
    whole = {one for one in beginnings if one.partition("@")[0] == wanted}
    best = (beginnings & {wanted}) or whole or beginnings or fitting
    if not best:
        raise UnknownMessage(wanted)
    if len(best) > 1:
        raise AmbiguousMessage(wanted, tuple(sorted(best)))
    return best.pop()
