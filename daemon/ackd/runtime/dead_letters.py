"""Which file in dead_letter/ bears which message id.

Owns an index that is built when it is first asked, and kept up by listing the directory when that has changed: a
thousand receipts that mean no message must not read a thousand letters each. A letter's head is read once; one that is
replaced is another file. Refuses to know what is done with a letter. Fails with OSError, as the directory refuses.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.adapters.spool import Spool

#: Heads read between two breaths of the loop.
SLICE: Final = 64
#: A directory that changed less than this ago may change again within the same tick of its clock.
_TICK_NS: Final = 50_000_000


@dataclass
class DeadLetters:
    spool: Spool
    #: By name: the file's number, and the id it bears; None for what is no message.
    _letters: dict[str, tuple[int, str | None]] = field(default_factory=dict, init=False)
    _by_id: dict[str, set[str]] = field(default_factory=dict, init=False)
    _reading: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _listed_at: int | None = field(default=None, init=False)

    def named(self, message_id: str, file: str | None = None) -> list[str]:
        """Names of the letters that bear this id; a file that is named is the one that is meant, if it is there."""
        if file is not None:
            return [file] if self.spool.exists(Place("", Folder.DEAD, file)) else []
        for _ in self._update():
            pass
        return sorted(self._by_id.get(message_id, ()))

    async def refresh(self) -> None:
        """The same, without holding up the loop: for the first time, when there may be very many."""
        async with self._reading:  # whoever else asks meanwhile finds it done
            for number, _ in enumerate(self._update()):
                if number % SLICE == SLICE - 1:
                    await anyio.lowlevel.checkpoint()

    def is_fresh(self) -> bool:
        return self._listed_at is not None and self._listed_at == self.spool.graves.changed_at()

    def _update(self) -> Iterator[None]:
        """Yields after each head that it reads."""
        if self.is_fresh():
            return
        changed_at = self.spool.graves.changed_at()
        there = self.spool.graves.files()
        for name in [name for name, (number, _) in self._letters.items() if there.get(name) != number]:
            self._drop(name)
        for name in there.keys() - self._letters.keys():
            if name not in self._letters:  # named() was asked between two breaths
                self._add(name, there[name])
            yield
        long_ago = changed_at is None or time.time_ns() - changed_at > _TICK_NS
        self._listed_at = changed_at if long_ago else None

    def _add(self, name: str, number: int) -> None:
        message_id = _id_of(self.spool.graves.head(name))
        self._letters[name] = (number, message_id)
        if message_id is not None:
            self._by_id.setdefault(message_id, set()).add(name)

    def _drop(self, name: str) -> None:
        _, message_id = self._letters.pop(name)
        if message_id is not None:
            self._by_id[message_id].discard(name)
            if not self._by_id[message_id]:
                del self._by_id[message_id]


def _id_of(head: bytes | None) -> str | None:
    try:
        return None if head is None else ignite.bare_id(ignite.split_head(head).fields.get("message-id", ""))
    except BadMessage:
        return None
