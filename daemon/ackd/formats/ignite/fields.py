"""The meaning of a message's headers, and everything that can be wrong with them.

These are the rules of the seed's header tables: required headers, types, priorities, ids, names, the one content type.
Bytes (form) and bodies are not looked at. ``faults`` never raises: it yields ``BadMessage`` values, the worst first.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage, BadName
from ackd.core.names import agent_name, is_agent_name
from ackd.core.words import (
    ENDED,
    ERROR_AT,
    ERROR_REASON,
    KNOWN_TYPES,
    NEXT_RETRY_AFTER,
    PROCESSED_AT,
    RECIPIENT,
    RETRY_COUNT,
    STATUS,
    Priority,
    Rejection,
)
from ackd.formats.ignite.form import (
    CONTENT_TYPE,
    KEYS,
    MAX_HEADER_BYTES,
    MIME_VERSION,
    REQUIRED,
    RESERVED_BYTES,
    TRANSFER_ENCODING,
    RawMessage,
    bad,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

REQUIRED_KEYS: Final = frozenset(KEYS[name] for name in REQUIRED)
PRIORITIES: Final = {priority.value: priority for priority in Priority}
# An id may hold a slash (GitHub's do): it is an identity, never a file name.
_ID: Final = re.compile(r"[!#-;=?-\[\]-~]{1,250}")
_FORMAT: Final = (MIME_VERSION, CONTENT_TYPE, TRANSFER_ENCODING)
MAX_FOREIGN_BYTES: Final = MAX_HEADER_BYTES - RESERVED_BYTES
_OURS: Final = frozenset({"x-ignite-seen", "x-ignite-idle"}).union(
    KEYS[name]
    for name in (STATUS, PROCESSED_AT, RETRY_COUNT, NEXT_RETRY_AFTER, ERROR_REASON, ERROR_AT, RECIPIENT, ENDED)
)
_format_of: Final = operator.itemgetter("mime-version", "content-type", "content-transfer-encoding")


def plainly_right(raw: RawMessage) -> bool:
    """Return True if the headers are right, which saves most messages the search for faults (4 µs). False only means
    that they must be looked at more closely."""
    fields = raw.fields
    return (
        raw.body_at <= MAX_FOREIGN_BYTES
        and fields.keys() >= REQUIRED_KEYS
        and _format_of(fields) == _FORMAT
        and fields["x-ignite-type"] in KNOWN_TYPES
        and fields["x-ignite-priority"] in PRIORITIES
        and fields["date"] != ""
        and is_agent_name(fields["from"])
        and is_agent_name(fields["to"])
        and "cc" not in fields
        and _ID.fullmatch(bare_id(fields["message-id"])) is not None
        and ("in-reply-to" not in fields or _ID.fullmatch(bare_id(fields["in-reply-to"])) is not None)
    )


def faults(raw: RawMessage, extra_types: Container[str] = frozenset()) -> Iterator[BadMessage]:
    """Everything wrong with the fields of a well-formed message, the worst first."""
    fields = raw.fields
    if not fields.keys() >= REQUIRED_KEYS:
        missing = [name for name in REQUIRED if KEYS[name] not in fields]
        for name in missing:
            yield bad(Rejection.MISSING_HEADER, f"no {name} header")
    yield from _size_faults(raw)
    yield from _format_faults(raw)
    yield from _meaning_faults(raw, extra_types)
    yield from _address_faults(raw)


def _size_faults(raw: RawMessage) -> Iterator[BadMessage]:
    if raw.body_at > MAX_FOREIGN_BYTES:
        foreign = [line for key, line in zip(raw.fields, raw.lines, strict=True) if key not in _OURS]
        if len("\n".join(foreign).encode()) > MAX_FOREIGN_BYTES:
            yield bad(Rejection.HEADER_TOO_LARGE, f"the headers are larger than {MAX_FOREIGN_BYTES} bytes")


def _format_faults(raw: RawMessage) -> Iterator[BadMessage]:
    fields = raw.fields
    if fields.get("mime-version", MIME_VERSION) != MIME_VERSION:
        yield _at(raw, "mime-version", Rejection.BAD_CONTENT_TYPE, f"MIME-Version must be {MIME_VERSION}")
    content_type = fields.get("content-type", CONTENT_TYPE)
    if content_type != CONTENT_TYPE and _squeezed(content_type) != _squeezed(CONTENT_TYPE):
        yield _at(raw, "content-type", Rejection.BAD_CONTENT_TYPE, f"Content-Type must be {CONTENT_TYPE}")
    if fields.get("content-transfer-encoding", TRANSFER_ENCODING).lower() != TRANSFER_ENCODING:
        key = "content-transfer-encoding"
        yield _at(raw, key, Rejection.BAD_CONTENT_TYPE, f"Content-Transfer-Encoding must be {TRANSFER_ENCODING}")


def _squeezed(content_type: str) -> str:
    return content_type.replace(" ", "").replace('"', "").lower()


def _meaning_faults(raw: RawMessage, extra_types: Container[str]) -> Iterator[BadMessage]:
    fields = raw.fields
    kind = fields.get("x-ignite-type")
    if kind is not None and kind not in KNOWN_TYPES and kind not in extra_types:
        yield _at(raw, "x-ignite-type", Rejection.UNKNOWN_TYPE, f"unknown type {kind[:64]!r}")
    priority = fields.get("x-ignite-priority")
    if priority is not None and priority not in PRIORITIES:
        wanted = ", ".join(PRIORITIES)
        yield _at(raw, "x-ignite-priority", Rejection.UNKNOWN_PRIORITY, f"unknown priority {priority[:64]!r}: {wanted}")
    if fields.get("date") == "":
        yield _at(raw, "date", Rejection.BAD_HEADER, "Date is empty")
    for key in ("message-id", "in-reply-to"):
        value = fields.get(key)
        # An empty In-Reply-To is what a template leaves behind; an empty Message-ID is no identity.
        if value is not None and (value or key == "message-id") and not _ID.fullmatch(bare_id(value)):
            yield _at(raw, key, Rejection.BAD_ID, f"not a message id: {value[:64]!r}")


def _address_faults(raw: RawMessage) -> Iterator[BadMessage]:
    for key, several in (("from", False), ("to", True), ("cc", True)):
        value = raw.fields.get(key)
        if value is None or (key == "cc" and not value):
            continue
        for name in names(value) if several else [value]:
            try:
                agent_name(name)
            except BadName as error:
                detail = str(BadName(name[:64], error.why))
                yield _at(raw, key, Rejection.BAD_NAME, f"{key.capitalize()}: {detail}")
                break


def _at(raw: RawMessage, key: str, code: Rejection, detail: str) -> BadMessage:
    # Every header before it takes one line, and a dict keeps their order.
    return bad(code, detail, list(raw.fields).index(key) + 1)


def names(value: str) -> list[str]:
    """The agents of a To or Cc value, unchecked."""
    return [name.strip() for name in value.split(",")] if "," in value else [value]


def is_id(value: str) -> bool:
    """Return whether this can be a message's id, without brackets."""
    return _ID.fullmatch(value) is not None


def bare_id(value: str) -> str:
    """An id without its angle brackets."""
    return value[1:-1] if value[:1] == "<" and value[-1:] == ">" else value
