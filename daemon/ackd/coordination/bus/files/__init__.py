"""The files of a message bus.

The exports here are quick to import, for posting; readers import ``tailing`` and ``state_files``.
"""

from ackd.coordination.bus.files.posting import Appender, append, make_track, raise_event

__all__ = ["Appender", "append", "make_track", "raise_event"]
