"""An agent's mail as it lies on disk: the list of it, and one message read.

An inbox that cannot be read is ``CannotRead``, never an empty list. Listing reads the headers and the beginning of each
body, and does not count as reading the messages; ``read`` does, when the recipient reads.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ackd.client.errors import CannotRead, MessageGone, NoSpeaker
from ackd.client.identity import named_agent
from ackd.config.site import Site
from ackd.core.errors import BadMessage
from ackd.core.message_files import STRAY_WORDS, is_message_file, is_stray
from ackd.core.names import identity
from ackd.core.words import Folder, ReceiptKind
from ackd.storage.message_lookup import FoundMessage

#: Receipts by which an agent shows that it has read the message.
_READS: Final = frozenset({ReceiptKind.SEEN, ReceiptKind.ACK, ReceiptKind.DONE, ReceiptKind.REFUSE, ReceiptKind.DEFER})
_ON_ITS_WAY: Final = frozenset({Folder.QUEUE, Folder.PROCESSED})


class ReadMessage:
    """A message that was read. ``agent`` is its recipient, ``data`` the whole file.

    ``reader``: the agent that reads, if it is known. ``is_own``: the reader is the recipient and the message is still
    on its way, so that reading counts as having seen it. ``headers``, ``body`` and ``state`` are taken from the file
    when they are asked for, and raise ``BadMessage`` if it is broken.
    """

    __slots__ = ("_folder", "agent", "data", "file", "is_own", "message_id", "reader")

    def __init__(self, found: FoundMessage, data: bytes, reader: str | None) -> None:
        self.message_id = found.message_id
        self.agent = found.box
        self.file = str(found.path)
        self.data = data
        self.reader = reader
        self.is_own = reader is not None and identity(found.box) == identity(reader) and found.folder in _ON_ITS_WAY
        self._folder = found.folder

    @property
    def headers(self) -> dict[str, str]:
        from ackd.formats import ignite

        return dict(ignite.headers(self.data))

    @property
    def body(self) -> str:
        from ackd.formats import ignite

        return ignite.split_head(self.data).body.decode(errors="replace")

    @property
    def state(self) -> str:
        """The state: queued, processing, delivered, acked, retrying, completed, dead, cancelled or withdrawn."""
        return _state(self._folder, self.data)


def read(site: Site, message_id: str, agent: str | None) -> ReadMessage:
    """Find one message, in the reader's own mail first, and read it."""
    from ackd.storage import message_lookup

    name = named_agent(site, agent)
    found = message_lookup.find_for(site.root, message_id, name)
    data = message_lookup.read_head(found.path, site.max_message_bytes + message_lookup.WHOLE_HEAD_BYTES)
    if data is None:
        raise MessageGone(str(found.path))
    return ReadMessage(found, data, name)


# --- the list ---------------------------------------------------------------------------------------------------------
class MailEntry(NamedTuple):
    """An entry of a list of messages. ``state`` is that of ``ReadMessage``, or unreadable or stray, with the reason as
    subject. ``unread``: it lies in an inbox, and its agent has neither read nor acknowledged it."""

    message_id: str | None
    sender: str | None
    type: str | None
    priority: str | None
    state: str
    subject: str | None
    file: str
    arrived_at: float
    expires: str | None = None
    deadline: str | None = None
    unread: bool = False


class Inbox(NamedTuple):
    agent: str
    messages: tuple[MailEntry, ...]


def inbox(site: Site, agent: str | None, *, everything: bool) -> Inbox:
    """List the mail of an agent, or of the queue of a group or pool: waiting messages first, then those that it was
    told of; with ``everything`` also those that are dead or completed."""
    name = site.resolve_address(agent) if agent else named_agent(site, None)
    if name is None:
        raise NoSpeaker
    try:
        return Inbox(name, tuple(_entries(site, name, everything)))
    except OSError as error:
        raise CannotRead(str(error.filename or site.box_dir(name)), str(error.strerror)) from None


def _entries(site: Site, name: str, everything: bool) -> Iterator[MailEntry]:
    boxes = site.box_dirs(name)
    waiting = [entry for box in boxes for entry in _entries_in(box, Folder.QUEUE)]
    told = [entry for box in boxes for entry in _entries_in(box / "processed", Folder.PROCESSED)]
    is_inbox, read = _is_inbox(site, name), _said_already(site)
    told = [one._replace(unread=one.unread and is_inbox and one.message_id not in read) for one in told]
    moved = set(map(_file_of, told))  # what was claimed between the two looks was seen twice
    yield from (entry for entry in waiting if entry.message_id is None or _file_of(entry) not in moved)
    yield from told
    if everything:
        from ackd.storage import message_lookup

        for one in message_lookup.in_folders(site.root, (Folder.DEAD, Folder.ARCHIVE), name):
            if (entry := _entry(one.path, one.folder)) is not None:
                yield entry


def _file_of(entry: MailEntry) -> tuple[str | None, str]:
    return entry.message_id, os.path.basename(entry.file)  # noqa: PTH119 - cheaper than a Path


def _entries_in(directory: Path, folder: Folder) -> list[MailEntry]:
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return []
    found = (_entry(directory / name, folder) for name in names if not name.startswith(".") and name != "processed")
    return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.arrived_at)


def recent(site: Site, agent: str | None = None, *, on_its_way: bool = False, limit: int = 200) -> Iterator[MailEntry]:
    """List the newest messages, the newest first, without reading more files than that: of one agent or of all; with
    ``on_its_way`` none that are dead or completed. The archive is looked into only as far back as needed."""
    boxes = site.box_dirs(agent) if agent is not None else [site.queue / box for box in site.boxes()]
    found = [(path, Folder.QUEUE) for box in boxes for path in _message_files(box)]
    found += [(path, Folder.PROCESSED) for box in boxes for path in _message_files(box / "processed")]
    if not on_its_way:
        found += [(path, Folder.DEAD) for path in _message_files(site.dead_letter)]
        for day in sorted(_named(site.archive), reverse=True) if len(found) < limit else ():
            found += [(path, Folder.ARCHIVE) for box in _named(day) for path in _message_files(box)]
            if len(found) >= limit:
                break
    found.sort(key=lambda one: (re.findall(r"\d{16}", one[0].name)[-1:], one[0].name), reverse=True)
    entries = (_entry(path, folder) for path, folder in found[:limit])
    return (entry for entry in entries if entry is not None)


def _message_files(directory: Path) -> list[Path]:
    return [path for path in _named(directory) if is_message_file(path.name)]


def _named(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _entry(path: Path, folder: Folder) -> MailEntry | None:
    from ackd.formats import ignite
    from ackd.storage import message_lookup

    try:
        arrived_at = path.lstat().st_mtime
    except FileNotFoundError:
        return None
    head = message_lookup.read_head(path, message_lookup.WHOLE_HEAD_BYTES)
    try:
        raw = ignite.split_head(head if head is not None else b"")
    except BadMessage as error:
        if is_stray(path.name) and folder in _ON_ITS_WAY:
            return None  # no message in its content, either: somebody's notes
        return MailEntry(None, None, None, None, "unreadable", str(error), str(path), arrived_at)
    if folder in _ON_ITS_WAY and not is_message_file(path.name):
        return MailEntry(None, None, None, None, "stray", STRAY_WORDS, str(path), arrived_at)
    fields = raw.fields
    return MailEntry(
        message_id=ignite.bare_id(fields.get("message-id", "")) or None,
        sender=fields.get("from"),
        type=fields.get("x-ignite-type"),
        priority=fields.get("x-ignite-priority"),
        state=_state(folder, raw.data),
        subject=subject(raw.body),
        file=str(path),
        arrived_at=arrived_at,
        expires=fields.get("x-ackd-expires") or None,
        deadline=fields.get("x-ackd-deadline") or None,
        unread=folder is Folder.PROCESSED and _is_unread(raw.data),
    )


# --- read or not ------------------------------------------------------------------------------------------------------
class InHand(NamedTuple):
    """Counts of messages that an agent was given: those unread in its inbox, and those that wait for another try."""

    unread: int
    retrying: int


def in_hand(site: Site, agent: str, boxes: list[str]) -> InHand:
    """Count by what the files and the receipts say. A running daemon knows better."""
    from ackd.core.words import Status
    from ackd.formats import ignite
    from ackd.storage import message_lookup

    found = InHand(0, 0)
    paths = [path for box in boxes for path in _message_files(site.queue / box / "processed")]
    is_inbox, read = _is_inbox(site, agent), _said_already(site) if paths else frozenset()
    for path in paths:
        try:
            raw = ignite.split_head(message_lookup.read_head(path) or b"")
        except (BadMessage, FileNotFoundError):
            continue
        unread = is_inbox and _is_unread(raw.data) and ignite.bare_id(raw.fields.get("message-id", "")) not in read
        retrying = ignite.standing(raw.data).status is Status.RETRYING
        found = InHand(found.unread + unread, found.retrying + retrying)
    return found


def _is_unread(head: bytes) -> bool:
    from ackd.core.words import Status
    from ackd.formats import ignite

    standing = ignite.standing(head)
    return standing.status is Status.DELIVERED and not standing.seen


def _is_inbox(site: Site, name: str) -> bool:
    from ackd.config.site import ALWAYS
    from ackd.core.names import USER
    from ackd.endpoints.registry import DEFAULT

    return (name == USER or name not in ALWAYS) and site.agents.get(name, {}).get("endpoint", DEFAULT) == DEFAULT


def _said_already(site: Site) -> frozenset[str]:
    """Return the messages about which a receipt waits for the next daemon: their agents have read them."""
    from ackd.core.errors import BadReceipt
    from ackd.storage import maildrop

    found = set()
    for path in _named(site.receipts):
        try:
            said = maildrop.read_receipt(path)
        except (BadReceipt, OSError):
            continue
        if said.kind in _READS and said.message_id is not None:
            found.add(said.message_id)
    return frozenset(found)


def _state(folder: Folder, head: bytes) -> str:
    from ackd.formats import ignite

    match folder:
        case Folder.PROCESSED:
            return ignite.standing(head).status.value
        case Folder.DEAD:
            return "cancelled" if ignite.standing(head).cancelled else "dead"
        case Folder.ARCHIVE:
            return "withdrawn" if ignite.split_head(head).fields.get("x-ackd-ended") == "withdrawn" else "completed"
        case _:
            return "queued"


#: The keys of a body that say what it is about, the best first.
_TELLING_KEYS: Final = ("summary", "title", "goal", "content", "message", "reason", "task_id")
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}")


def subject(body: bytes) -> str:
    """Sum a body up in a line: the value of its most telling key, else its first line.

    The body is read as lines: YAML costs too much for a list, and the end of the body may be cut off.
    """
    lines = body[:4000].decode(errors="replace").splitlines()
    told = {
        key: number
        for number, line in reversed([*enumerate(lines)])
        if (key := line.partition(":")[0]) in _TELLING_KEYS
    }
    for key in _TELLING_KEYS:
        if key in told and (words := _value(lines, told[key])):
            return words
    return next((line.strip() for line in lines if line.strip()), "")


def _value(lines: list[str], number: int) -> str:
    """Return a line of the text that stands after the key, or, of a text of several lines, below it."""
    value = lines[number].partition(":")[2].strip()
    if _BLOCK.fullmatch(value):
        return next((line.strip() for line in lines[number + 1 :] if line.strip()), "")
    if len(value) > 1 and value[0] == value[-1] == '"':  # as `ackd send` writes one line of words
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value
