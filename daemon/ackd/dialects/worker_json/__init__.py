"""Between ackd and a worker that is a long-lived child: one JSON object a line (seed: worker-protocol).

Pure: bytes in, values out. models: the wire, for pydantic and JSON Schema · said: what a worker said, as values ·
reading: from lines to those · writing: what ackd says. The seed's fields stand at the top of each object, as its
classes have them; ``payload`` has the rest.

What a reader of a child's stdout does with it::

    try:
        said = worker_json.decode(line)            # with or without its line end
    except BadLine as bad:                         # of ackd.core.errors: code, detail
        child.write(worker_json.error(agent, now.wall, bad, line))

A line above ``MAX_LINE_BYTES`` need not be gathered to be refused: ``too_long()`` is the ``BadLine`` for it.
Nothing needs to be said at a start: a worker is taken for ready when it runs, and its first line shows that it is.
"""

from ackd.core.errors import BadLine
from ackd.dialects.worker_json.reading import checkpoint, decode, read_checkpoint
from ackd.dialects.worker_json.said import (
    Blocked,
    Checkpoint,
    Completed,
    ContextThreshold,
    Failed,
    Heartbeat,
    Progressed,
    Said,
    Words,
)
from ackd.dialects.worker_json.writing import Assignment, ack, assign, checkpoint_request, error, shutdown, status_check
from ackd.json_line import MAX_LINE_BYTES, Flaw, too_long

__all__ = [
    "MAX_LINE_BYTES",
    "Assignment",
    "BadLine",
    "Blocked",
    "Checkpoint",
    "Completed",
    "ContextThreshold",
    "Failed",
    "Flaw",
    "Heartbeat",
    "Progressed",
    "Said",
    "Words",
    "ack",
    "assign",
    "checkpoint",
    "checkpoint_request",
    "decode",
    "error",
    "read_checkpoint",
    "shutdown",
    "status_check",
    "too_long",
]
