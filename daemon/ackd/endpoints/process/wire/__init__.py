"""The worker protocol between ackd and a long-lived child: one JSON object per line (seed: worker-protocol).

Pure: bytes in, values out. models: every line, for pydantic and JSON Schema · said: a worker's lines as values ·
reading: from lines to those values · writing: the lines that ackd sends. The seed's fields stand at the top of each
object, as in its classes; ``payload`` has the rest.

A reader of a child's stdout uses it like this::

    try:
        said = worker_json.decode(line)            # with or without its line end
    except BadLine as bad:                         # from ackd.core.errors; has code and detail
        child.write(worker_json.error(agent, now.wall, bad, line))

A line above ``MAX_LINE_BYTES`` can be refused before it has been read to its end: ``too_long()`` makes the ``BadLine``
for it. No greeting is needed: a worker counts as ready when it runs, and its first line shows that it is.
"""

from ackd.core.errors import BadLine
from ackd.endpoints.process.wire.reading import checkpoint, decode, read_checkpoint
from ackd.endpoints.process.wire.said import (
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
from ackd.endpoints.process.wire.writing import (
    Assignment,
    ack,
    assign,
    cancel,
    checkpoint_request,
    error,
    shutdown,
    status_check,
)
from ackd.formats.json_line import MAX_LINE_BYTES, Flaw, too_long

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
    "cancel",
    "checkpoint",
    "checkpoint_request",
    "decode",
    "error",
    "read_checkpoint",
    "shutdown",
    "status_check",
    "too_long",
]
