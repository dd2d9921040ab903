"""Keeps the messages that were read last, so that a handler inside the daemon need not read the file again.

Most messages are delivered at once. The cache is bounded: the oldest go first, and a reader that does not find a
message here reads its file.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from ackd.core.message import Message

#: About 3,000 ordinary messages. A burst of messages is read before the first of them is delivered.
MAX_BYTES: Final = 4 * 1_048_576

#: Id, recipient and digest: together they identify the content that was accepted.
_Which: TypeAlias = tuple[str, str, str]


class ReadCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        #: Not a plain dict, which finds its oldest entry only by skipping the slots of all removed ones.
        self._kept: OrderedDict[_Which, bytes] = OrderedDict()
        self._bytes = 0

    def keep(self, message: Message, data: bytes) -> None:
        which = (message.message_id, message.addressee, message.digest)
        self._bytes += len(data) - len(self._kept.pop(which, b""))
        self._kept[which] = data
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def take(self, message: Message) -> bytes | None:
        """Return the content and forget it. A later delivery reads the file, which may have changed by then."""
        data = self._kept.pop((message.message_id, message.addressee, message.digest), None)
        if data is not None:
            self._bytes -= len(data)
        return data
