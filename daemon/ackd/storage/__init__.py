"""All access to the file system: atomic writes, locks, state files, spool, journal, session log, watchers."""
