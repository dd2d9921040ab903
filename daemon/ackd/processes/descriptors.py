"""Descriptors that whoever started us left open (``flock FILE ackd run``): nothing that we start may inherit them,
since it may outlive us.

They are marked close-on-exec, not closed by the child: a list of numbers to close is refused as a whole (EBADF) if one
of them is beyond the limit of open files, which may have been lowered after it was opened.
"""

from __future__ import annotations

import os


def keep_to_ourselves() -> None:
    """All but the first three, which are given to each child on purpose."""
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    for fd in numbers:
        if fd > 2 and _is_inheritable(fd):
            os.set_inheritable(fd, False)


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the directory we have just read
        return False
