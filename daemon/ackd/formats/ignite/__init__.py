"""The native message: MIME-like header lines, a blank line, a YAML body, all UTF-8 (seed: ignite-mime).

Pure: bytes in, values out. form: bytes ↔ lines · fields: meaning of the lines · reading: to the engine's values ·
writing: new messages and changed headers. The YAML parts beside this package (yaml_body, bodies, body_shapes) belong to
the same dialect.

``reading`` is imported when one of its functions is first used: `ackd send` only writes, and importing the engine's
values would cost it more than the writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.core.words import (
    ERROR_AT,
    ERROR_REASON,
    NEXT_RETRY_AFTER,
    PROCESSED_AT,
    RECIPIENT,
    RETRY_COUNT,
    STATUS,
    Rejection,
)
from ackd.formats.ignite.fields import bare_id, faults, names
from ackd.formats.ignite.form import (
    CONTENT_TYPE,
    COPIES,
    MAX_HEADER_BYTES,
    NOTIFY,
    PART_OF,
    REQUIRED,
    RESERVED_BYTES,
    THREAD_ID,
    RawMessage,
    body_of,
    headers,
    split,
    split_head,
)
from ackd.formats.ignite.writing import (
    build,
    encode_draft,
    file_name,
    header_line,
    iso_seconds,
    new_message_id,
    rewrite,
    rfc2822_date,
)

if TYPE_CHECKING:
    from ackd.formats.ignite.reading import (
        claimed_sender,
        decode,
        gist,
        glance,
        glanced_id,
        is_automatic,
        progress,
        standing,
        task_id,
    )

_READING: Final = frozenset(
    {"claimed_sender", "decode", "gist", "glance", "glanced_id", "is_automatic", "progress", "standing", "task_id"}
)

__all__ = [
    "CONTENT_TYPE",
    "COPIES",
    "ERROR_AT",
    "ERROR_REASON",
    "MAX_HEADER_BYTES",
    "NEXT_RETRY_AFTER",
    "NOTIFY",
    "PART_OF",
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
    "body_of",
    "build",
    "claimed_sender",
    "decode",
    "encode_draft",
    "faults",
    "file_name",
    "gist",
    "glance",
    "glanced_id",
    "header_line",
    "headers",
    "is_automatic",
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


def __getattr__(name: str) -> Any:
    if name not in _READING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ackd.formats.ignite import reading  # noqa: PLC0415 - see above

    globals().update({one: getattr(reading, one) for one in _READING})
    return globals()[name]
