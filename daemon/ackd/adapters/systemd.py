"""Telling the service manager how we are: sd_notify, which is one datagram.

Does nothing when NOTIFY_SOCKET is not set. Never fails: a manager that does not listen is not our trouble.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServiceManager:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog(environ)

    @property
    def listens(self) -> bool:
        return bool(self._address)

    def ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._tell(f"STATUS={status}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=stopping: letting running deliveries finish")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.sendto(text.encode(), self._address)


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """How often the manager wants to hear from us, if it does, and if it means this process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    usec = environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1_000_000 if usec.isdigit() and int(usec) > 0 else None
