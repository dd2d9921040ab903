"""Watches the spool with inotify.

seats: what a watch stands for, and what is worth hearing there · watches: which number stands for which seat · tree:
the directories as last seen, and what an event says of them · limits: why inotify cannot be had · watcher: the port.
And directories that are not the spool's (directories).
"""

from ackd.adapters.inotify_watch.directories import DirectoryWatch
from ackd.adapters.inotify_watch.limits import CannotWatch
from ackd.adapters.inotify_watch.watcher import InotifyWatcher

__all__ = ["CannotWatch", "DirectoryWatch", "InotifyWatcher"]
