"""Exec agents: one command per message, each run under a shim that outlives the daemon."""
