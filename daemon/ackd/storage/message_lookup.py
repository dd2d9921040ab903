"""Find messages on disk by id, without reading more of them than their first block.

An id, a unique beginning of one or of its hash, or a path is looked for among the queues, the dead letters and the
archive. The id is found by its header's name alone, so that a file which is otherwise broken can be found too. Only
regular files are opened, and no links; a file that we may not read is passed over. Fails with ``UnknownMessage`` and
``AmbiguousMessage``; a directory that cannot be read is an OSError, never "nothing found".
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
from ackd.core.names import RESERVED_NAMES, dead_letter_recipient, identity
from ackd.core.words import Folder

HEAD_BYTES: Final = 4096
#: Enough for any header block that is taken, and the beginning of the body.
WHOLE_HEAD_BYTES: Final = 70_000
#: Folders of mail that is on its way. They are searched first, and alone if the message is found there.
LIVE: Final = (Folder.QUEUE, Folder.PROCESSED)
EVERYWHERE: Final = (*LIVE, Folder.DEAD, Folder.ARCHIVE)
_ID: Final = re.compile(rb"(?mi)^message-id:[ \t]*<?([^>\s]+)")
_RECIPIENT: Final = re.compile(rb"(?mi)^x-ignite-recipient:[ \t]*([^\s]+)")
_TO: Final = re.compile(rb"(?mi)^to:[ \t]*([^\r\n]*[^\s])")


class FoundMessage(NamedTuple):
    """A file of a message. ``box`` is the recipient's directory; for a dead letter, the agent that it was for."""

    message_id: str
    box: str
    folder: Folder
    path: Path


def find(
    root: Path, wanted: str, *, agent: str | None = None, folders: Iterable[Folder] = EVERYWHERE
) -> list[FoundMessage]:
    """Return every file of the message that ``wanted`` means (one for each recipient), live ones first.

    With ``agent``, only that recipient's. A whole id is preferred to a beginning, and a beginning to a hash. Messages
    on their way are preferred to finished ones, so that the archive is read only if it must be.
    """
    given = _by_path(wanted)
    bare = given.message_id if given is not None else wanted.removeprefix("<").removesuffix(">")
    for group in _groups(tuple(folders)):
        fitting = [one for one in in_folders(root, group, agent) if message_ids.fits(bare, one.message_id)]
        if fitting:
            chosen = message_ids.choose(bare, {one.message_id for one in fitting})
            return [one for one in fitting if one.message_id == chosen]
    raise UnknownMessage(wanted)


def files_of(root: Path, message_id: str) -> list[FoundMessage]:
    """Return the files of the message with this whole id, live ones first and alone; none if there are none."""
    groups = (in_folders(root, group, None) for group in _groups(EVERYWHERE))
    found = ([one for one in group if one.message_id == message_id] for group in groups)
    return next(filter(None, found), [])


def find_for(root: Path, wanted: str, agent: str | None) -> FoundMessage:
    """Return a file of the message that ``wanted`` means to ``agent``: its own mail first, and of several that fit, the
    one it has in hand. Everybody's mail is searched."""
    if agent is not None:
        with contextlib.suppress(UnknownMessage):
            return own(root, wanted, agent)
    return find(root, wanted)[0]


def own(root: Path, wanted: str, agent: str) -> FoundMessage:
    """Return the agent's own file of the message. If ``wanted`` fits several, the one that it has in hand is meant."""
    try:
        return find(root, wanted, agent=agent)[0]
    except AmbiguousMessage as several:
        try:
            return find(root, wanted, agent=agent, folders=(Folder.PROCESSED,))[0]
        except UnknownMessage:
            raise several from None


def in_folders(root: Path, folders: tuple[Folder, ...], agent: str | None) -> Iterator[FoundMessage]:
    """Yield the messages in these folders, or only one recipient's. Files without an id are left out."""
    wanted = identity(agent) if agent is not None else None
    for folder in folders:
        for directory, box in _directories(root, folder):
            if wanted is not None and box is not None and identity(box) != wanted:
                continue
            for one in _messages(directory, folder, box):
                if wanted is None or identity(one.box) == wanted:
                    yield one


class Stray(NamedTuple):
    """A file in a queue that, by its name, nobody will ever read. ``message_id``: set if it looks like a message."""

    box: str
    path: Path
    age_s: float
    message_id: str | None


def strays(root: Path, now: float, agent: str | None = None) -> Iterator[Stray]:
    """Yield all such files in the queues and their processed/, however young. Fails with OSError."""
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
                    continue  # the file has just gone
                found = _found(path, folder, box, head) if head is not None else None
                yield Stray(box, path, age_s, found.message_id if found is not None else None)


def read_head(path: Path, size_bytes: int = HEAD_BYTES) -> bytes | None:
    """Read the beginning of a regular file; None for anything else, and if the file may not be read or is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if _is_odd(path) or error.errno == errno.EACCES:  # a link, a socket, or gone by now; or another user's file
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


def _messages(directory: Path, folder: Folder, box: str | None) -> Iterator[FoundMessage]:
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


def _found(path: Path, folder: Folder, box: str | None, head: bytes) -> FoundMessage | None:
    block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    match = _ID.search(block)
    if match is None:
        return None
    if box is None:
        recipient, to = _RECIPIENT.search(block), _TO.search(block)
        box = dead_letter_recipient(_text(recipient[1]) if recipient else None, _text(to[1]) if to else None) or ""
    return FoundMessage(_text(match[1]), box, folder, path)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def id_in(wanted: str) -> str | None:
    """Return the id of the message in the file at ``wanted``; None if that is no path of a message."""
    given = _by_path(wanted)
    return given.message_id if given is not None else None


def _by_path(wanted: str) -> FoundMessage | None:
    """Return the file at ``wanted``, if that is the path of one. Ids may contain slashes too, and broken ones a NUL."""
    path = Path(wanted)
    if "\0" in wanted or ("/" not in wanted and path.suffix != ".mime"):
        return None
    head = read_head(path)
    return _found(path, Folder.QUEUE, "", head) if head is not None else None
