"""Backups of a root: the moment that is kept, and the file that it is kept in. README.md says why it is consistent.

snapshot: second names for everything below a root, at one moment · bundle: the archive file, written, verified, laid
out · restored: the mark of a root that came out of one. Imported one by one: `ackd status` asks for the mark, and tar
is slow to import.
"""
