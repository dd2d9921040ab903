"""A message bus's files.

Quick ones, for who posts; who reads imports ``tailing`` and ``state_files``.
"""

from ackd.adapters.bus_files.making import make_track
from ackd.adapters.bus_files.posting import Appender, append, raise_event

__all__ = ["Appender", "append", "make_track", "raise_event"]
