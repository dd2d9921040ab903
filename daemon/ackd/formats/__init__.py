"""Bytes to values and back: the native message format, and what several parts share. Pure."""
