"""Tells the service manager the daemon's state by sd_notify, which is one datagram.

Does nothing when NOTIFY_SOCKET is not set. Never fails: a manager that does not listen is ignored. The variables are
removed from the environment, because a command that an agent starts is not this service and must not report for it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class ServiceManager:
    _address = ""
    _status: str | None = ""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog(environ)

    def ready(self, status: str) -> None:
        """Tell that the daemon serves, and how it stands. Ignored once the daemon stops: a reload may end then."""
        if self._status is not None:
            self._status = status
            self._tell(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Replace the line that `systemctl status` shows, if it has changed. Ignored once the daemon stops."""
        if status != self._status and self._status is not None:
            self._status = status
            self._tell(f"STATUS={status}")

    def reloading(self) -> None:
        """Tell that the config is being read again; ``ready`` follows. The manager orders the two by the time."""
        if self._status is not None:
            now_usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            self._tell(f"RELOADING=1\nMONOTONIC_USEC={now_usec}\nSTATUS=reading the config again")

    def stopping(self) -> None:
        self._status = None
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


def _watchdog(environ: MutableMapping[str, str]) -> float | None:
    """Return the interval at which the manager expects a sign of life; None if it expects none from this process."""
    pid, usec = environ.pop("WATCHDOG_PID", str(os.getpid())), environ.pop("WATCHDOG_USEC", "")
    if pid != str(os.getpid()):
        return None
    return int(usec) / 1_000_000 if usec.isdecimal() and int(usec) > 0 else None
