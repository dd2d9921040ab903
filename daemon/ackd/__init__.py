"""ackd: deliver, wait for the ACK, and say what was proven."""

__version__ = "0.2.0"
