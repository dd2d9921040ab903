"""The last messages that were read, kept for the moment in which a handler inside the daemon is told of them.

Most are told at once, and need not be read again. Owns how much is kept: the oldest go first, and whoever does not
find a message here reads its file. Cannot fail.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from ackd.core.message import Message

#: Some 3,000 ordinary messages: a burst is read before the first of it is told.
MAX_BYTES: Final = 4 * 1_048_576

#: Id, recipient, digest: the very content that was accepted.
_Which: TypeAlias = tuple[str, str, str]


class FreshMail:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        #: No plain dict, which finds its oldest entry by passing over all that were before it.
        self._kept: OrderedDict[_Which, bytes] = OrderedDict()
        self._bytes = 0

    def keep(self, message: Message, data: bytes) -> None:
        which = (message.message_id, message.recipient, message.digest)
        self._bytes += len(data) - len(self._kept.pop(which, b""))
        self._kept[which] = data
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def take(self, message: Message) -> bytes | None:
        """Once: who is told again, later, reads what lies there by then."""
        data = self._kept.pop((message.message_id, message.recipient, message.digest), None)
        if data is not None:
            self._bytes -= len(data)
        return data
