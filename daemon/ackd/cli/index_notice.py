"""Tell whoever waits at a terminal that all session logs are read, once, because there is no index of them yet."""

from __future__ import annotations

import sys
from typing import Final

from ackd.cli.output import echo

#: Less is read before anybody wonders.
_LONG_BYTES: Final = 20_000_000


def announce_building() -> None:
    """Have searches of the session logs say so on stderr, if that is a terminal, when they take long."""
    if sys.stderr.isatty():
        from ackd.client import log_history

        log_history.announce(IndexNotice().tell)


class IndexNotice:
    """Said once, when there is much to read."""

    def __init__(self) -> None:
        self._said = False

    def tell(self, left_bytes: int) -> None:
        if left_bytes >= _LONG_BYTES and not self._said:
            self._said = True
            megabytes = left_bytes // 1_000_000
            echo(f"ackd: reading {megabytes} MB of session logs once, so that later searches are quick", err=True)
