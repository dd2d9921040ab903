"""The mark of a config file as it was read: by it a command can tell quickly whether the file has changed since.

The daemon writes the mark of the file that it runs with to ``run/config``, one line of text, so that `ackd send` needs
no JSON for it. A file with the same size, time and inode is the same; else its bytes are compared by a checksum,
because to touch or to rewrite a file changes nothing. Nothing here raises: a file that cannot be read has no mark.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
from typing import Final, NamedTuple

#: The name of the daemon's note below run/.
NOTE_NAME: Final = "config"
_MAX_NOTE_BYTES: Final = 8192
#: What everybody is told whose file differs from what the daemon runs with.
DIFFERS: Final = "the daemon has not read it since it was changed: `ackd reload`"


class FileMark(NamedTuple):
    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    checksum: int

    def as_line(self) -> str:
        return f"{self.size_bytes} {self.mtime_ns} {self.inode} {self.checksum} {self.path}\n"

    def is_still(self, path: str) -> bool:
        """Say whether the file there has the bytes that were read. True if it cannot be read: nothing is known."""
        try:
            found = os.stat(path)  # noqa: PTH116 - a Path costs every command
        except OSError:
            return True
        if (found.st_size, found.st_mtime_ns, found.st_ino) == (self.size_bytes, self.mtime_ns, self.inode):
            return True
        now = mark_of(path)
        return now is None or now.checksum == self.checksum


def mark_of(path: str | os.PathLike[str]) -> FileMark | None:
    from binascii import crc32  # noqa: PLC0415 - mostly, the time says enough

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found, data = os.fstat(file.fileno()), file.read()
    except OSError:
        return None
    return FileMark(os.path.abspath(path), found.st_size, found.st_mtime_ns, found.st_ino, crc32(data))  # noqa: PTH100


def read_note(run_directory: str | os.PathLike[str]) -> FileMark | None:
    """The mark that a daemon wrote last; None without one, or if it is not what a daemon writes."""
    try:
        with open(f"{os.fspath(run_directory)}/{NOTE_NAME}", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            line = file.read(_MAX_NOTE_BYTES)
    except OSError:
        return None
    *numbers, path = line.rstrip("\n").split(" ", 4)
    if len(numbers) != 4 or not all(one.isdecimal() for one in numbers):
        return None
    size_bytes, mtime_ns, inode, checksum = map(int, numbers)
    return FileMark(path, size_bytes, mtime_ns, inode, checksum)


def differs(run_directory: str | os.PathLike[str], config: str | os.PathLike[str] | None) -> bool:
    """Say whether the config has changed since a daemon read it. False if the daemon ran with another file. Whether it
    still runs is the caller's to know."""
    if config is None or (mark := read_note(run_directory)) is None or mark.path != os.fspath(config):
        return False
    return not mark.is_still(mark.path)
