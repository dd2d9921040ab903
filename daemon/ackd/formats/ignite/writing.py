"""Messages as ackd writes them: new ones, and old ones with a header changed.

No value can become more than its one header; headers have the seed's order, and ids, names and times the seed's form.
Fails with ``BadMessage``, and then nothing was made.
"""

from __future__ import annotations

import functools
import re
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage
from ackd.core.words import (
    DEADLINE,
    EXPIRES,
    STATUS,
    Rejection,
)
from ackd.formats.ignite.fields import bare_id, faults, plainly_right
from ackd.formats.ignite.form import (
    AUTO_SUBMITTED,
    CONTENT_TYPE,
    COPIES,
    HEADER_NAME,
    KEYS,
    MAX_HEADER_BYTES,
    MIME_VERSION,
    NEEDS,
    NOTIFY,
    PART_OF,
    PREFERS,
    REQUIRED,
    ROOT,
    THREAD_ID,
    TRANSFER_ENCODING,
    bad,
    joined,
    split,
    split_head,
)

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from ackd.core.message import Draft

DOMAIN: Final = "ignite.local"
_UNWRITABLE: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"
_SURROGATE: Final = "[\ud800-\udfff]"


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
        raise bad(Rejection.MISSING_HEADER, "a message must keep at least one header")
    head = joined(lines, raw.line_end)
    if len(head) > MAX_HEADER_BYTES:
        raise bad(Rejection.HEADER_TOO_LARGE, f"the headers would be larger than {MAX_HEADER_BYTES} bytes")
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
    """Return a header line, or ``BadMessage`` for a name or value that would not come back as the same one header."""
    if name not in KEYS and not re.fullmatch(HEADER_NAME, name):
        raise bad(Rejection.BAD_HEADER, f"not a header name: {name[:40]!r}")
    if not value.isprintable():
        _refuse_unwritable(name, value)
    return f"{name}: {value}" if value else f"{name}:"


def _refuse_unwritable(name: str, value: str) -> None:
    if found := re.search(_UNWRITABLE, value):
        code = Rejection.CONTROL_CHARACTER
        raise bad(code, f"{name}: a value holds no control characters or line ends, found U+{ord(found[0]):04X}")
    if found := re.search(_SURROGATE, value):
        raise bad(Rejection.NOT_UTF8, f"{name}: U+{ord(found[0]):04X} is half a character and no UTF-8")


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
    auto: str | None = None,
    copies: str | None = None,
    part_of: str | None = None,
    root: str | None = None,
    notify: str | None = None,
    expires: str | None = None,
    deadline: str | None = None,
    needs: str | None = None,
    prefers: str | None = None,
    extra_types: Container[str] = frozenset(),
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
        (AUTO_SUBMITTED, auto or ""),
        ("X-IGNITE-Type", type),
        ("X-IGNITE-Priority", priority),
        (THREAD_ID, thread_id or ""),
        ("X-IGNITE-Repository", repository or ""),
        ("X-IGNITE-Issue", issue or ""),
        (PART_OF, f"<{bare_id(part_of)}>" if part_of else ""),
        (ROOT, f"<{bare_id(root)}>" if root else ""),
        (NOTIFY, notify or ""),
        (STATUS, status or ""),
        (COPIES, copies or ""),
        (EXPIRES, expires or ""),
        (DEADLINE, deadline or ""),
        (NEEDS, needs or ""),
        (PREFERS, prefers or ""),
        ("Content-Type", CONTENT_TYPE),
        ("Content-Transfer-Encoding", TRANSFER_ENCODING),
    )
    lines = [header_line(name, value) for name, value in fields if value or name in REQUIRED]
    data = joined(lines, "\n") + _body_bytes(body)
    raw = split(data)
    if not plainly_right(raw):
        for fault in faults(raw, extra_types):
            raise BadMessage(fault.code, fault.detail)  # without line numbers: there is no file to look at yet
    return data


def encode_draft(draft: Draft, wall: float) -> bytes:
    """The bytes of a message that ackd itself writes."""
    from ackd.formats import yaml_body  # noqa: PLC0415

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
        auto=draft.auto,
        extra_types=frozenset({draft.type}),
    )


def _body_bytes(body: str) -> bytes:
    try:
        data = body.encode()
    except UnicodeEncodeError as error:
        detail = f"the body holds U+{ord(body[error.start]):04X}, half a character, which cannot be written as UTF-8"
        raise bad(Rejection.NOT_UTF8, detail, body.count("\n", 0, error.start) + 1) from None
    return data if not data or data.endswith(b"\n") else data + b"\n"


# --- ids, names and times as the seed writes them ---------------------------------------------------------------------
def new_message_id(now: float, pid: int, entropy: bytes) -> str:
    """``<epoch.pid.hash@ignite.local>``, brackets included. 48 random bits: a process may send thousands a second."""
    return f"<{int(now)}.{pid}.{entropy[:6].hex()}@{DOMAIN}>"


def file_name(type: str, micros: int) -> str:  # noqa: A002
    return f"{type}_{micros:016d}.mime"


def iso_seconds(wall: float) -> str:
    """Return local time with its offset, as ``date -Iseconds`` prints it."""
    local = time.localtime(wall)
    offset = _offset(local.tm_gmtoff)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{offset[:3]}:{offset[3:]}"


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def rfc2822_date(wall: float) -> str:
    """Return local time for the Date header. Made by hand: strftime would translate the names, email.utils costs 20
    ms."""
    return _date_of(int(wall // 1), time.timezone, time.altzone)


@functools.lru_cache(maxsize=1)  # a busy sender sends many a second, and localtime looks at the zone's file each time
def _date_of(second: int, _west_s: int, _west_in_summer_s: int) -> str:
    t = time.localtime(second)
    day = f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04d}"
    return f"{day} {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} {_offset(t.tm_gmtoff)}"


def _offset(seconds: int) -> str:
    minutes = abs(seconds) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}{minutes % 60:02d}"
