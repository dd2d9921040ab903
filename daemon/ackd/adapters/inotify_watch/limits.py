"""inotify's limits: an instance, or the words for why there is none.

Owns telling a person which setting to raise. Fails with ``CannotWatch``, which carries WatchFailed's reason from
wherever the limit was met.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from inotify_simple import INotify

AT_THE_LIMIT: Final = frozenset({errno.ENOSPC, errno.ENOMEM})


class CannotWatch(Exception):  # noqa: N818 - a condition, like those of core.errors
    """Carries WatchFailed's reason from wherever the limit was met."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def new_instance() -> INotify:
    try:
        return INotify(nonblocking=True)
    except OSError as error:
        raise CannotWatch(_no_instance(error)) from error


def _no_instance(error: OSError) -> str:
    match error.errno:
        case errno.EMFILE:
            return (
                f"no inotify instance is left for this user ({_sysctl('max_user_instances')}; raise it with sysctl) "
                "or no file descriptor for this process (ulimit -n)"
            )
        case errno.ENFILE:
            return "the system has no file descriptor left (raise sysctl fs.file-max)"
        case errno.ENOSYS:
            return "this kernel has no inotify"
        case _:
            return f"inotify cannot be used: {error.strerror}"


def watch_limit() -> str:
    return f"no inotify watch is left for this user ({_sysctl('max_user_watches')}; raise it with sysctl)"


def _sysctl(name: str) -> str:
    """The setting and its value. Containers may have a lower one of their own (user.max_inotify_*)."""
    try:
        return f"fs.inotify.{name} = {Path('/proc/sys/fs/inotify', name).read_text().strip()}"
    except OSError:
        return f"fs.inotify.{name}"
