"""Endpoints: a folder for each kind, which tells, watches, wakes and starts agents of that kind."""
