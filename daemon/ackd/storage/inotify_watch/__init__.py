"""Watch the spool, and other directories, with inotify.

watches: the kernel's watches, which directory each stands for, and inotify's limits · tree: the spool's directories as
last seen, and the meaning of events in them · watcher: the port · directories: directories outside the spool.
"""

from ackd.storage.inotify_watch.directories import DirectoryWatch
from ackd.storage.inotify_watch.watcher import InotifyWatcher
from ackd.storage.inotify_watch.watches import CannotWatch

__all__ = ["CannotWatch", "DirectoryWatch", "InotifyWatcher"]
