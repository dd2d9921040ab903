"""Writing into the spool so that it lasts: a header anew, or a message of our own.

Owns the order of write, flush and rename, and the second look when somebody else wrote meanwhile. Refuses to know why
something is written. Fails with OSError, leaving what was there and no temporary file, and with ``BadMessage`` for a
file that is a message no more.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.spool import PreparedDrop, PreparedRewrite, Spool
    from ackd.core.message import Place
    from ackd.ports import Flusher

#: How often a header is written anew when its file keeps changing under us.
REWRITE_TRIES: Final = 5


@dataclass
class Pen:
    spool: Spool
    flusher: Flusher

    async def rewrite(
        self, place: Place, headers: tuple[tuple[str, str | None], ...], unless: Callable[[], bool] = lambda: False
    ) -> bool:
        """Read again when someone changed the file meanwhile: their words are kept, and ours added. ``unless``: asked
        before each reading, for what lies there may be another file by then; False if so."""
        for tries_left in reversed(range(REWRITE_TRIES)):
            if unless():
                break
            try:
                await self._rewrite_once(place, headers)
            except OSError as error:
                if error.errno != errno.ESTALE or not tries_left:
                    raise
            else:
                return True
        return False

    async def _rewrite_once(self, place: Place, headers: tuple[tuple[str, str | None], ...]) -> None:
        """Flush, then exchange: the only durable copy is never replaced by one that is not."""
        old = self.spool.read(place)
        prepared = self.spool.prepare_rewrite(place, ignite.rewrite(old.data, headers), of=old)
        await self._flush(prepared)
        self.spool.commit_rewrite(prepared)

    async def drop(self, box: str, name: str, data: bytes) -> Place:
        """Durable when it returns, in its directory too."""
        prepared = self.spool.prepare_drop(box, name, data)
        await self._flush(prepared)
        place = self.spool.commit_drop(prepared)
        box_dir = self.spool.path(place).parent
        await self.flusher.flush([f"{box_dir}/", f"{box_dir.parent}/"])  # the box itself may be new
        return place

    async def _flush(self, prepared: PreparedRewrite | PreparedDrop) -> None:
        try:
            await self.flusher.flush([prepared.temp])
        except BaseException:  # cancelled too: nobody will come back for it
            self.spool.abandon(prepared)
            raise
