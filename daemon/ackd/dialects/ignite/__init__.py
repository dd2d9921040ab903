"""The native message: MIME-like header lines, a blank line, a YAML body, all UTF-8 (seed: ignite-mime).

Pure: bytes in, values out. form: bytes ↔ lines · fields: what the lines mean · reading: to the engine's values ·
writing: new messages and changed headers. The YAML parts beside this package (yaml_body, bodies, body_shapes) belong to
the same dialect.
"""

from ackd.core.message import Rejection
from ackd.dialects.ignite.fields import bare_id, faults, names
from ackd.dialects.ignite.form import (
    CONTENT_TYPE,
    ERROR_AT,
    ERROR_REASON,
    MAX_HEADER_BYTES,
    NEXT_RETRY_AFTER,
    PROCESSED_AT,
    RECIPIENT,
    REQUIRED,
    RESERVED_BYTES,
    RETRY_COUNT,
    STATUS,
    THREAD_ID,
    RawMessage,
    split,
    split_head,
)
from ackd.dialects.ignite.reading import decode, headers, progress, standing, task_id
from ackd.dialects.ignite.writing import (
    build,
    encode_draft,
    file_name,
    header_line,
    iso_seconds,
    new_message_id,
    rewrite,
    rfc2822_date,
)

__all__ = [
    "CONTENT_TYPE",
    "ERROR_AT",
    "ERROR_REASON",
    "MAX_HEADER_BYTES",
    "NEXT_RETRY_AFTER",
    "PROCESSED_AT",
    "RECIPIENT",
    "REQUIRED",
    "RESERVED_BYTES",
    "RETRY_COUNT",
    "STATUS",
    "THREAD_ID",
    "RawMessage",
    "Rejection",
    "bare_id",
    "build",
    "decode",
    "encode_draft",
    "faults",
    "file_name",
    "header_line",
    "headers",
    "iso_seconds",
    "names",
    "new_message_id",
    "progress",
    "rewrite",
    "rfc2822_date",
    "split",
    "split_head",
    "standing",
    "task_id",
]
