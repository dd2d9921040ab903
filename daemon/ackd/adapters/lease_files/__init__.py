"""The files that leases are kept in: locks.json, who waits, and the lock around both."""

from ackd.adapters.lease_files.files import Decide, LeaseFiles, machine_clocks
from ackd.adapters.lease_files.paths import normalised
from ackd.adapters.lease_files.tickets import Ticket
from ackd.adapters.lease_files.waiting import acquire, granted

__all__ = ["Decide", "LeaseFiles", "Ticket", "acquire", "granted", "machine_clocks", "normalised"]
