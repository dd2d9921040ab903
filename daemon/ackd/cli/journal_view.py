"""The operator's view of ``ackd run`` under systemd: each fact is an entry of the journal, with fields.

systemd says in JOURNAL_STREAM which pipe leads to the journal. If stdout is that pipe, facts go past it, by journald's
native protocol: one datagram for each. Its fields, for ``journalctl``:

``PRIORITY``          3 an error, 4 something to look into, 6 anything else
``ACKD_TYPE``         the type of the log line; ``MESSAGE_ID`` stands for it, too
``ACKD_MESSAGE_ID``   the message that the fact is about
``ACKD_AGENT``        the agent, also as ``AGENT``
``ACKD_DATA``         the line's data, as JSON

MESSAGE_ID belongs to journald: 128 bits that tell kinds of entries apart, by which its catalog and its tools go. So it
is made of the type, and the id of the message has a field of its own.

Never fails and never waits. A journald that cannot take an entry just now misses it and is told how many it missed; if
its socket is not there, lines go to the pipe, with their priority in front (``<4>``), which journald understands, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

import orjson

from ackd import facts
from ackd.core.escalations import stamp
from ackd.core.fact import RED
from ackd.facts.harmless import clock_time
from ackd.facts.table import FACTS
from ackd.storage.session_log import Line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from ackd.core.ports import View

SOCKET: Final = "/run/systemd/journal/socket"
_ERROR, _WARNING, _INFO = 3, 4, 6
_TOO_LARGE: Final = frozenset({errno.EMSGSIZE, errno.ENOBUFS})
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def leads_to_journal(stream: IO[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a stream is the pipe that systemd has connected with the journal."""
    with contextlib.suppress(OSError, ValueError):
        device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
        found = os.fstat(stream.fileno())
        return (int(device), int(inode)) == (found.st_dev, found.st_ino)
    return False


def priority(type_: str) -> int:
    row = FACTS.get(type_)
    if row is None or not row.loud:
        return _INFO
    return _ERROR if row.style == RED else _WARNING


class JournalView:
    """Entries of the journal. ``otherwise``: the view for what journald's socket does not take."""

    def __init__(self, otherwise: View, address: str = SOCKET) -> None:
        self._otherwise = otherwise
        self._address = address
        self._missed = 0

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        if self._missed and self._sent(_entry(f"… {self._missed} entries were missed by journald", _WARNING)):
            self._missed = 0
        try:
            self._send(entry(type_, data, at))
        except (BlockingIOError, InterruptedError):
            self._missed += 1
        except OSError:
            self._otherwise.show(type_, data, at)

    def flush(self) -> None:
        self._otherwise.flush()

    def _sent(self, data: bytes) -> bool:
        try:
            self._send(data)
        except OSError:
            return False
        return True

    def _send(self, data: bytes) -> None:
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_UNIX, kind) as sock:
            try:
                sock.sendto(data, self._address)
            except OSError as error:
                if error.errno not in _TOO_LARGE:
                    raise
                self._send_as_file(sock, data)

    def _send_as_file(self, sock: socket.socket, data: bytes) -> None:
        """Hand over an entry that is too large for a datagram, as journald takes it: a file that nobody can change."""
        fd = os.memfd_create("ackd-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with os.fdopen(os.dup(fd), "wb") as file:
                file.write(data)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))
            sock.sendmsg([], [rights], 0, self._address)
        finally:
            os.close(fd)


def entry(type_: str, data: dict[str, object], at: float) -> bytes:
    """Return a fact in journald's native form."""
    line = Line(stamp(at), "", 0, "daemon", type_, data, b"")
    text = facts.render(line, colour=False)
    text = text.removeprefix(f"{clock_time(line.at)}  ")  # journald has a time of its own
    fields = {
        "SYSLOG_IDENTIFIER": "ackd",
        "MESSAGE_ID": hashlib.blake2b(f"ackd {type_}".encode(), digest_size=16).hexdigest(),
        "ACKD_TYPE": type_,
        "ACKD_DATA": _json(data),
    }
    for name, key in (("ACKD_MESSAGE_ID", "message_id"), ("ACKD_AGENT", "agent"), ("AGENT", "agent")):
        if isinstance(said := data.get(key), str):
            fields[name] = said
    return _entry(text, priority(type_), fields)


def _entry(text: str, level: int, fields: Mapping[str, str] | None = None) -> bytes:
    all_fields = {"MESSAGE": text, "PRIORITY": str(level), **(fields or {})}
    return b"".join(_field(name, said) for name, said in all_fields.items())


def _field(name: str, text: str) -> bytes:
    value = text.encode("utf-8", "backslashreplace")
    if b"\n" in value:
        return name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
    return name.encode() + b"=" + value + b"\n"


def _json(data: dict[str, object]) -> str:
    try:
        return orjson.dumps(data, default=str).decode()
    except TypeError:  # a name that is not UTF-8
        return ascii(data)
