"""The form of a message file: which bytes are header lines, which are body.

A message is taken apart so that it can be put together byte for byte. The meaning of headers is in ``fields``. Fails
with ``BadMessage``.

Parsing is strict on purpose. Python's ``email`` reads ``To :``, folded and duplicate headers as something else than
what their writer meant, and takes 20 s for a 10 MB To. Line ends are LF, or CRLF on every header line; a mixture is
refused, because a lone CRLF or CR is how a value smuggles in a second header.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from ackd.core.errors import BadMessage
from ackd.core.words import (
    DEADLINE,
    ENDED,
    ERROR_AT,
    ERROR_REASON,
    EXPIRES,
    HAD_BY,
    NEXT_RETRY_AFTER,
    PROCESSED_AT,
    RECIPIENT,
    RETRY_COUNT,
    STATUS,
    Rejection,
)

MAX_HEADER_BYTES: Final = 65_536
#: The part of these that is kept free for headers that ackd adds: an accepted message can always be given its status.
RESERVED_BYTES: Final = 16_384

MIME_VERSION: Final = "1.0"
CONTENT_TYPE: Final = "text/x-yaml; charset=utf-8"
TRANSFER_ENCODING: Final = "8bit"

# The headers that tell of a message's delivery are named in core.words.
THREAD_ID: Final = "X-IGNITE-Thread-ID"
#: The header of RFC 3834: no person or agent wrote the message. ``no`` means the same as its absence.
AUTO_SUBMITTED: Final = "Auto-Submitted"
#: A header of ours: everyone named in To and Cc has a file of the message. `ackd send` sets it, and the daemon sets it
#: on messages that it copied.
COPIES: Final = "X-ACKD-Copies"
#: Headers of ours for messages that came of another: the message for which the sender sent this one, and the first one
#: of all. A sender that wants to be told once when all parts have ended says ``yes``; ``no`` if it does not.
PART_OF: Final = "X-ACKD-Part-Of"
ROOT: Final = "X-ACKD-Root"
NOTIFY: Final = "X-ACKD-Notify-When-Done"

#: Headers of ours for messages to a pool: labels that a member must have, and labels that make it the better choice.
NEEDS: Final = "X-ACKD-Needs"
PREFERS: Final = "X-ACKD-Prefers"

#: The seed's "Required: Yes", in its order.
REQUIRED: Final = (
    "MIME-Version",
    "Message-ID",
    "From",
    "To",
    "Date",
    "X-IGNITE-Type",
    "X-IGNITE-Priority",
    "Content-Type",
    "Content-Transfer-Encoding",
)
_KNOWN: Final = (
    *REQUIRED, "Cc", "In-Reply-To", AUTO_SUBMITTED, COPIES, THREAD_ID, "X-IGNITE-Repository", "X-IGNITE-Issue", STATUS,
    PROCESSED_AT, RETRY_COUNT, NEXT_RETRY_AFTER, ERROR_REASON, ERROR_AT, RECIPIENT, PART_OF, ROOT, NOTIFY,
    EXPIRES, DEADLINE, ENDED, NEEDS, PREFERS, HAD_BY,
)  # fmt: skip
#: Names as they are usually spelled, so that most lines need neither a pattern nor lower().
KEYS: Final = {name: name.lower() for name in _KNOWN}

# Patterns as text: re compiles and keeps them when they are first used, and plain messages never need them.
HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# C0, DEL, C1 and the Unicode line ends: all of them move a cursor or end a line somewhere. Reading lets TAB through.
CONTROL: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]"


class RawMessage(NamedTuple):
    """A message taken apart so that it can be put together byte for byte. ``fields``: lower-case name → value."""

    data: bytes
    lines: list[str]
    fields: dict[str, str]
    line_end: str
    body_at: int

    @property
    def body(self) -> bytes:
        return self.data[self.body_at :]

    @property
    def body_line(self) -> int:
        """The line of the file on which the body begins, counted from 1."""
        return len(self.lines) + 2


def bad(code: Rejection, detail: str, line: int | None = None) -> BadMessage:
    return BadMessage(code.value, detail, line)


def joined(lines: Sequence[str], line_end: str) -> bytes:
    return (line_end.join(lines) + 2 * line_end).encode()


# --- taking apart -----------------------------------------------------------------------------------------------------
def split(data: bytes) -> RawMessage:
    """Header lines and body of a well-formed message; what the headers say is not judged yet (``faults``)."""
    raw = split_head(data)
    checked_body(data, raw.body_at)
    return raw


def checked_body(data: bytes, body_at: int) -> bytes:
    """The body of a message whose headers are well-formed: text, and nothing else."""
    if b"\0" in data:  # RFC 2045: 8bit text has no NUL; a torn write leaves blocks of them
        raise bad(Rejection.CONTROL_CHARACTER, "a NUL byte in the body", data.count(b"\n", 0, data.index(b"\0")) + 1)
    _text(data, body_at, len(data))
    return data[body_at:]


def split_head(data: bytes) -> RawMessage:
    """Like ``split``, for bytes that may end anywhere in the body: recovery reads header blocks only."""
    end, line_end = _end_of_head(data)
    text = _text(data, 0, end)
    lines = text.split(line_end)
    if "\r" in text:
        _refuse_stray_line_ends(lines)
    if not text.replace("\n", "").isprintable():
        _refuse_control_characters(lines)
    return RawMessage(data, lines, _read_fields(lines), line_end, end + 2 * len(line_end))


def body_of(data: bytes) -> str:
    """Return the body of a message that was split before and found well-formed: a sixth of the cost of splitting it
    again."""
    end, line_end = _end_of_head(data)
    return data[end + 2 * len(line_end) :].decode()


def headers(data: bytes) -> list[tuple[str, str]]:
    """Names as spelled and values, in order. Needs the header block only."""
    raw = split_head(data)
    return [(line.partition(":")[0], value) for line, value in zip(raw.lines, raw.fields.values(), strict=True)]


def _end_of_head(data: bytes) -> tuple[int, str]:
    end = data.find(b"\n\n", 0, MAX_HEADER_BYTES + 2)
    if end <= 0 or data.find(b"\r", 0, end) >= 0:
        return _find_blank_line(data)
    return end, "\n"


def _find_blank_line(data: bytes) -> tuple[int, str]:
    if not data:
        raise bad(Rejection.EMPTY, "the file is empty")
    first = data.find(b"\n", 0, MAX_HEADER_BYTES)
    line_end = "\r\n" if first > 0 and data[first - 1] == 13 else "\n"
    blank = line_end.encode() * 2
    end = data.find(blank, 0, MAX_HEADER_BYTES + len(blank))
    if end > 0:
        return end, line_end
    if end == 0:
        raise bad(Rejection.MISSING_HEADER, "the file begins with blank lines, so it has no headers", 1)
    if len(data) > MAX_HEADER_BYTES:
        raise bad(Rejection.HEADER_TOO_LARGE, f"no blank line within {MAX_HEADER_BYTES} bytes")
    if b"\r" in data.replace(b"\r\n", b""):
        raise bad(Rejection.BARE_CR, "a carriage return that ends no line")
    raise bad(Rejection.NO_BLANK_LINE, "no blank line after the headers: half-written, or not a message")


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError as error:
        at = start + error.start
        raise bad(Rejection.NOT_UTF8, f"byte {at} is not UTF-8", data.count(b"\n", 0, at) + 1) from None


def _refuse_stray_line_ends(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if "\n" in line or line.endswith("\r"):
            raise bad(Rejection.MIXED_LINE_ENDS, "LF and CRLF are mixed among the header lines", number)
        if "\r" in line:
            raise bad(Rejection.BARE_CR, "a carriage return inside a header line", number)


def _refuse_control_characters(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if found := re.search(CONTROL, line):
            raise bad(Rejection.CONTROL_CHARACTER, f"control character U+{ord(found[0]):04X} in a header", number)


def _read_fields(lines: list[str]) -> dict[str, str]:
    parts = [line.partition(":") for line in lines]
    fields = {KEYS.get(name): value.strip(" \t") for name, _, value in parts}
    if len(fields) == len(lines) and None not in fields:  # nearly always: all as usually spelled, none twice
        return cast("dict[str, str]", fields)
    return _read_unusual_fields(lines)


def _read_unusual_fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition(":")
        key = KEYS.get(name) or _unusual_key(name, line, number)
        if key in fields:
            raise bad(Rejection.DUPLICATE_HEADER, f"a second {name} header", number)
        fields[key] = value.strip(" \t")
    return fields


def _unusual_key(name: str, line: str, number: int) -> str:
    if line.startswith((" ", "\t")):
        raise bad(Rejection.FOLDED_HEADER, "a folded header line: write each header on one line", number)
    if not line:  # only the first line can be empty: a later one would have ended the header block
        raise bad(Rejection.MISSING_HEADER, "the file begins with a blank line, so it has no headers", number)
    if len(name) == len(line):
        raise bad(Rejection.BAD_HEADER, f"not a header line: {line[:40]!r}", number)
    if name.endswith((" ", "\t")):
        raise bad(Rejection.BAD_HEADER, f"a space before the colon of {name.strip()[:40]!r}", number)
    if not re.fullmatch(HEADER_NAME, name):
        raise bad(Rejection.BAD_HEADER, f"not a header name: {name[:40]!r}", number)
    return name.lower()
