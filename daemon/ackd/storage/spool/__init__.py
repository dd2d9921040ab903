"""The spool on disk: queues, dead letters, quarantine, archive."""

from ackd.storage.spool.reading import FileBytes
from ackd.storage.spool.spool import PreparedDrop, PreparedRewrite, Spool
from ackd.storage.spool.undeliverable import Reason

__all__ = ["FileBytes", "PreparedDrop", "PreparedRewrite", "Reason", "Spool"]
