"""Making a bus: the seed's directories and files, empty.

Owns that a bus that is there keeps what it has: nothing is overwritten, whatever it holds. Quick to import. Fails with
OSError.
"""

import os
from collections.abc import Sequence
from typing import Final

from ackd.core.bus_layout import Track
from ackd.syscalls import rename_noreplace

_FILES: Final[Sequence[tuple[str, bytes]]] = (
    ("queue.jsonl", b""),
    ("locks.json", b"{}\n"),
    ("worker-status.json", b"{}\n"),
    ("board/assessments.json", b"{}\n"),
    ("board/votes.json", b"{}\n"),
    ("board/discussion.jsonl", b""),
)


def make_track(track: Track) -> list[str]:
    """Whatever is missing of it, for its owner only. Returns what was made, by its name in the bus."""
    os.makedirs(os.path.dirname(track.bus), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - pathlib is slow
    made = [name for name in ("", "events/", "board/") if _made_directory(f"{track.bus}/{name}")]
    return made + [name for name, content in _FILES if _made_file(f"{track.bus}/{name}", content)]


def _made_directory(path: str) -> bool:
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        return False
    return True


def _made_file(path: str, content: bytes) -> bool:
    """By way of a name of its own: nobody reads an empty locks.json."""
    if os.path.lexists(path):
        return False
    hidden = f"{path}.{os.getpid()}.tmp"
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, content)
        rename_noreplace(hidden, path)
    except FileExistsError:
        os.unlink(hidden)  # noqa: PTH108
        return False
    finally:
        os.close(fd)
    return True
