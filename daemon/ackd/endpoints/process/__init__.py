"""Process agents: a child that is kept alive and speaks the worker protocol on its pipes."""
