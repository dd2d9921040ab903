"""The commands `ackd story`, `ackd stage` and `ackd hook`."""
