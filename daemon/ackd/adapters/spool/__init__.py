"""The spool on disk: queues, dead letters, quarantine, archive."""

from ackd.adapters.spool.quarantine import Reason
from ackd.adapters.spool.reading import FileBytes
from ackd.adapters.spool.spool import PreparedDrop, PreparedRewrite, Spool

__all__ = ["FileBytes", "PreparedDrop", "PreparedRewrite", "Reason", "Spool"]
