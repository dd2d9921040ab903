"""The files that leases are kept in: locks.json, who waits, and the lock around both."""

from ackd.coordination.leases.files.files import Decide, LeaseFiles, machine_clocks
from ackd.coordination.leases.files.paths import normalised
from ackd.coordination.leases.files.tickets import Ticket
from ackd.coordination.leases.files.waiting import acquire, granted

__all__ = ["Decide", "LeaseFiles", "Ticket", "acquire", "granted", "machine_clocks", "normalised"]
