"""The content of a receipt: which keys it may have, which of them together, how long, and with which characters.

Used by whoever writes a receipt, and by the daemon, which reads what anyone may have written. Files and JSON are up to
storage/maildrop, the effect of a receipt to receipts.py. Fails with ``BadReceipt``. Quick to import: `ackd ack` pays
for every module.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from collections.abc import Mapping
from typing import Final, NamedTuple

from ackd.core.errors import BadName, BadReceipt
from ackd.core.names import agent_name
from ackd.core.words import AGENT_REQUESTS, Folder, ReceiptKind

MAX_REASON_CHARS: Final = 4_096
#: A checkpoint is about a page.
MAX_CHECKPOINT_BYTES: Final = 65_536
MAX_STEP: Final = 1_000_000_000
#: Receipts that an operator may drop without naming an agent.
OPERATOR_KINDS: Final = frozenset({ReceiptKind.REQUEUE, ReceiptKind.PURGE})
_KEYS: Final = frozenset({"kind", "message_id", "agent", "reason", "at", "file", "text", "step", "by", "folder", "of"})
#: Keys whose text may have several lines.
_PROSE: Final = frozenset({"reason", "text"})


class Said(NamedTuple):
    kind: ReceiptKind
    message_id: str  # bare
    agent: str | None
    reason: str | None
    file: str | None
    text: str | None
    step: int | None
    by: str | None
    folder: Folder | None
    of: str | None


def checked(name: str, content: Mapping[str, object]) -> Said:
    """Return the content, proven to make sense together."""
    if unknown := sorted(content.keys() - _KEYS):
        raise BadReceipt(name, f"unknown key {unknown[0]!r}")
    kind = _kind(name, content.get("kind"))
    message_id = _text(name, content, "message_id", 998)
    file = _text(name, content, "file", 255)
    _check_target(name, kind, message_id, file)
    if file is not None and ("/" in file or "\0" in file or file.startswith(".")):
        raise BadReceipt(name, "file is not a plain file name")
    agent, by = _agent(name, content, "agent"), _agent(name, content, "by")
    if kind is ReceiptKind.RELOAD and agent is not None:
        raise BadReceipt(name, "reload names no agent")
    if agent is None and kind not in OPERATOR_KINDS and kind is not ReceiptKind.RELOAD:
        raise BadReceipt(name, "no agent")
    bare = message_id.removeprefix("<").removesuffix(">") if message_id is not None else ""
    reason = _text(name, content, "reason", MAX_REASON_CHARS)
    of = _cancelled_with(name, kind, content, by)
    text, step = _checkpoint(name, kind, content)
    return Said(kind, bare, agent, reason, file, text, step, by, _folder(name, content, file), of)


def _check_target(name: str, kind: ReceiptKind, message_id: str | None, file: str | None) -> None:
    if kind in AGENT_REQUESTS or kind is ReceiptKind.RELOAD:
        if message_id is not None or file is not None:
            whom = "no agent" if kind is ReceiptKind.RELOAD else "an agent"
            raise BadReceipt(name, f"{kind.value} names {whom} and no message")
    elif message_id is None and (file is None or kind not in OPERATOR_KINDS):
        raise BadReceipt(name, "no message_id")


def _folder(name: str, content: Mapping[str, object], file: str | None) -> Folder | None:
    """Return the folder of the file: files in two folders may have one name."""
    word = _text(name, content, "folder", 64)
    if word is None:
        return None
    if word not in (Folder.DEAD.value, Folder.CORRUPT.value):
        raise BadReceipt(name, "folder is neither dead_letter nor corrupt")
    if file is None:
        raise BadReceipt(name, "folder without a file")
    return Folder(word)


def _cancelled_with(name: str, kind: ReceiptKind, content: Mapping[str, object], by: str | None) -> str | None:
    """Return the id of the message with which this one is cancelled. Only a cancellation has one, and it says who
    asks."""
    of = _text(name, content, "of", 998)
    if kind is not ReceiptKind.CANCEL:
        if of is not None:
            raise BadReceipt(name, f"{kind.value} has no of")
        return None
    if by is None:
        raise BadReceipt(name, "no by: a cancellation says who asks, its sender or user")
    return of.removeprefix("<").removesuffix(">") if of is not None else None


def _agent(name: str, content: Mapping[str, object], key: str) -> str | None:
    agent = _text(name, content, key, 64)
    if agent is not None:
        try:
            agent_name(agent)
        except BadName as error:
            raise BadReceipt(name, str(error)) from None
    return agent


def _checkpoint(name: str, kind: ReceiptKind, content: Mapping[str, object]) -> tuple[str | None, int | None]:
    """Return text and step, which only a checkpoint has."""
    text, step = _text(name, content, "text", MAX_CHECKPOINT_BYTES), content.get("step")
    if kind is not ReceiptKind.CHECKPOINT:
        if text is not None or step is not None:
            raise BadReceipt(name, f"{kind.value} has no text and no step")
        return None, None
    if text is None:
        raise BadReceipt(name, "no text")
    if len(text.encode()) > MAX_CHECKPOINT_BYTES:
        raise BadReceipt(name, f"text is larger than {MAX_CHECKPOINT_BYTES} bytes")
    if step is None:
        return text, None
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= MAX_STEP:
        raise BadReceipt(name, f"step must be a whole number of 0 to {MAX_STEP}")
    return text, step


def _kind(name: str, value: object) -> ReceiptKind:
    try:
        return ReceiptKind(value)
    except ValueError:
        raise BadReceipt(name, f"unknown kind {value!r}") from None


def _text(name: str, content: Mapping[str, object], key: str, limit: int) -> str | None:
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > limit:
        raise BadReceipt(name, f"{key} must be a text of 1 to {limit} characters")
    if key == "file":  # bears whatever name it was dropped under
        return value
    # Surrogates and control characters would reach headers and terminals from here.
    if any(0xD800 <= ord(c) <= 0xDFFF or (ord(c) < 32 and (key not in _PROSE or c not in "\n\t")) for c in value):
        raise BadReceipt(name, f"{key} holds control characters")
    return value
