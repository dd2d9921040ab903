"""A new message's lineage: the message that it comes of, the first one of all, and their thread.

A message is a *part* of another if its sender holds that one and sends this one for it. Nothing is guessed. The sender
says so (``part_of``), or it is a command that ackd started for one message: whatever such a run sends is for that
message, apart from what only tells somebody of it. That is: answers and reports, notifications, and mail to whoever
sent the message or to the person, ``user``. An agent in a terminal may do other things while it holds a message, so it
has to say.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ackd.client.errors import MessageGone
from ackd.config.site import Site
from ackd.core.names import USER, identity

#: The word that says that a message is no part of anything.
NO_PART: Final = "none"


class Lineage(NamedTuple):
    """Ids of other messages, bare. None: it has none, or nobody knows."""

    part_of: str | None = None
    root: str | None = None
    thread_id: str | None = None


def of_part(site: Site, author: str, wanted: str) -> Lineage:
    """The lineage of a part of the message that ``wanted`` means. Its sender must have that message: fails with
    ``NotHolder``, ``UnknownMessage``, ``AmbiguousMessage``, ``MessageGone``."""
    from ackd.client.identity import holder
    from ackd.storage import message_lookup

    _, found = holder(site, wanted, author)
    head = message_lookup.read_head(found.path, message_lookup.WHOLE_HEAD_BYTES)
    if head is None:
        raise MessageGone(str(found.path))
    return _below(found.message_id, fields_of(head), part_of=found.message_id)


def of_run(author: str, recipients: tuple[str, ...], type_: str) -> Lineage:
    """The lineage of what a command sends that ackd started for one message; empty if this is no such command, or the
    message is no part of its work. The message must still lie where the command was told: a program that was left
    running belongs to it no longer."""
    message_id, path = os.environ.get("ACKD_MESSAGE_ID"), os.environ.get("ACKD_MESSAGE")
    if not message_id or not path or identity(author) != identity(os.environ.get("ACKD_AGENT", "")):
        return Lineage()
    from ackd.core.policy import NOTICE_TYPES
    from ackd.core.words import REPORT_TYPES

    if type_ in REPORT_TYPES or type_ in NOTICE_TYPES:
        return Lineage()
    from ackd.formats import ignite

    fields = fields_at(Path(path))
    told = {identity(name) for name in (fields.get("from", ""), USER, author)}
    if ignite.bare_id(fields.get("message-id", "")) != message_id or told & {identity(one) for one in recipients}:
        return Lineage()
    return _below(message_id, fields, part_of=message_id)


def of_answer(message_id: str, fields: Mapping[str, str]) -> Lineage:
    """The lineage of a reply to a message with these headers."""
    return _below(message_id, fields, part_of=None)


def of_answer_to(site: Site, author: str, message_id: str) -> Lineage:
    """The lineage of an answer to a message of which only the id is given. If its sender does not have it in hand, the
    id alone is believed."""
    from ackd.core.errors import AmbiguousMessage, UnknownMessage
    from ackd.storage import message_lookup

    try:
        found = message_lookup.find(site.root, message_id, agent=author, folders=message_lookup.LIVE)
    except (UnknownMessage, AmbiguousMessage, OSError):
        return Lineage()
    if found[0].message_id != message_id:
        return Lineage()
    return of_answer(message_id, fields_at(found[0].path))


def fields_of(head: bytes) -> dict[str, str]:
    """The headers of a message by their names in small letters."""
    from ackd.formats import ignite

    return {name.lower(): value for name, value in ignite.headers(head)}


def fields_at(path: Path) -> dict[str, str]:
    """The headers of a file; none if it is gone, or no message."""
    from ackd.core.errors import BadMessage
    from ackd.storage import message_lookup

    try:
        return fields_of(message_lookup.read_head(path, message_lookup.WHOLE_HEAD_BYTES) or b"")
    except (BadMessage, OSError):
        return {}


def _below(message_id: str, fields: Mapping[str, str], *, part_of: str | None) -> Lineage:
    """The lineage of what comes of a message with these headers. A message without a root is a root itself."""
    from ackd.formats import ignite

    root = ignite.bare_id(fields.get("x-ackd-root", "")) or message_id
    return Lineage(part_of, root, fields.get("x-ignite-thread-id") or root)
