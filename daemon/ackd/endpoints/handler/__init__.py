"""Handler agents: one call of a Python function inside the daemon per message."""
