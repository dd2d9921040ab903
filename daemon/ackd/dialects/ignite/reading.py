"""From the bytes of a message to the values the engine knows.

Owns ``decode`` and what is read on the way: the digest that tells a repeated message from a copied id, the standing
that a file in ``processed/`` claims for itself, and what the engine wants from a body: ``task_id`` and progress.
Refuses to judge bodies: they never cause a rejection. Fails with ``BadMessage``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ackd.core.message import MONITOR, Message, Priority, Progress, Standing, Status
from ackd.dialects.ignite.fields import PRIORITIES, bare_id, faults, plainly_right
from ackd.dialects.ignite.form import CONTROL, split, split_head

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_THREAD_ID: Final = 250
_STATUSES: Final = {status.value: status for status in Status}


def decode(data: bytes, recipient: str, *, extra_types: frozenset[str] = frozenset()) -> Message:
    """The message that lies in ``recipient``'s directory: the directory is the address, To is only what was meant."""
    raw = split(data)
    fields = raw.fields
    if not plainly_right(raw):
        for fault in faults(raw, extra_types):
            raise fault
    body = raw.body
    kind = fields["x-ignite-type"]
    return Message(
        message_id=bare_id(fields["message-id"]),
        sender=fields["from"],
        recipient=recipient,
        type=kind,
        priority=PRIORITIES[fields["x-ignite-priority"]],
        digest=_digest(fields, body),
        thread_id=_thread(fields.get("x-ignite-thread-id", "")),
        in_reply_to=bare_id(fields.get("in-reply-to", "")) or None,
        task_id=task_id(body),
        progress=progress(body) if kind == "progress_update" else None,
        verdict=_word(body, b"overall_status:") if kind == "evaluation_result" else None,
    )


def _thread(value: str) -> str | None:
    # It is copied into messages of our own, so it must be writable: one line, no TAB, of a sane length.
    return value.replace("\t", " ")[:MAX_THREAD_ID] or None


def standing(data: bytes) -> Standing:
    """What the file says of its own delivery. Others write these headers too: what makes no sense counts as absent."""
    fields = split_head(data).fields
    return Standing(
        status=_STATUSES.get(fields.get("x-ignite-status", ""), Status.PROCESSING),
        retry_count=_count(fields.get("x-ignite-retry-count", "")),
        next_retry_at=_moment(fields.get("x-ignite-next-retry-after", "")),
        processed_at=_moment(fields.get("x-ignite-processed-at", "")),
        seen=fields.get("x-ignite-seen") == "yes",
    )


def glance(head: bytes) -> tuple[Priority, bool]:
    """What decides how soon a waiting file must be read: its priority, and whether it answers something.

    Cheaper than reading by far, and wrong only towards sooner: what is not clearly an ordinary message is an answer.
    """
    usual = _USUAL_HEAD.match(head)
    if usual is not None and (priority := _PRIORITY_BYTES.get(usual[1])) is not None:
        return priority, False
    words = b"\n" + head.lower()
    if b"\n\n" not in words and b"\r\n\r\n" not in words:
        return Priority.NORMAL, True
    value = words.partition(_PRIORITY)[2].partition(b"\n")[0].strip()
    return _PRIORITY_BYTES.get(value, Priority.NORMAL), _REPLY in words


#: A priority as it is mostly spelled, a blank line, and before it no line that could be In-Reply-To in any spelling.
#: One pass, half as long as looking for each; nothing in it is tried twice, whatever somebody wrote.
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


def _digest(fields: Mapping[str, str], body: bytes) -> str:
    """What makes two files with one id the same message. Headers that ackd rewrites, To and Date do not count."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and only the daemon asks for digests

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
#: What begins a comment, anchor, alias, tag, block or flow collection in YAML, and no text.
_INDICATORS: Final = frozenset("#&*!|>%@`[]{},")


def task_id(body: bytes) -> str | None:
    """The body's top-level ``task_id``, found without parsing YAML: at column 0 it cannot be anything else's."""
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
    """A plain or quoted YAML scalar on one line; anything cleverer is None."""
    quote = text[:1]
    if quote in {'"', "'"}:
        inner, closed, rest = text[1:].partition(quote)
        whole = closed and "\\" not in inner and (not rest.strip() or rest.lstrip().startswith("#"))
        return inner if whole else None
    plain = text.partition(" #")[0].rstrip()
    return None if quote in _INDICATORS or plain.startswith(("- ", "? ")) else plain


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
    return re.sub(CONTROL, "", words)[:MAX_PROGRESS_TEXT] or None
