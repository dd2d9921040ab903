"""Backups of a root: the moment that is kept, and the file that it is kept in. README.md says why it is consistent.

snapshot: second names for everything below a root, at one moment · bundle: the archive file, written, verified, laid
out · restored: the mark of a root that came out of one.
"""

from ackd.storage.backup.bundle import Bundle, Contents, lay_out, pack, verify
from ackd.storage.backup.restored import Restored
from ackd.storage.backup.snapshot import Snapshot

__all__ = ["Bundle", "Contents", "Restored", "Snapshot", "lay_out", "pack", "verify"]
