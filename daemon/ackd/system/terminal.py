"""The terminal that a process belongs to: whether it has one, and whether that has hung up.

SIGHUP has two senders. The kernel and the shell send it when the terminal goes away, a person and a service manager to
have the config read again. The signal's own data cannot tell them apart: a shell that is hung up on passes the signal
on to its jobs with ``kill``, as a person would. The terminal can: when it has hung up, /dev/tty no longer opens.
"""

from __future__ import annotations

import errno
import os
from typing import Final

_TERMINAL: Final = "/dev/tty"
#: There is none (any more), or it has hung up. Anything else (no descriptors left) says nothing about it.
_NONE: Final = frozenset({errno.ENXIO, errno.EIO, errno.ENODEV, errno.ENOENT})


def has_terminal() -> bool:
    """Say whether this process has a controlling terminal that answers."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in _NONE
    return True
