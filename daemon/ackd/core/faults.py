"""Faults of the machine: errors of the system that are nobody's fault, and what a person can do about each.

A full disk says nothing about a message or its agent: whatever fails by it is tried again, uncounted. Cheap to import,
because `ackd send` gives the same advice.
"""

from __future__ import annotations

import errno
from typing import Final

ADVICE: Final = {
    errno.ENOSPC: "make room, or inodes, on that file system (df -h, df -i)",
    errno.EDQUOT: "make room within the quota (quota -s), or raise it",
    errno.EROFS: "find out why the file system is read-only (dmesg), and mount it writable again",
    errno.EMFILE: "raise the limit of open files (LimitNOFILE= in the unit, ulimit -n)",
    errno.ENFILE: "close what holds files open, or raise sysctl fs.file-max",
    errno.ENOMEM: "free memory, or raise the limit that this user or service has",
    errno.EAGAIN: "end processes of this user, or raise its limit (ulimit -u, TasksMax=)",
}

#: Errors of starting a process or a thread. That files can be written meanwhile does not show that they are over.
OF_STARTING: Final = frozenset({errno.EAGAIN, errno.ENOMEM})


def is_nobodys(error: OSError) -> bool:
    return error.errno in ADVICE
