"""Dead letters and quarantined files: list them with their reasons, put them back into their queues, or purge them.

The reasons are read from the headers of a dead letter and from the ``.reason`` file beside a quarantined one. They come
from outside and are checked like anything from there, because they name the queue that a file goes back to.

Where a file goes, and whether it may go there, is decided before the first one is moved, with and without a daemon
(``_way_back``). Only the holder of the root may move these files. With a daemon running, a receipt asks the daemon, and
the file is watched until it has left; without one, the caller's process holds the root for as long as the move takes.
"""

from __future__ import annotations

import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackd.client.errors import NoRecipient, NotRequeueable
from ackd.client.writing import check_reader, creating
from ackd.core import message_ids
from ackd.core.errors import AmbiguousMessage, BadMessage, RootHeld
from ackd.core.headers import NONE_OF_OURS
from ackd.core.message import Folder, ReceiptKind
from ackd.core.names import dead_letter_recipient
from ackd.formats import utc_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.config.site import Site
    from ackd.storage.spool import Spool

_REASON_SUFFIX: Final = ".reason"
#: How long a running daemon gets to move a file out, and then to decide that it is as broken as before.
DAEMON_TIMEOUT_S: Final = 5.0
VERDICT_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.02

#: Outcomes of ``requeue`` and ``purge``.
REQUEUED: Final = "requeued"
PURGED: Final = "purged"
#: The daemon was asked, and has not done it yet.
PENDING: Final = "pending"
#: The file was requeued, is as broken as before, and came back at once.
RETURNED: Final = "returned"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A file in dead_letter/ or corrupt/, and why it lies there."""

    #: ``dead`` or ``corrupt``.
    kind: str
    name: str
    path: Path
    reason: str
    message_id: str | None = None
    #: The agent whose queue it came from.
    agent: str | None = None
    sender: str | None = None
    type: str | None = None
    at: str | None = None
    retry_count: int | None = None
    #: The name it had in its queue.
    original: str | None = None

    @property
    def folder(self) -> Folder:
        return Folder.DEAD if self.kind == "dead" else Folder.CORRUPT

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["file"] = str(content.pop("path"))
        content["from"] = content.pop("sender")
        content["at"] = utc_times.in_utc(self.at) if self.at else None  # another program may have written it
        return content


class DeadLetterResult(NamedTuple):
    """``to``: the new path of a file that was requeued without a daemon."""

    letter: DeadLetter
    outcome: str
    to: Path | None = None


class AmbiguousDeadLetter(AmbiguousMessage):
    """Several files fit; the name or path of one tells which is meant."""

    def __init__(self, wanted: str, letters: Sequence[DeadLetter]) -> None:
        super().__init__(wanted, tuple(str(letter.path) for letter in letters))
        self.letters = tuple(letters)


# --- listing ----------------------------------------------------------------------------------------------------------
def dead_letters(site: Site) -> list[DeadLetter]:
    """List all dead letters, then all quarantined files."""
    return [_dead(path) for path in dead_files(site)] + [_corrupt(path) for path in quarantined_files(site)]


def dead_files(site: Site) -> list[Path]:
    """List whatever lies in dead_letter/, letters or not: somebody has to look at it."""
    return _entries(site.dead_letter)


def quarantined_files(site: Site) -> list[Path]:
    return [path for path in _entries(site.corrupt) if not path.name.endswith(_REASON_SUFFIX)]


def find(site: Site, wanted: str) -> DeadLetter:
    """Find one by file name or path, by id, by the unique beginning of an id, or by its hash.

    Fails with ``UnknownMessage``, ``AmbiguousMessage`` (several ids fit) and ``AmbiguousDeadLetter`` (several files).
    """
    letters = dead_letters(site)
    meant = [letter for letter in letters if _is_named(site, letter, wanted)]
    if not meant:
        ids = [letter.message_id for letter in letters if letter.message_id]
        chosen = message_ids.choose(wanted.removeprefix("<").removesuffix(">"), ids)
        meant = [letter for letter in letters if letter.message_id == chosen]  # it may have died at several recipients
    if len(meant) > 1:
        raise AmbiguousDeadLetter(wanted, meant)
    return meant[0]


def content(site: Site, letter: DeadLetter) -> bytes | None:
    """Read the file; None for what is not a regular one."""
    from ackd.storage.message_lookup import read_head

    return read_head(letter.path, _limit_bytes(site))


def _is_named(site: Site, letter: DeadLetter, wanted: str) -> bool:
    """Compare with a file name, or with a path from here, below the root (as the log has it) or below queue/."""
    if "/" not in wanted or not wanted.endswith(f"/{letter.name}"):
        return wanted == letter.name
    here = letter.path.parent.resolve()
    return any(Path(base, wanted).parent.resolve() == here for base in ("", site.root, site.queue))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _dead(path: Path) -> DeadLetter:
    from ackd.formats import ignite
    from ackd.storage.message_lookup import WHOLE_HEAD_BYTES, read_head

    head = read_head(path, WHOLE_HEAD_BYTES)
    if head is None:
        kind = "a directory" if path.is_dir() and not path.is_symlink() else "not a regular file"
        return DeadLetter("dead", path.name, path, f"{kind}, no message: nothing of ackd's")
    try:
        fields = ignite.split_head(head).fields
    except BadMessage as error:
        return DeadLetter("dead", path.name, path, f"unreadable: {error}")
    count = fields.get("x-ignite-retry-count", "")
    return DeadLetter(
        kind="dead",
        name=path.name,
        path=path,
        reason=fields.get("x-ignite-error-reason") or "no reason given",
        message_id=ignite.bare_id(fields.get("message-id", "")) or None,
        agent=dead_letter_recipient(fields.get("x-ignite-recipient"), fields.get("to")),
        sender=fields.get("from"),
        type=fields.get("x-ignite-type"),
        at=fields.get("x-ignite-error-at"),
        retry_count=int(count) if count.isascii() and count.isdigit() and len(count) <= 6 else None,
        original=path.name,
    )


def _corrupt(path: Path) -> DeadLetter:
    import json

    from ackd.storage.message_lookup import WHOLE_HEAD_BYTES, read_head

    raw = read_head(path.with_name(path.name + _REASON_SUFFIX), WHOLE_HEAD_BYTES)
    try:
        said = json.loads(raw or b"null")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return DeadLetter("corrupt", path.name, path, "no reason was kept")
    words = {key: value for key, value in said.items() if isinstance(value, str)}
    reason = ": ".join(words[key] for key in ("code", "detail") if key in words) or "no reason was kept"
    queue, at, original = (words.get(key) for key in ("queue", "at", "name"))
    return DeadLetter("corrupt", path.name, path, reason, agent=queue, at=at, original=original)


# --- requeue and purge ------------------------------------------------------------------------------------------------
class _WayBack(NamedTuple):
    """A file that may be requeued. ``box``: the queue that it goes back to, proven to be an agent's."""

    letter: DeadLetter
    box: Path


def requeue(site: Site, letters: Sequence[DeadLetter]) -> list[DeadLetterResult]:
    """Put them back where they came from: dead letters with their counts reset, quarantined files byte for byte.

    Fails, before the first is moved, with ``NoRecipient``, ``UnknownAgent``, ``BadName`` and ``NotRequeueable``. If a
    daemon is asked, an outcome of ``PENDING`` or ``RETURNED`` says that it did not work.
    """
    ways = [_way_back(site, letter) for letter in letters]
    return _by_holder(site, ReceiptKind.REQUEUE, letters, lambda: [_requeued(site, way) for way in ways], ways)


def _way_back(site: Site, letter: DeadLetter) -> _WayBack:
    """Decide where the file goes. A daemon would refuse what is refused here, too, but could say so only in its log."""
    if not letter.agent:
        raise NoRecipient(letter.name)
    box = site.box_dir(site.resolve_address(letter.agent))
    if letter.kind == "dead" and not _may_be_message(site, letter):
        raise NotRequeueable(letter.name, _limit_bytes(site))
    return _WayBack(letter, box)


def _may_be_message(site: Site, letter: DeadLetter) -> bool:
    try:
        found = letter.path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _limit_bytes(site)


def _limit_bytes(site: Site) -> int:
    """A dead letter was within the limit of messages before ackd added its headers."""
    from ackd.formats import ignite

    return site.max_message_bytes + ignite.MAX_HEADER_BYTES


def purge(site: Site, letters: Sequence[DeadLetter]) -> list[DeadLetterResult]:
    """Remove them for good."""
    return _by_holder(site, ReceiptKind.PURGE, letters, lambda: _purged(site, letters))


def _by_holder(
    site: Site,
    kind: ReceiptKind,
    letters: Sequence[DeadLetter],
    act: Callable[[], list[DeadLetterResult]],
    ways: Sequence[_WayBack] = (),
) -> list[DeadLetterResult]:
    """Act as the holder of the root, or ask the daemon that holds it."""
    from ackd.storage import maildrop, root_lock, state_version

    check_reader(site)
    with creating(site.queue):
        maildrop.make_private_directory(site.run, fsync=site.fsync)
        try:
            lock = root_lock.hold(site.run)
        except RootHeld:
            return _ask_daemon(site, kind, letters, ways)
        try:
            state_version.require(site.state)
            return act()
        finally:
            lock.release()


# --- without a daemon -------------------------------------------------------------------------------------------------
def _spool(site: Site) -> Spool:
    """Return the directories and the moves in them: those that a daemon uses."""
    from ackd.storage.spool import Spool

    return Spool(site.root, max_message_bytes=site.max_message_bytes, durable=site.fsync)


def _requeued(site: Site, way: _WayBack) -> DeadLetterResult:
    from ackd.storage import atomic_file, maildrop

    letter, box = way
    maildrop.make_box(box, fsync=site.fsync)
    if letter.kind == "corrupt":
        to = box / _spool(site).requeue_corrupt(letter.name, box.name, letter.original).name
        if site.fsync:  # a daemon does not wait for that: after a power cut it finds the file in either place
            atomic_file.flush_directory(box)
            atomic_file.flush_directory(site.corrupt)
    else:
        # The new copy is durable before the old one goes: a crash between leaves both, and the id tells them apart
        # from two messages. (A daemon rewrites the letter where it lies and then moves it, so it has to keep
        # X-IGNITE-Recipient in it; runtime/runner says why.)
        to = maildrop.drop(box, letter.name, _fresh(site, letter), fsync=site.fsync)
        letter.path.unlink()
    return DeadLetterResult(letter, REQUEUED, to)


def _fresh(site: Site, letter: DeadLetter) -> bytes:
    """Return the message as its sender wrote it, without any header of ackd's."""
    from ackd.formats import ignite
    from ackd.storage.message_lookup import read_head

    limit = _limit_bytes(site)
    data = read_head(letter.path, limit + 1)
    if data is None or len(data) > limit:
        raise NotRequeueable(letter.name, limit)
    return ignite.rewrite(data, NONE_OF_OURS)


def _purged(site: Site, letters: Sequence[DeadLetter]) -> list[DeadLetterResult]:
    spool = _spool(site)
    for letter in letters:
        spool.purge(letter.folder, letter.name)
    return [DeadLetterResult(letter, PURGED) for letter in letters]


# --- with a daemon ----------------------------------------------------------------------------------------------------
def _ask_daemon(
    site: Site, kind: ReceiptKind, letters: Sequence[DeadLetter], ways: Sequence[_WayBack]
) -> list[DeadLetterResult]:
    from ackd.storage import maildrop

    before = {letter.path: _trace(letter) for letter in letters}
    for letter in letters:
        about = (letter.message_id, None)
        maildrop.drop_receipt(site.receipts, kind, *about, file=letter.name, folder=letter.folder, fsync=site.fsync)
    waiting = list(letters)
    deadline = time.monotonic() + DAEMON_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        waiting = [letter for letter in waiting if _trace(letter) == before[letter.path]]
    _await_verdict([way for way in ways if way.letter not in waiting])
    return [DeadLetterResult(letter, PENDING if letter in waiting else _outcome(kind, letter)) for letter in letters]


def _await_verdict(left: list[_WayBack]) -> None:
    """Wait until the daemon has taken the files from their queues, to deliver them or to put them away again. A file
    that waits its turn in a queue is not waited for: it was read, and is fine."""
    deadline = time.monotonic() + VERDICT_TIMEOUT_S
    while any(map(_is_undecided, left)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _is_undecided(way: _WayBack) -> bool:
    """Tell whether it is in its queue; or still here, because a dead letter's counts are reset before it is moved."""
    letter, box = way
    in_queue = (box / (letter.original or letter.name)).is_file()
    return in_queue or (letter.kind == "dead" and _trace(letter) is not None)


def _outcome(kind: ReceiptKind, letter: DeadLetter) -> str:
    """A file that is as broken as before comes back at once, under the same name."""
    if _trace(letter) is not None:
        return RETURNED
    return REQUEUED if kind is ReceiptKind.REQUEUE else PURGED


def _trace(letter: DeadLetter) -> tuple[int, int, int] | None:
    """Return what changes when a file leaves, even if it returns: its identity and that of its reason; None once it is
    gone."""
    try:
        file = letter.path.lstat()
    except FileNotFoundError:
        return None
    try:
        reason = letter.path.with_name(f"{letter.name}.reason").lstat()
    except OSError:  # a dead letter has none, and its name may be too long for one
        return file.st_ino, file.st_mtime_ns, 0
    return file.st_ino, file.st_mtime_ns, reason.st_mtime_ns
