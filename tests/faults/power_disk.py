"""A disk that writes down everything that is written to it, in order, with its flushes: power can be cut anywhere.

A FUSE file system of one file, which a loop device uses as its backing store. Run as
``python -m tests.faults.power_disk MOUNTPOINT BYTES LOG``. Every write is appended to LOG before it is answered, and so
is every flush; reads are served from memory. What a power cut may leave is then known exactly: all writes before the
last flush that was answered, and any part of those after it.

Speaks the kernel's protocol (fuse.h, 7.31) over /dev/fuse itself: six requests are all that a loop device needs.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD: Final = struct.Struct("<cQI")  # kind, offset, length; the bytes of a write follow
WRITE, FLUSH = b"w", b"f"
FILE_NAME: Final = "disk"

_IN_HEADER: Final = struct.Struct("<IIQQIIIHH")
_OUT_HEADER: Final = struct.Struct("<IiQ")
_ATTR: Final = struct.Struct("<QQQQQQIIIIIIIIII")
_MAX_WRITE: Final = 1 << 17
_BUFFER: Final = _MAX_WRITE + (1 << 13)
_ROOT, _FILE = 1, 2
_DIRECTORY_MODE, _FILE_MODE = 0o040700, 0o100600
_FOREVER_S: Final = 1 << 20


@dataclass
class Disk:
    fuse: int
    log: int
    content: mmap.mmap

    def serve(self) -> None:
        """Until it is unmounted."""
        while True:
            try:
                request = os.read(self.fuse, _BUFFER)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        _, opcode, unique, node, *_ = _IN_HEADER.unpack_from(request)
        handler = _HANDLERS.get(opcode)
        if opcode in _UNANSWERED:
            return
        try:
            body = handler(self, node, request[_IN_HEADER.size :]) if handler is not None else -errno.ENOSYS
        except OSError as error:
            body = -(error.errno or errno.EIO)
        data = body if isinstance(body, bytes) else b""
        code = body if isinstance(body, int) else 0
        os.write(self.fuse, _OUT_HEADER.pack(_OUT_HEADER.size + len(data), code, unique) + data)

    # --- requests -------------------------------------------------------------------------------------------------------
    def init(self, _node: int, body: bytes) -> bytes:
        major, minor, readahead, _flags = struct.unpack_from("<IIII", body)
        return struct.pack(
            "<IIIIHHIIHHI7I", major, min(minor, 31), readahead, 0, 16, 12, _MAX_WRITE, 1, 32, 0, *(0,) * 8
        )

    def lookup(self, node: int, body: bytes) -> bytes | int:
        if node != _ROOT or body.rstrip(b"\0").decode() != FILE_NAME:
            return -errno.ENOENT
        return struct.pack("<QQQQII", _FILE, 0, _FOREVER_S, _FOREVER_S, 0, 0) + self._attributes(_FILE)

    def getattr(self, node: int, _body: bytes) -> bytes:
        return struct.pack("<QII", _FOREVER_S, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        size, mode = (len(self.content), _FILE_MODE) if node == _FILE else (0, _DIRECTORY_MODE)
        return _ATTR.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def open(self, _node: int, _body: bytes) -> bytes:
        return struct.pack("<QII", 1, 0, 0)

    def read(self, _node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return self.content[offset : offset + size]

    def write(self, _node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        data = body[40 : 40 + size]
        self.content[offset : offset + size] = data
        self._note(RECORD.pack(WRITE, offset, size) + data)
        return struct.pack("<II", size, 0)

    def fsync(self, _node: int, _body: bytes) -> bytes:
        self._note(RECORD.pack(FLUSH, 0, 0))
        return b""

    def nothing(self, _node: int, _body: bytes) -> bytes:
        return b""

    def statfs(self, _node: int, _body: bytes) -> bytes:
        return struct.pack("<QQQQQIIII6I", *(0,) * 5, 4096, 255, 4096, 0, *(0,) * 6)

    def _note(self, record: bytes) -> None:
        view = memoryview(record)
        while view:
            view = view[os.write(self.log, view) :]


_HANDLERS: Final[dict[int, Callable[[Disk, int, bytes], bytes | int]]] = {
    26: Disk.init,
    1: Disk.lookup,
    3: Disk.getattr,
    4: Disk.getattr,  # setattr: times and modes are nobody's business here
    14: Disk.open,
    15: Disk.read,
    16: Disk.write,
    17: Disk.statfs,
    18: Disk.nothing,  # release
    20: Disk.fsync,
    25: Disk.nothing,  # flush of a descriptor, not of the disk
    27: Disk.open,  # opendir
    29: Disk.nothing,  # releasedir
}
_UNANSWERED: Final = frozenset({2, 36, 42})  # forget, interrupt, batch forget


def main(mountpoint: str, size_bytes: int, log_path: str) -> None:
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,max_read={_MAX_WRITE}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"ackd-disk", os.fsencode(mountpoint), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount", mountpoint)
    Disk(fuse, log, mmap.mmap(-1, size_bytes)).serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
