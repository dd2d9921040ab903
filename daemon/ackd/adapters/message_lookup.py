"""Finding messages on disk by id, without reading more of them than their first block.

Owns the search: an id, a unique beginning of one or of its hash, or a path, among the queues, the dead letters and
the archive. Refuses to know what else a message says; the id is found by its header's name alone, so a file that is
otherwise broken can be found too. Never opens anything but regular files, and no links; one that we may not read is
passed over. Fails with ``UnknownMessage`` and ``AmbiguousMessage``; a directory that cannot be read is an OSError,
never "nothing found".
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ackd.core import message_ids
from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.core.message_files import is_message_file, is_stray
from ackd.core.names import RESERVED_NAMES, identity
from ackd.core.words import Folder

HEAD_BYTES: Final = 4096
#: Where mail is on its way; looked at first, and alone if it is found there.
LIVE: Final = (Folder.QUEUE, Folder.PROCESSED)
EVERYWHERE: Final = (*LIVE, Folder.DEAD, Folder.ARCHIVE)
_ID: Final = re.compile(rb"(?mi)^message-id:[ \t]*<?([^>\s]+)")
_RECIPIENT: Final = re.compile(rb"(?mi)^x-ignite-recipient:[ \t]*([^\s]+)")


class Found(NamedTuple):
    """One file of a message. ``box`` is the recipient's directory; of a dead letter, whom it was for."""

    message_id: str
    box: str
    folder: Folder
    path: Path


def find(root: Path, wanted: str, *, agent: str | None = None, folders: Iterable[Folder] = EVERYWHERE) -> list[Found]:
    """Every file of the one message that ``wanted`` means (one for each recipient), live ones first.

    With ``agent``, only that recipient's. A whole id beats a beginning, and that a hash; what is on its way beats
    what is over, so the archive is not read for the sake of ids that nobody needs any more.
    """
    given = _by_path(wanted)
    bare = given.message_id if given is not None else wanted.removeprefix("<").removesuffix(">")
    for group in _groups(tuple(folders)):
        fitting = [one for one in in_folders(root, group, agent) if message_ids.fits(bare, one.message_id)]
        if fitting:
            chosen = message_ids.choose(bare, {one.message_id for one in fitting})
            return [one for one in fitting if one.message_id == chosen]
    raise UnknownMessage(wanted)


def find_for(root: Path, wanted: str, agent: str | None) -> Found:
    """One file of the message that ``wanted`` means to ``agent``: of its own mail first, and of several that fit, the
    one in its hand. Everybody's mail may be looked at."""
    if agent is not None:
        with contextlib.suppress(UnknownMessage):
            return own(root, wanted, agent)
    return find(root, wanted)[0]


def own(root: Path, wanted: str, agent: str) -> Found:
    """The agent's own file of it. A few characters that fit several mean the one in its hand."""
    try:
        return find(root, wanted, agent=agent)[0]
    except AmbiguousMessage as several:
        try:
            return find(root, wanted, agent=agent, folders=(Folder.PROCESSED,))[0]
        except UnknownMessage:
            raise several from None


def in_folders(root: Path, folders: tuple[Folder, ...], agent: str | None) -> Iterator[Found]:
    """The messages in these folders, or one recipient's among them. Files without an id are not."""
    wanted = identity(agent) if agent is not None else None
    for folder in folders:
        for directory, box in _directories(root, folder):
            if wanted is not None and box is not None and identity(box) != wanted:
                continue
            for one in _messages(directory, folder, box):
                if wanted is None or identity(one.box) == wanted:
                    yield one


class Stray(NamedTuple):
    """A file in a queue that nobody will ever read, by its name. ``message_id``: of one that looks like a message."""

    box: str
    path: Path
    age_s: float
    message_id: str | None


def strays(root: Path, now: float, agent: str | None = None) -> Iterator[Stray]:
    """All that lie in the queues and their processed/, however young. Fails with OSError."""
    for folder in LIVE:
        for directory, box in _directories(root, folder):
            if box is None or (agent is not None and identity(box) != identity(agent)):
                continue
            try:
                with os.scandir(directory) as entries:
                    names = sorted(entry.name for entry in entries if is_stray(entry.name))
            except FileNotFoundError:
                continue
            for name in names:
                path = directory / name
                try:
                    age_s = now - path.lstat().st_mtime
                    head = read_head(path)
                except OSError:
                    continue  # it has just gone
                found = _found(path, folder, box, head) if head is not None else None
                yield Stray(box, path, age_s, found.message_id if found is not None else None)


def read_head(path: Path, size_bytes: int = HEAD_BYTES) -> bytes | None:
    """The beginning of a regular file; None for anything else, for what we may not read, and for what has just gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if _is_odd(path) or error.errno == errno.EACCES:  # a link, a socket, gone by now; one file of somebody else's
            return None
        raise
    try:
        return os.read(fd, size_bytes) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def _is_odd(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def _groups(folders: tuple[Folder, ...]) -> Iterator[tuple[Folder, ...]]:
    live = tuple(folder for folder in folders if folder in LIVE)
    if live:
        yield live
    for folder in folders:
        if folder not in LIVE:
            yield (folder,)


def _directories(root: Path, folder: Folder) -> Iterator[tuple[Path, str | None]]:
    if folder is Folder.DEAD:
        yield root / "queue" / "dead_letter", None
    elif folder is Folder.ARCHIVE:
        for day in reversed(_subdirectories(root / "archive")):
            yield from ((box, box.name) for box in _subdirectories(day))
    elif folder in LIVE:
        for box in _subdirectories(root / "queue"):
            if box.name not in RESERVED_NAMES:
                yield (box if folder is Folder.QUEUE else box / "processed"), box.name


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _messages(directory: Path, folder: Folder, box: str | None) -> Iterator[Found]:
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except FileNotFoundError:
        return
    if folder in LIVE:
        names = [name for name in names if is_message_file(name)]
    for name in names:
        path = directory / name
        head = read_head(path)
        if head is not None and (one := _found(path, folder, box, head)) is not None:
            yield one


def _found(path: Path, folder: Folder, box: str | None, head: bytes) -> Found | None:
    block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    match = _ID.search(block)
    if match is None:
        return None
    if box is None:
        recipient = _RECIPIENT.search(block)
        box = _text(recipient[1]) if recipient else ""
    return Found(_text(match[1]), box, folder, path)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _by_path(wanted: str) -> Found | None:
    """The file that was meant, if ``wanted`` is the path of one. Ids may hold slashes too, and a broken one a NUL."""
    path = Path(wanted)
    if "\0" in wanted or ("/" not in wanted and path.suffix != ".mime"):
        return None
    head = read_head(path)
    return _found(path, Folder.QUEUE, "", head) if head is not None else None
