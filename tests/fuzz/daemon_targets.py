"""A real daemon, started in this process on a root in which one file holds the bytes, until it is ready, then stopped.

It must start whatever its own files say: a daemon that cannot start delivers nothing. And what it says of them must be
fit for a terminal.
"""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd import facts
from ackd.config.model import load_site
from ackd.config.site import find_site
from ackd.core.escalations import stamp
from ackd.runtime.daemon import Daemon
from ackd.runtime.systemd import ServiceManager
from ackd.storage.session_log import Line
from tests.fuzz.families import MESSAGE_ID, SEEDS
from tests.fuzz.place import place
from tests.fuzz.terminal import assert_harmless

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.families import Family
    from tests.fuzz.place import Place

_LOG: Final = "logs/session-20261116-010203.ndjson"  # the one that state/totals.json counts up to
_WIDTHS: Final = (0, 40, 100, 200)


class _StopWhenReady(ServiceManager):
    watchdog_s = None

    def __init__(self) -> None:
        self.daemon: Daemon | None = None
        self.was_ready = False

    def ready(self, status: str) -> None:
        pass

    def status(self, status: str) -> None:
        assert self.daemon is not None
        self.was_ready = True
        self.daemon._stop_asked.set()

    def alive(self) -> None:
        pass

    def stopping(self) -> None:
        pass


def serve(at: Place) -> None:
    """One session on the place's root: it becomes ready, and ends."""
    site, service = find_site(), _StopWhenReady()
    service.daemon = Daemon(load_site(site), site, _View(), service=service)
    try:
        anyio.run(service.daemon.serve)
    finally:
        _forget(service.daemon)
    assert service.was_ready
    assert at.root.is_dir()


def _forget(daemon: Daemon) -> None:
    """A daemon keeps a descriptor, and takes what it is made of from the collector: its process ends with it. This one
    goes on."""
    daemon._page._spend_spare()
    gc.unfreeze()


class _View:
    """What an operator would see, at several widths."""

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        line = Line(stamp(at), "", 0, "daemon", type_, data, b"")
        for width in _WIDTHS:
            assert_harmless(facts.render(line, colour=False, width=width))

    def flush(self) -> None:
        """Nothing is kept back."""


def started(path: str, data: bytes) -> None:
    """Twice: the second session finds what the first one made of it."""
    with place() as at:
        at.put("queue/worker/processed/other.mime", _message())
        at.put("state/journal.ndjson", SEEDS["journal"][0])
        at.put(_LOG, SEEDS["log"][0])
        at.put(path, data)
        serve(at)
        serve(at)


def _message() -> bytes:
    return SEEDS["message"][0].replace(b"Message-ID:", b"X-Was:") + f"Message-ID: <{MESSAGE_ID}>\n".encode()


#: What the daemon reads, by its name below the root.
_FILES: Final[tuple[tuple[str, Family, str], ...]] = (
    ("daemon_queue", "message", "queue/worker/input.mime"),
    ("daemon_system", "message", "queue/system/input.mime"),
    ("daemon_processed", "message", "queue/worker/processed/input.mime"),
    ("daemon_dead_letter", "message", "queue/dead_letter/input.mime"),
    ("daemon_receipt", "receipt", "receipts/done_1763254800000000-abcdef.json"),
    ("daemon_journal", "journal", "state/journal.ndjson"),
    ("daemon_totals", "totals", "state/totals.json"),
    ("daemon_escalations", "escalations", "state/escalations.json"),
    ("daemon_boxes", "boxes", "state/boxes.json"),
    ("daemon_run", "run", "state/runs/1-abcdef/spec.json"),
    ("daemon_log", "log", _LOG),
    ("daemon_bus", "bus", "bus/queue.jsonl"),
    ("daemon_bus_status", "bus_status", "bus/worker-status.json"),
)

DOORS: Final[tuple[tuple[str, Family, Callable[[bytes], None]], ...]] = tuple(
    (name, family, partial(started, path)) for name, family, path in _FILES
)
