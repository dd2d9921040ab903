"""Reads the bytes of a message into the values that the engine knows.

``decode`` reads a message, with the digest that tells a repeated message from one that copied its id. ``standing``
reads the state of delivery that a file in ``processed/`` claims for itself. From bodies the engine wants ``task_id``
and progress. Bodies are not judged: they never cause a rejection. Fails with ``BadMessage``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadLabels, BadMessage
from ackd.core.message import KNOWN_TYPES, MONITOR, RESERVED_NAMES, Message, Priority, Progress, Standing, Status
from ackd.core.names import identity, is_agent_name
from ackd.core.words import (
    DEADLINE,
    ENDED,
    EXPIRES,
    HAD_BY,
)
from ackd.formats.ignite.fields import MAX_FOREIGN_BYTES, PRIORITIES, bare_id, faults, is_id, names, plainly_right
from ackd.formats.ignite.form import (
    CONTROL,
    COPIES,
    KEYS,
    MAX_HEADER_BYTES,
    NEEDS,
    NOTIFY,
    PART_OF,
    PREFERS,
    ROOT,
    checked_body,
    split,
    split_head,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

MAX_THREAD_ID: Final = 250
_TIMES: Final = frozenset({KEYS[EXPIRES], KEYS[DEADLINE]})
_LABELS: Final = frozenset({KEYS[NEEDS], KEYS[PREFERS]})
_STATUSES: Final = {status.value: status for status in Status}


def decode(data: bytes, recipient: str, *, extra_types: Container[str] = frozenset()) -> Message:
    """Read the message that lies in ``recipient``'s directory. The directory decides who gets it; To is only what its
    sender meant."""
    return _usual(data, recipient) or _line_by_line(data, recipient, extra_types)


def _usual(data: bytes, recipient: str) -> Message | None:
    """Read a message of the usual form; None if it has another form, in which it may be right all the same."""
    head = _USUAL.match(data)
    if head is None or head.end() > MAX_FOREIGN_BYTES:
        return None
    words = [word.decode() for word in head.groups(b"")]
    message_id, sender, to, in_reply_to, auto, kind, priority, thread_id, *family = words
    if kind not in KNOWN_TYPES or sender in RESERVED_NAMES or to in RESERVED_NAMES:
        return None
    body = checked_body(data, head.end())
    return _message(message_id, sender, recipient, kind, priority, thread_id, in_reply_to, auto, family, body)


def _line_by_line(data: bytes, recipient: str, extra_types: Container[str]) -> Message:
    raw = split(data)
    fields = raw.fields
    if not plainly_right(raw):
        for fault in faults(raw, extra_types):
            raise fault
    message = _message(
        bare_id(fields["message-id"]),
        fields["from"],
        recipient,
        fields["x-ignite-type"],
        fields["x-ignite-priority"],
        fields.get("x-ignite-thread-id", ""),
        bare_id(fields.get("in-reply-to", "")),
        fields.get("auto-submitted", ""),
        [fields.get(KEYS[name], "") for name in (PART_OF, ROOT, NOTIFY)],
        raw.body,
    )
    others = _others(fields, recipient)
    if others:
        message = replace(message, others=others)
    if fields.keys() & _LABELS:
        message = _with_labels(message, fields)
    return _with_times(message, fields) if fields.keys() & _TIMES else message


def _with_labels(message: Message, fields: Mapping[str, str]) -> Message:
    """Add the labels by which its sender wants a member of a pool. Those that make no sense are left out, and said."""
    from ackd.core.labels import labels_of  # noqa: PLC0415 - few messages have any

    found: dict[str, frozenset[str]] = {}
    doubts: list[str] = []
    for name in (NEEDS, PREFERS):
        text = fields.get(KEYS[name], "")
        try:
            found[name] = frozenset(labels_of(text)) if text.strip() else frozenset()
        except BadLabels as bad:
            found[name] = frozenset()
            doubts.append(f"{name} is ignored: {bad}")
    return replace(message, needs=found[NEEDS], prefers=found[PREFERS], doubts="; ".join(doubts))


def _with_times(message: Message, fields: Mapping[str, str]) -> Message:
    """Add the times that its sender gave it. One that makes no sense is left out, and said: the message goes on."""
    from ackd.formats import utc_times  # noqa: PLC0415 - few messages have such a time

    times: list[float | None] = []
    doubts: list[str] = []
    for name in (EXPIRES, DEADLINE):
        text = fields.get(KEYS[name])
        at = utc_times.read(text) if text else None
        if text and (at is None or not _SANE_YEARS_S[0] <= at < _SANE_YEARS_S[1]):
            doubts.append(f"{name} is no time of RFC 3339 (2026-11-19T02:00:00Z): {text[:64]!r} is ignored")
            at = None
        times.append(at)
    said = "; ".join((*filter(None, (message.doubts,)), *doubts))
    return replace(message, expires_at=times[0], deadline_at=times[1], doubts=said)


def _others(fields: Mapping[str, str], recipient: str) -> tuple[str, ...]:
    """Return the other recipients that it names, unless it says that they have it: each once, in whatever spelling."""
    if "cc" not in fields and "," not in fields["to"]:
        return ()  # nearly always the case
    if KEYS[COPIES] in fields:
        return ()
    named = [*names(fields["to"]), *(names(fields["cc"]) if fields.get("cc") else ())]
    others = {identity(name): name for name in reversed(named) if identity(name) != identity(recipient)}
    return tuple(reversed(others.values()))


def gist(data: bytes) -> tuple[str, str, bytes] | None:
    """Return From, type and body, which are equal in two files with the same content. None for a file that is no
    message."""
    try:
        raw = split(data)
    except BadMessage:
        return None
    return raw.fields.get("from", ""), raw.fields.get("x-ignite-type", ""), raw.body.rstrip()


#: The headers as ackd itself writes them (writing.build) to one recipient; only words that must be known ones are left
#: to be checked. One pass instead of a look at each line takes half the time, and the pattern cannot backtrack. A
#: message that does not match is read line by line, with the same result or a reason.
_ID: Final = rb"[!#-;=?-\[\]-~]{1,250}+"
_NAME: Final = rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}+"
_VALUE: Final = rb"[!-~]++(?: ++[!-~]++)*+"
_USUAL: Final = re.compile(
    rb"MIME-Version: 1\.0\nMessage-ID: <(%(id)s)>\nFrom: (%(name)s)\nTo: (%(name)s)\nDate: %(value)s\n"
    rb"(?:In-Reply-To: <(%(id)s)>\n)?+(?:Auto-Submitted: (auto-[a-z]++)\n)?+"
    rb"X-IGNITE-Type: ([a-z_]++)\nX-IGNITE-Priority: (critical|high|normal|low)\n"
    rb"(?:X-IGNITE-Thread-ID: (%(value)s)\n)?+(?:X-IGNITE-Repository: %(value)s\n)?+(?:X-IGNITE-Issue: %(value)s\n)?+"
    rb"(?:X-ACKD-Part-Of: <(%(id)s)>\n)?+(?:X-ACKD-Root: <(%(id)s)>\n)?+(?:X-ACKD-Notify-When-Done: (yes|no)\n)?+"
    rb"Content-Type: text/x-yaml; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"
    % {b"id": _ID, b"name": _NAME, b"value": _VALUE}
)


def _message(
    message_id: str,
    sender: str,
    recipient: str,
    kind: str,
    priority: str,
    thread_id: str,
    in_reply_to: str,
    auto: str,
    family: Sequence[str],
    body: bytes,
) -> Message:
    part_of, root, notify = family
    return Message(
        message_id,
        sender,
        recipient,
        kind,
        PRIORITIES[priority],
        _digest(message_id, sender, kind, thread_id, in_reply_to, body),
        _thread(thread_id) if thread_id else None,
        in_reply_to or None,
        task_id(body) if b"task_id:" in body else None,
        progress(body) if kind == "progress_update" else None,
        _word(body, b"overall_status:") if kind == "evaluation_result" else None,
        is_automatic(auto) if auto else False,
        (),
        _id_of_another(part_of) if part_of else None,
        _id_of_another(root) if root else None,
        _NOTIFY.get(notify.lower()) if notify else None,
    )


_NOTIFY: Final = {"yes": True, "no": False}


def _id_of_another(value: str) -> str | None:
    """Read the id of a message that this one came of. Others write these headers too: what can be no id is absent."""
    found = bare_id(value)
    return found if is_id(found) else None


def is_automatic(auto: str) -> bool:
    """Judge an Auto-Submitted value (RFC 3834): a word, and perhaps parameters. ``no`` stands in mail of persons."""
    return auto.partition(";")[0].strip().lower() != "no"


def _thread(value: str) -> str:
    # The value is copied into messages of our own, so it must be writable: one line, no TAB, of a sane length.
    return value.replace("\t", " ")[:MAX_THREAD_ID]


def standing(data: bytes) -> Standing:
    """Read what the file says of its own delivery. Others write these headers too: values that make no sense count as
    absent."""
    from ackd.core.headers import idle_of  # noqa: PLC0415 - only the daemon asks

    fields = split_head(data).fields
    return Standing(
        status=_STATUSES.get(fields.get("x-ignite-status", ""), Status.PROCESSING),
        retry_count=_count(fields.get("x-ignite-retry-count", "")),
        next_retry_at=_moment(fields.get("x-ignite-next-retry-after", "")),
        processed_at=_moment(fields.get("x-ignite-processed-at", "")),
        seen=fields.get("x-ignite-seen") == "yes",
        idled=idle_of(fields.get("x-ignite-idle", "")),
        error=fields.get("x-ignite-error-reason") or None,
        cancelled=fields.get(KEYS[ENDED]) == "cancelled",
        had_by=tuple(filter(is_agent_name, fields.get(KEYS[HAD_BY], "").split(", "))),
    )


def glance(head: bytes) -> tuple[Priority, bool]:
    """Return what decides how soon a waiting file must be read: its priority, and whether it answers something.

    Much cheaper than reading, and wrong only towards sooner: a file that is not clearly an ordinary message counts as
    an answer.
    """
    usual = _USUAL_HEAD.match(head)
    if usual is not None and (priority := _PRIORITY_BYTES.get(usual[1])) is not None:
        return priority, False
    words = b"\n" + head.lower()
    if b"\n\n" not in words and b"\r\n\r\n" not in words:
        return Priority.NORMAL, True
    value = words.partition(_PRIORITY)[2].partition(b"\n")[0].strip()
    return _PRIORITY_BYTES.get(value, Priority.NORMAL), _REPLY in words


def glanced_id(head: bytes) -> bytes | None:
    """Return the bare id that a waiting file seems to have. Like ``glance`` this is quick, and may find an id where
    there is none, but does not miss one."""
    found = _ID_LINE.search(head)
    return found[1] if found is not None else None


def claimed_sender(data: bytes) -> str | None:
    """Return the sender that a file which is no message seems to have: its one From line, if that holds a name."""
    head = re.split(rb"\r?\n\r?\n", data[:MAX_HEADER_BYTES], maxsplit=1)[0]
    found = re.findall(rb"^from:([^\n]*)", head, re.IGNORECASE | re.MULTILINE)
    name = found[0].strip(b" \t\r").decode(errors="replace") if len(found) == 1 else ""
    return name if is_agent_name(name) else None


_ID_LINE: Final = re.compile(rb"^message-id:[ \t]*<?([^>\s]+)", re.IGNORECASE | re.MULTILINE)
#: A priority as it is mostly spelled, a blank line, and before it no line that could be In-Reply-To in any spelling.
#: One pass takes half as long as looking for each, and the pattern cannot backtrack, whatever somebody wrote.
_USUAL_HEAD: Final = re.compile(
    rb"(?>(?:[^Ii\n].*+\n)*?X-IGNITE-Priority: ([a-z]++)\n)"
    rb"(?:[^Ii\n].*+\n)*+\n"
)  # fmt: skip
_PRIORITY_BYTES: Final = {word.encode(): priority for word, priority in PRIORITIES.items()}
_PRIORITY: Final = b"\nx-ignite-priority:"
_REPLY: Final = b"\nin-reply-to:"


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0


_EPOCH: Final = re.compile(r"\d{9,10}(\.\d{1,9})?")
_SANE_YEARS_S: Final = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100


def _moment(text: str) -> float | None:
    """Wall seconds of an ISO 8601 time or a Unix time; a time without a zone is taken for local."""
    if not text:
        return None
    from datetime import datetime  # noqa: PLC0415 - `ackd ack` reads no times

    try:
        wall = float(text) if _EPOCH.fullmatch(text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return wall if _SANE_YEARS_S[0] <= wall < _SANE_YEARS_S[1] else None


def _digest(message_id: str, sender: str, kind: str, thread_id: str, in_reply_to: str, body: bytes) -> str:
    """Return the digest by which two files with one id are the same message. Headers that ackd rewrites, To and Date do
    not count."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and only the daemon asks for digests

    if sender == MONITOR:  # derived messages: the id determines them, and writing one twice is harmless
        return hashlib.blake2b(message_id.encode(), digest_size=12, person=b"derived").hexdigest()
    digest = hashlib.blake2b(f"{sender}\0{kind}\0{thread_id}\0{in_reply_to}\0".encode(), digest_size=12)
    digest.update(body)
    return digest.hexdigest()


# --- the two things the engine wants from a body ----------------------------------------------------------------------
MAX_TASK_ID: Final = 128
MAX_PROGRESS_BODY: Final = 65_536
MAX_PROGRESS_TEXT: Final = 200
#: Characters that begin a comment, anchor, alias, tag, block or flow collection in YAML, and no text.
_INDICATORS: Final = frozenset("#&*!|>%@`[]{},")


def task_id(body: bytes) -> str | None:
    """The body's top-level ``task_id``, found without parsing YAML: a key at column 0 is always at the top level."""
    return _word(body, b"task_id:")


def _word(body: bytes, key: bytes) -> str | None:
    found = _top_level(body, key)
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
    return _scalar(line.strip()) or None


def _scalar(text: str) -> str | None:
    """A plain or quoted YAML scalar on one line; None for any other form."""
    quote = text[:1]
    if quote in {'"', "'"}:
        inner, closed, rest = text[1:].partition(quote)
        whole = closed and "\\" not in inner and (not rest.strip() or rest.lstrip().startswith("#"))
        return inner if whole else None
    plain = text.partition(" #")[0].rstrip()
    return None if quote in _INDICATORS or plain.startswith(("- ", "? ")) else plain


def progress(body: bytes) -> Progress:
    """Read a progress report as far as possible. A bad body is a poor report, never a reason to refuse the message."""
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
        from ackd.formats import yaml_body  # noqa: PLC0415 - 10 ms that only progress reports pay

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
    return re.sub(CONTROL, "", words)[:MAX_PROGRESS_TEXT] or None
