"""Sending a message once: the same key, sender, recipient and content is one message within the dedup window.

The Message-ID derives from key, sender and content, and the file's name from key, sender and recipient. So whoever
sends again finds the first one by its name, wherever it has come by then: in the queue, in the hands of its agent or of
a pool's member, among the dead letters or in the archive. A file that is gone, because its agent deleted it, is written
again, and the daemon recognises it by its id. The same key with other content is another message, with a warning.

Two senders cannot both find nothing: they look and write under a lock on the recipient's queue directory. A sender that
dies leaves either nothing or the whole message, and the lock goes with it.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ackd.config.site import Site
from ackd.core.names import identity

_DAY_S: Final = 86_400
_DIGITS: Final = 10**16


def message_id(key: str, sender: str, content: Sequence[str | None]) -> str:
    """The Message-ID of the message that is sent once."""
    return f"0.0.{_hash('id', key, identity(sender), *content)}@ignite.local"


def file_number(key: str, sender: str, recipient: str) -> int:
    """The number in the name of the file, where other files have the microsecond of their writing."""
    return int(_hash("file", key, identity(sender), identity(recipient)), 16) % _DIGITS


def _hash(*parts: str | None) -> str:
    text = "\0".join("" if part is None else f"={part}" for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def sent_before(site: Site, recipient: str, name: str, now: float) -> list[tuple[str, str]]:
    """Return the files that were sent with that key, newest place last: path and Message-ID. Those that have ended and
    were sent longer ago than the dedup window do not count."""
    found = []
    # In the order in which the daemon moves a file, so that one that is moved meanwhile is met at its next place.
    for path, is_live in _places(site, recipient, name, now):
        for namesake in _namesakes(path):
            ident = _id_of(namesake, None if is_live else now - site.dedup_window_s)
            if ident is not None:
                found.append((str(namesake), ident))
    return found


def _places(site: Site, recipient: str, name: str, now: float) -> Iterator[tuple[Path, bool]]:
    own = site.box_dirs(recipient)
    pool = site.pool_called(recipient)
    boxes = [*own, *(box for member in site.pools[pool] for box in site.box_dirs(member))] if pool else own
    for box in (*boxes, *own) if pool else own:  # a member's that gives it back lies in the pool's queue again
        yield box / name, True
        yield box / "processed" / name, True
    yield site.dead_letter / name, False
    days = int(site.dedup_window_s // _DAY_S) + 2
    for box in boxes:
        for number in range(-1, days):
            day = time.strftime("%Y%m%d", time.gmtime(now - number * _DAY_S))
            yield site.archive / day / box.name / name, False


def _namesakes(path: Path) -> Iterator[Path]:
    """The file of this name, and those that got another because it was taken."""
    yield path
    for number in range(1, 100):
        other = path.with_name(f"{path.stem}-{number}{path.suffix}")
        if not os.path.lexists(other):
            return
        yield other


def _id_of(path: Path, since: float | None) -> str | None:
    """Return the Message-ID of a file, unless it is older than ``since``. (A file keeps its time when it is moved.)"""
    from ackd.core.errors import BadMessage
    from ackd.formats import ignite
    from ackd.storage.message_lookup import read_head

    try:
        if since is not None and path.lstat().st_mtime < since:
            return None
        fields = ignite.split_head(read_head(path) or b"").fields
    except (OSError, BadMessage):
        return None
    return ignite.bare_id(fields.get("message-id", "")) or None
