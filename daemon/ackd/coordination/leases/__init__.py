"""Leases: one writer at a time for a file, among all processes that ask through ackd."""
