"""The command `ackd board`."""
