"""Which message a few characters mean.

Owns the short ways to write an id, ``epoch.pid.hash@host`` (ignite-mime, "Message-ID"): without its host, by how it
begins, or by its hash, which is what tells ids of one minute apart and what narrow terminals show. Refuses to know
where ids come from. Fails with UnknownMessage and AmbiguousMessage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import AmbiguousMessage, UnknownMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A hash may be cut, but not to less than this: shorter ones fit too much.
LEAST_HASH_CHARS: Final = 4


def hash_part(message_id: str) -> str:
    """The third dotted part, without the host; empty for an id of another form."""
    parts = message_id.partition("@")[0].split(".")
    return parts[2] if len(parts) == 3 else ""


def may_be_hash(wanted: str) -> bool:
    return len(wanted) >= LEAST_HASH_CHARS and wanted.isalnum() and wanted.isascii()


def fits(wanted: str, message_id: str) -> bool:
    """``wanted`` is how the id, or the hash in it, begins."""
    if not wanted:
        return False
    return message_id.startswith(wanted) or (may_be_hash(wanted) and hash_part(message_id).startswith(wanted))


def choose(wanted: str, ids: Iterable[str]) -> str:
    """The one id that is meant: a whole one, then one whole up to its ``@``, then by beginnings, then by hashes."""
    fitting = {one for one in ids if fits(wanted, one)}
    beginnings = {one for one in fitting if one.startswith(wanted)}
    whole = {one for one in beginnings if one.partition("@")[0] == wanted}
    best = (beginnings & {wanted}) or whole or beginnings or fitting
    if not best:
        raise UnknownMessage(wanted)
    if len(best) > 1:
        raise AmbiguousMessage(wanted, tuple(sorted(best)))
    return best.pop()
