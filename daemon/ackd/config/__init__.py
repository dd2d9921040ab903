"""ackd.toml as one frozen model, the fast reader for commands, and where a team's files lie."""
