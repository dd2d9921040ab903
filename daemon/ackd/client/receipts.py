"""Statements of an agent about its mail, as receipt files: ack, done, refuse, defer, checkpoint, seen.

The daemon acts on a receipt when it reads it, now or when it starts. All messages are found, and the agent that speaks
is known, before the first receipt is written; no receipt is visible before all are.

Fails with ``NoSpeaker``, ``NotHolder``, ``UnknownAgent``, ``UnknownMessage``, ``AmbiguousMessage``, ``MessageOver``,
``BadText``, ``CannotWrite``.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from collections.abc import Sequence
from typing import Final, NamedTuple

from ackd.client.errors import BadText, MessageOver, NoSpeaker
from ackd.client.identity import holder, named_agent
from ackd.client.writing import check_reader, creating
from ackd.config.site import Site
from ackd.core.words import Folder, ReceiptKind

#: Receipts that a dead letter still takes: a late completion completes it.
_LATE: Final = frozenset({ReceiptKind.ACK, ReceiptKind.DONE})


class WrittenReceipt(NamedTuple):
    """A statement about a message. ``path`` is None if the message was completed already, so nothing was to be said."""

    message_id: str
    agent: str
    path: str | None


def drop(
    site: Site, kind: ReceiptKind, message_ids: Sequence[str], agent: str | None, reason: str | None = None
) -> tuple[WrittenReceipt, ...]:
    """Write a receipt of one kind for each of the messages."""
    from ackd.storage import maildrop

    after_all = kind is ReceiptKind.DONE
    found = [holder(site, wanted, agent, or_former=after_all) for wanted in message_ids]
    pending = {one.message_id: name for name, one in found if _is_open(site, kind, one.message_id, one.folder)}
    check_reader(site)
    with creating(site.receipts):
        paths = maildrop.drop_receipts(site.receipts, kind, pending, reason, fsync=site.fsync)
    return tuple(
        WrittenReceipt(one.message_id, name, str(paths[one.message_id]) if one.message_id in paths else None)
        for name, one in found
    )


def in_hand(site: Site, agent: str | None) -> tuple[str, ...]:
    """Return the ids of the messages that the agent was told of and has not completed. What still waits in its queue is
    not among them. Fails with ``NoSpeaker``."""
    from ackd.storage import message_lookup

    name = named_agent(site, agent)
    if name is None:
        raise NoSpeaker
    found = message_lookup.in_folders(site.root, (Folder.PROCESSED,), name)
    return tuple(dict.fromkeys(one.message_id for one in found))


def checkpoint(site: Site, message_id: str, text: bytes, step: int | None, agent: str | None) -> WrittenReceipt:
    """Write down how far the work on an open message has come; of several checkpoints the last counts."""
    from ackd.core.receipt_form import MAX_CHECKPOINT_BYTES, MAX_STEP
    from ackd.storage import maildrop

    if step is not None and not 0 <= step <= MAX_STEP:
        raise BadText(f"a checkpoint's step is a whole number of 0 to {MAX_STEP}")
    words = _checked_text(text, MAX_CHECKPOINT_BYTES)
    name, found = holder(site, message_id, agent)
    if found.folder in (Folder.ARCHIVE, Folder.DEAD):
        state = "completed" if found.folder is Folder.ARCHIVE else "dead"
        raise MessageOver(found.message_id, state, "there is nothing to go on with")
    check_reader(site)
    with creating(site.receipts):
        path = maildrop.drop_checkpoint(site.receipts, found.message_id, name, words, step, fsync=site.fsync)
    return WrittenReceipt(found.message_id, name, str(path))


def drop_seen(site: Site, message_id: str, agent: str) -> None:
    """Write the proof that an agent has read its message, which stops the clock of its ACK."""
    from ackd.storage import maildrop

    check_reader(site)
    with creating(site.receipts):
        maildrop.drop_receipt(site.receipts, ReceiptKind.SEEN, message_id, agent, fsync=site.fsync)


def _is_open(site: Site, kind: ReceiptKind, message_id: str, folder: Folder) -> bool:
    match folder:
        case Folder.ARCHIVE if kind is ReceiptKind.DONE and _is_open_escalation(site, message_id):
            return True
        case Folder.ARCHIVE:
            if kind in _LATE:
                return False
            raise MessageOver(message_id, "completed", "it cannot be given back")
        case Folder.DEAD if kind not in _LATE:
            raise MessageOver(message_id, "dead", "`ackd dead` shows it")
        case _:
            return True


def _is_open_escalation(site: Site, message_id: str) -> bool:
    """An escalation stays open until somebody says done, though reading its mail has completed the mail."""
    try:
        return message_id.encode() in (site.state / "escalations.json").read_bytes()
    except OSError:
        return False


def _checked_text(data: bytes, limit_bytes: int) -> str:
    """A checkpoint's text as the daemon will take it."""
    if len(data) > limit_bytes:
        raise BadText(f"a checkpoint has at most {limit_bytes} bytes: keep the rest in a file, and name it")
    try:
        text = data.decode().replace("\r\n", "\n").strip("\n")
    except UnicodeDecodeError as error:
        raise BadText(f"the checkpoint is not UTF-8, at byte {error.start}") from None
    if not text.strip():
        raise BadText("the checkpoint is empty")
    if any(ord(char) < 32 and char not in "\n\t" for char in text):
        raise BadText("the checkpoint holds control characters")
    return text
