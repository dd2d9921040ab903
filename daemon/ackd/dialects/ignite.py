"""The native message: MIME-like header lines, a blank line, a YAML body, all UTF-8.

Owns the header block: which bytes are one, what its fields mean, and how it is changed without touching any other byte.
Refuses to know what a body says, with two exceptions that the engine needs: the ``task_id`` and a progress report; and
where the bytes come from. Pure: bytes in, values out. Fails with ``BadMessage``, whose code is a ``Rejection``.

Strict on purpose. ``email`` reads ``To :``, folded and duplicate headers as something else than what their writer
meant, and takes 20 s for a 10 MB To. Line ends are LF, or CRLF on every header line; anything between is refused, because
a lone CRLF or CR is how a value smuggles in a second header. The YAML parts (yaml_body, bodies, body_shapes) belong to
this dialect.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import BadMessage, BadName
from ackd.core.message import KNOWN_TYPES, MONITOR, Message, Priority, Progress, Rejection, Standing, Status, agent_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ackd.core.message import Draft

MAX_HEADER_BYTES: Final = 65_536
DOMAIN: Final = "ignite.local"

MIME_VERSION: Final = "1.0"
CONTENT_TYPE: Final = "text/x-yaml; charset=utf-8"
TRANSFER_ENCODING: Final = "8bit"

# Headers that ackd sets or changes. The first four are the seed's, the rest are ours.
STATUS: Final = "X-IGNITE-Status"
PROCESSED_AT: Final = "X-IGNITE-Processed-At"
RETRY_COUNT: Final = "X-IGNITE-Retry-Count"
THREAD_ID: Final = "X-IGNITE-Thread-ID"
NEXT_RETRY_AFTER: Final = "X-IGNITE-Next-Retry-After"
ERROR_REASON: Final = "X-IGNITE-Error-Reason"
ERROR_AT: Final = "X-IGNITE-Error-At"
RECIPIENT: Final = "X-IGNITE-Recipient"

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
    *REQUIRED, "Cc", "In-Reply-To", THREAD_ID, "X-IGNITE-Repository", "X-IGNITE-Issue", STATUS, PROCESSED_AT,
    RETRY_COUNT, NEXT_RETRY_AFTER, ERROR_REASON, ERROR_AT, RECIPIENT,
)  # fmt: skip
#: Names as they are usually spelled, so that most lines need neither a pattern nor lower().
_KEYS: Final = {name: name.lower() for name in _KNOWN}
_REQUIRED_KEYS: Final = frozenset(_KEYS[name] for name in REQUIRED)
_PRIORITIES: Final = {priority.value: priority for priority in Priority}
_STATUSES: Final = {status.value: status for status in Status}

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# C0, DEL, C1 and the Unicode line ends: all of them move a cursor or end a line somewhere. TAB is let through in reading.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_UNWRITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# An id may hold a slash (GitHub's do): it is an identity, never a file name.
_ID: Final = re.compile(r"[!#-;=?-\[\]-~]{1,250}")


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

    def to_bytes(self) -> bytes:
        return _joined(self.lines, self.line_end) + self.body


def _bad(code: Rejection, detail: str, line: int | None = None) -> BadMessage:
    return BadMessage(code.value, detail, line)


# --- taking apart -----------------------------------------------------------------------------------------------------
def split(data: bytes) -> RawMessage:
    """Header lines and body of a well-formed message; what the headers say is not judged yet (``faults``)."""
    raw = split_head(data)
    if b"\0" in data:  # RFC 2045: 8bit text has none; blocks of NUL are what a torn write leaves
        raise _bad(Rejection.CONTROL_CHARACTER, "a NUL byte in the body", data.count(b"\n", 0, data.index(b"\0")) + 1)
    _text(data, raw.body_at, len(data))
    return raw


def split_head(data: bytes) -> RawMessage:
    """The same for bytes that may end anywhere in the body: recovery reads header blocks only."""
    line_end = "\n"
    end = data.find(b"\n\n", 0, MAX_HEADER_BYTES + 2)
    if end <= 0 or data.find(b"\r", 0, end) >= 0:
        end, line_end = _find_blank_line(data)
    text = _text(data, 0, end)
    lines = text.split(line_end)
    if "\r" in text:
        _refuse_stray_line_ends(lines)
    if not text.replace("\n", "").isprintable():
        _refuse_control_characters(lines)
    return RawMessage(data, lines, _read_fields(lines), line_end, end + 2 * len(line_end))


def _find_blank_line(data: bytes) -> tuple[int, str]:
    if not data:
        raise _bad(Rejection.EMPTY, "the file is empty")
    first = data.find(b"\n", 0, MAX_HEADER_BYTES)
    line_end = "\r\n" if first > 0 and data[first - 1] == 13 else "\n"
    blank = line_end.encode() * 2
    end = data.find(blank, 0, MAX_HEADER_BYTES + len(blank))
    if end > 0:
        return end, line_end
    if data.startswith((b"\n", b"\r\n")):
        raise _bad(Rejection.MISSING_HEADER, "the file begins with a blank line, so it has no headers", 1)
    if len(data) > MAX_HEADER_BYTES:
        raise _bad(Rejection.HEADER_TOO_LARGE, f"no blank line within {MAX_HEADER_BYTES} bytes")
    if b"\r" in data.replace(b"\r\n", b""):
        raise _bad(Rejection.BARE_CR, "a carriage return that ends no line")
    raise _bad(Rejection.NO_BLANK_LINE, "no blank line after the headers: half-written, or not a message")


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError as error:
        at = start + error.start
        raise _bad(Rejection.NOT_UTF8, f"byte {at} is not UTF-8", data.count(b"\n", 0, at) + 1) from None


def _refuse_stray_line_ends(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if "\n" in line or line.endswith("\r"):
            raise _bad(Rejection.MIXED_LINE_ENDS, "LF and CRLF are mixed among the header lines", number)
        if "\r" in line:
            raise _bad(Rejection.BARE_CR, "a carriage return inside a header line", number)


def _refuse_control_characters(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if found := _CONTROL.search(line):
            raise _bad(Rejection.CONTROL_CHARACTER, f"control character U+{ord(found[0]):04X} in a header", number)


def _read_fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition(":")
        key = _KEYS.get(name) or _unusual_key(name, line, number)
        if key in fields:
            raise _bad(Rejection.DUPLICATE_HEADER, f"a second {name} header", number)
        fields[key] = value.strip(" \t")
    return fields


def _unusual_key(name: str, line: str, number: int) -> str:
    if line.startswith((" ", "\t")):
        raise _bad(Rejection.FOLDED_HEADER, "a folded header line: write each header on one line", number)
    if len(name) == len(line):
        raise _bad(Rejection.BAD_HEADER, f"not a header line: {line[:40]!r}", number)
    if name.endswith((" ", "\t")):
        raise _bad(Rejection.BAD_HEADER, f"a space before the colon of {name.strip()[:40]!r}", number)
    if not _TOKEN.fullmatch(name):
        raise _bad(Rejection.BAD_HEADER, f"not a header name: {name[:40]!r}", number)
    return name.lower()


# --- what the headers say ---------------------------------------------------------------------------------------------
_FORMAT: Final = (MIME_VERSION, CONTENT_TYPE, TRANSFER_ENCODING)
_format_of: Final = operator.itemgetter("mime-version", "content-type", "content-transfer-encoding")


def _plainly_right(fields: dict[str, str]) -> bool:
    """True spares most messages the search for faults, 4 µs; False only means: look closer."""
    return (
        fields.keys() >= _REQUIRED_KEYS
        and _format_of(fields) == _FORMAT
        and fields["x-ignite-type"] in KNOWN_TYPES
        and fields["x-ignite-priority"] in _PRIORITIES
        and fields["date"] != ""
        and _is_name(fields["from"])
        and _is_name(fields["to"])
        and "cc" not in fields
        and _ID.fullmatch(bare_id(fields["message-id"])) is not None
        and ("in-reply-to" not in fields or _ID.fullmatch(bare_id(fields["in-reply-to"])) is not None)
    )


@functools.lru_cache(maxsize=1024)
def _is_name(text: str) -> bool:
    try:
        agent_name(text)
    except BadName:
        return False
    return True


def faults(raw: RawMessage, extra_types: frozenset[str] = frozenset()) -> Iterator[BadMessage]:
    """Everything wrong with the fields of a well-formed message, the worst first."""
    fields = raw.fields
    if not fields.keys() >= _REQUIRED_KEYS:
        missing = [name for name in REQUIRED if _KEYS[name] not in fields]
        for name in missing:
            yield _bad(Rejection.MISSING_HEADER, f"no {name} header")
    yield from _format_faults(raw)
    yield from _meaning_faults(raw, extra_types)
    yield from _address_faults(raw)


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


def _meaning_faults(raw: RawMessage, extra_types: frozenset[str]) -> Iterator[BadMessage]:
    fields = raw.fields
    kind = fields.get("x-ignite-type")
    if kind is not None and kind not in KNOWN_TYPES and kind not in extra_types:
        yield _at(raw, "x-ignite-type", Rejection.UNKNOWN_TYPE, f"unknown type {kind[:64]!r}")
    priority = fields.get("x-ignite-priority")
    if priority is not None and priority not in _PRIORITIES:
        wanted = ", ".join(_PRIORITIES)
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
    return _bad(code, detail, list(raw.fields).index(key) + 1)


def names(value: str) -> list[str]:
    """The agents of a To or Cc value, unchecked."""
    return [name.strip() for name in value.split(",")] if "," in value else [value]


def bare_id(value: str) -> str:
    """An id without its angle brackets."""
    return value[1:-1] if value[:1] == "<" and value[-1:] == ">" else value


# --- reading ----------------------------------------------------------------------------------------------------------
def decode(data: bytes, recipient: str, *, extra_types: frozenset[str] = frozenset()) -> Message:
    """The message that lies in ``recipient``'s directory: the directory is the address, To is only what was meant."""
    raw = split(data)
    fields = raw.fields
    if not _plainly_right(fields):
        for fault in faults(raw, extra_types):
            raise fault
    body = raw.body
    kind = fields["x-ignite-type"]
    return Message(
        message_id=bare_id(fields["message-id"]),
        sender=fields["from"],
        recipient=recipient,
        type=kind,
        priority=_PRIORITIES[fields["x-ignite-priority"]],
        digest=_digest(fields, body),
        thread_id=fields.get("x-ignite-thread-id") or None,
        in_reply_to=bare_id(fields.get("in-reply-to", "")) or None,
        task_id=task_id(body),
        progress=progress(body) if kind == "progress_update" else None,
    )


def headers(data: bytes) -> list[tuple[str, str]]:
    """Names as spelled and values, in order. Needs the header block only."""
    raw = split_head(data)
    return [(line.partition(":")[0], value) for line, value in zip(raw.lines, raw.fields.values(), strict=True)]


def standing(data: bytes) -> Standing:
    """What the file says of its own delivery. Others write these headers too: what makes no sense counts as absent."""
    fields = split_head(data).fields
    return Standing(
        status=_STATUSES.get(fields.get("x-ignite-status", ""), Status.PROCESSING),
        retry_count=_count(fields.get("x-ignite-retry-count", "")),
        next_retry_at=_moment(fields.get("x-ignite-next-retry-after", "")),
        processed_at=_moment(fields.get("x-ignite-processed-at", "")),
    )


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0


_EPOCH: Final = re.compile(r"\d{9,10}(\.\d{1,9})?")
_SANE_YEARS_S: Final = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100


def _moment(text: str) -> float | None:
    """Wall seconds of an ISO 8601 time or a Unix time; a time without a zone is local (DESIGN 9)."""
    if not text:
        return None
    from datetime import datetime  # noqa: PLC0415 - `ackd ack` reads no times

    try:
        wall = float(text) if _EPOCH.fullmatch(text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return wall if _SANE_YEARS_S[0] <= wall < _SANE_YEARS_S[1] else None


def _digest(fields: Mapping[str, str], body: bytes) -> str:
    """What makes two files with one id the same message. Headers that ackd rewrites, To and Date do not count."""
    if fields["from"] == MONITOR:  # derived messages: the id says it all, and writing one twice is harmless
        return hashlib.blake2b(bare_id(fields["message-id"]).encode(), digest_size=12, person=b"derived").hexdigest()
    counted = (
        fields["from"],
        fields["x-ignite-type"],
        fields.get("x-ignite-thread-id", ""),
        bare_id(fields.get("in-reply-to", "")),
    )
    digest = hashlib.blake2b("\0".join(counted).encode(), digest_size=12)
    digest.update(b"\0" + body)
    return digest.hexdigest()


# --- the two things the engine wants from a body ----------------------------------------------------------------------
MAX_TASK_ID: Final = 128
MAX_PROGRESS_BODY: Final = 65_536
MAX_PROGRESS_TEXT: Final = 200
_SCALAR: Final = re.compile(r"""\s*(?:"([^"\\]*)"|'([^']*)'|([^\s"'#&*!|>%@`\[\]{},?-][^#]*?|-[^\s#][^#]*?))\s*(?:\s#.*)?""")


def task_id(body: bytes) -> str | None:
    """The body's top-level ``task_id``, found without parsing YAML: at column 0 it cannot be anything else's."""
    found = _top_level(body, b"task_id:")
    if found is None or found in {"null", "~"} or len(found) > MAX_TASK_ID or not found.isprintable():
        return None
    return found


def _top_level(body: bytes, key: bytes) -> str | None:
    if not body.startswith(key):
        at = body.find(b"\n" + key)
        if at < 0:
            return None
        start = at + 1 + len(key)
    else:
        start = len(key)
    end = body.find(b"\n", start)
    line = body[start : min(end if end >= 0 else len(body), start + 4096)].decode(errors="replace")
    match = _SCALAR.fullmatch(line)
    return next((group for group in match.groups() if group), None) if match else None


def progress(body: bytes) -> Progress:
    """What can be read of a progress report. A bad body is a poor report, never a reason to refuse the message."""
    found = _progress_fields(body)
    return Progress(
        stage=_one_line(found.get("stage")),
        percent=_percent(found.get("percent")),
        message=_one_line(found.get("message")),
        final=found.get("final") in (True, "true", "True", "yes"),
    )


def _progress_fields(body: bytes) -> Mapping[str, object]:
    if len(body) <= MAX_PROGRESS_BODY:
        from ackd.core.errors import BadBody  # noqa: PLC0415
        from ackd.dialects import yaml_body  # noqa: PLC0415 - 10 ms that only progress reports pay

        try:
            loaded = yaml_body.load(body.decode())
        except (BadBody, UnicodeDecodeError):
            pass
        else:
            return loaded if isinstance(loaded, dict) else {}
    return {key: _top_level(body, key.encode() + b":") for key in ("stage", "percent", "message", "final")}


def _percent(value: object) -> int | None:
    if isinstance(value, str):
        text = value.removesuffix("%").strip()
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= 100 else None


def _one_line(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    words = " ".join(str(value).split())
    return _CONTROL.sub("", words)[:MAX_PROGRESS_TEXT] or None


# --- writing ----------------------------------------------------------------------------------------------------------
def rewrite(data: bytes, changes: Sequence[tuple[str, str | None]]) -> bytes:
    """Set headers (where they stand, else after the last) or remove them (None); every other byte stays.

    Judges the form only: a dead letter of a type we no longer know can still be rewritten.
    """
    raw = split_head(data)
    lines = list(raw.lines)
    keys = list(raw.fields)
    for name, value in changes:
        line = None if value is None else header_line(name, value)
        _change(lines, keys, name.lower(), line)
    if not lines:
        raise _bad(Rejection.MISSING_HEADER, "a message must keep at least one header")
    head = _joined(lines, raw.line_end)
    if len(head) > MAX_HEADER_BYTES:
        raise _bad(Rejection.HEADER_TOO_LARGE, f"the headers would be larger than {MAX_HEADER_BYTES} bytes")
    return head + raw.body


def _change(lines: list[str], keys: list[str], key: str, line: str | None) -> None:
    if key not in keys:
        if line is not None:
            lines.append(line)
            keys.append(key)
        return
    at = keys.index(key)
    if line is None:
        del lines[at], keys[at]
    else:
        name = lines[at].partition(":")[0]  # the spelling that is there
        lines[at] = name + line[len(name) :]


def header_line(name: str, value: str) -> str:
    """One header line, or ``BadMessage`` for a name or value that would not come back as the same one header."""
    if not _TOKEN.fullmatch(name):
        raise _bad(Rejection.BAD_HEADER, f"not a header name: {name[:40]!r}")
    if found := _UNWRITABLE.search(value):
        code = Rejection.CONTROL_CHARACTER
        raise _bad(code, f"{name}: a value holds no control characters or line ends, found U+{ord(found[0]):04X}")
    if found := _SURROGATE.search(value):
        raise _bad(Rejection.NOT_UTF8, f"{name}: U+{ord(found[0]):04X} is half a character and cannot be written as UTF-8")
    return f"{name}: {value}" if value else f"{name}:"


def build(
    *,
    message_id: str,
    sender: str,
    to: Sequence[str],
    date: str,
    type: str,  # noqa: A002 - the header's name
    body: str,
    priority: str = "normal",
    cc: Sequence[str] = (),
    in_reply_to: str | None = None,
    thread_id: str | None = None,
    repository: str | None = None,
    issue: str | None = None,
    status: str | None = None,
    extra_types: frozenset[str] = frozenset(),
) -> bytes:
    """A new message in the seed's header order, read back before it is returned. A body gets its last line end."""
    fields = (
        ("MIME-Version", MIME_VERSION),
        ("Message-ID", f"<{bare_id(message_id)}>"),
        ("From", sender),
        ("To", ", ".join(to)),
        ("Cc", ", ".join(cc)),
        ("Date", date),
        ("In-Reply-To", f"<{bare_id(in_reply_to)}>" if in_reply_to else ""),
        ("X-IGNITE-Type", type),
        ("X-IGNITE-Priority", priority),
        (THREAD_ID, thread_id or ""),
        ("X-IGNITE-Repository", repository or ""),
        ("X-IGNITE-Issue", issue or ""),
        (STATUS, status or ""),
        ("Content-Type", CONTENT_TYPE),
        ("Content-Transfer-Encoding", TRANSFER_ENCODING),
    )
    head = _joined([header_line(name, value) for name, value in fields if value or name in REQUIRED], "\n")
    data = head + _body_bytes(body)
    for fault in faults(split(data), extra_types):
        raise BadMessage(fault.code, fault.detail)  # the lines of a message that does not exist yet help nobody
    return data


def encode_draft(draft: Draft, wall: float) -> bytes:
    """The bytes of a message that ackd itself writes."""
    from ackd.dialects import yaml_body  # noqa: PLC0415

    return build(
        message_id=draft.message_id,
        sender=draft.sender,
        to=[draft.recipient],
        date=rfc2822_date(wall),
        type=draft.type,
        body=yaml_body.dump(draft.body),
        priority=draft.priority.value,
        thread_id=draft.thread_id,
        in_reply_to=draft.in_reply_to,
        extra_types=frozenset({draft.type}),
    )


def _joined(lines: Sequence[str], line_end: str) -> bytes:
    return (line_end.join(lines) + 2 * line_end).encode()


def _body_bytes(body: str) -> bytes:
    if found := _SURROGATE.search(body):
        detail = f"the body holds U+{ord(found[0]):04X}, half a character, which cannot be written as UTF-8"
        raise _bad(Rejection.NOT_UTF8, detail, body.count("\n", 0, found.start()) + 1)
    return body.encode() if not body or body.endswith("\n") else body.encode() + b"\n"


# --- ids, names and times as the seed writes them ---------------------------------------------------------------------
def new_message_id(now: float, pid: int, entropy: bytes) -> str:
    """``<epoch.pid.hash@ignite.local>``, brackets included. 48 bits of hash: one process may send thousands a second."""
    unique = hashlib.blake2b(entropy, digest_size=6).hexdigest()
    return f"<{int(now)}.{pid}.{unique}@{DOMAIN}>"


def file_name(type: str, micros: int) -> str:  # noqa: A002
    return f"{type}_{micros:016d}.mime"


def iso_seconds(wall: float) -> str:
    """As ``date -Iseconds`` prints it: local time with its offset."""
    local = time.localtime(wall)
    offset = _offset(local.tm_gmtoff)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{offset[:3]}:{offset[3:]}"


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def rfc2822_date(wall: float) -> str:
    """As the Date header wants it, local. By hand: strftime would translate the names, email.utils costs 20 ms."""
    t = time.localtime(wall)
    day = f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04d}"
    return f"{day} {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} {_offset(t.tm_gmtoff)}"


def _offset(seconds: int) -> str:
    minutes = abs(seconds) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}{minutes % 60:02d}"
