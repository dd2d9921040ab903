"""Cancelling messages: a request for each recipient that has not finished, as receipt files.

Only a message's sender and ``user`` may cancel it. The daemon acts on a request when it reads it, now or when it
starts: a message of which nobody was told is withdrawn; an agent that has one in hand is told to let go of it, and then
the message is dead as ``cancelled``. A completion that came before counts. With ``tree``, the open messages that came
of it are cancelled with it: those that are there when the requests are written. Whoever has not let go yet may send
more, which are not cancelled.

Fails with ``NotSender``, ``UnknownAgent``, ``UnknownMessage``, ``AmbiguousMessage``, ``MessageOver``, ``CannotWrite``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client import lineage, threads
from ackd.client.errors import MessageOver, NotSender
from ackd.client.identity import sending_as
from ackd.client.writing import check_reader, creating
from ackd.core.names import USER, identity
from ackd.core.policy import asks_for_work
from ackd.core.words import Folder
from ackd.formats import ignite
from ackd.storage import maildrop, message_lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackd.client.threads import Link
    from ackd.config.site import Site
    from ackd.storage.message_lookup import FoundMessage

#: How often parts are looked for that were sent while the others were asked for.
LOOKS: Final = 3
_LIVE: Final = frozenset(message_lookup.LIVE)
#: By the folder, where the file itself does not say how its message ended.
_STATES: Final = {Folder.ARCHIVE: "completed", Folder.DEAD: "dead"}
_FROM: Final = re.compile(rb"(?mi)^from:[ \t]*([^\s]+)")
#: Written by the daemon on what was withdrawn or cancelled, or has expired.
_ENDED: Final = re.compile(rb"(?mi)^x-ackd-ended:[ \t]*([a-z]+)")


class CancelRequest(NamedTuple):
    """A request to cancel a message for one recipient. ``path`` is None if it was over there already: ``state``."""

    message_id: str
    agent: str
    state: str
    path: str | None


def cancel(
    site: Site, message_ids: Sequence[str], agent: str | None, reason: str | None, *, tree: bool = False
) -> tuple[CancelRequest, ...]:
    """Ask for the messages to be cancelled. All are found, and the right to cancel each is checked, before the first
    request is written. ``MessageOver``: nothing is left to cancel."""
    by = sending_as(site, agent)
    wanted = [_found(site, by, one) for one in message_ids]
    known = threads.links(site, by_thread=True) if tree else {}
    branches = [_open_below(site, known, files[0].message_id) if tree else [] for files in wanted]
    _check_left(wanted, branches)
    check_reader(site)
    roots = [files[0].message_id for files in wanted]
    done: list[CancelRequest] = []
    with creating(site.receipts):
        for root, files, branch in zip(roots, wanted, branches, strict=True):
            done += _ask(site, root, [*files, *branch], by, reason)
        if tree:
            done += _ask_for_new(site, known, roots, by, reason, {one.message_id for one in done})
    return tuple(done)


def _ask(site: Site, root: str, files: list[FoundMessage], by: str, reason: str | None) -> list[CancelRequest]:
    open_ones = [one for one in files if one.folder in _LIVE]
    pairs = list(dict.fromkeys((one.message_id, site.resolve_address(one.box)) for one in open_ones))
    paths = maildrop.drop_cancellations(site.receipts, pairs, by, reason, root, fsync=site.fsync)
    asked = [
        CancelRequest(message_id, addressee, "open", str(path))
        for (message_id, addressee), path in zip(pairs, paths, strict=True)
    ]
    over = [one for one in files if one.folder not in _LIVE]
    return asked + [CancelRequest(one.message_id, one.box, _ended(one), None) for one in over]


def _ask_for_new(
    site: Site, known: dict[str, Link], roots: Sequence[str], by: str, reason: str | None, asked: set[str]
) -> list[CancelRequest]:
    """Ask for parts that were sent since they were looked for. Whoever does not let go at once may send more."""
    done: list[CancelRequest] = []
    for _ in range(LOOKS):
        if not threads.add_new(site, known, by_thread=True):
            break
        for root in roots:
            new = [one for one in _open_below(site, known, root) if one.message_id not in asked]
            done += _ask(site, root, new, by, reason)
            asked |= {one.message_id for one in new}
    return done


def _found(site: Site, by: str, wanted: str) -> list[FoundMessage]:
    """Every recipient's file of one message that ``by`` may cancel."""
    files = message_lookup.find(site.root, wanted)
    files = _every_file(site, files)
    senders = {sender for one in files if (sender := _header(one, _FROM)) is not None}
    if identity(by) != identity(USER) and identity(by) not in map(identity, senders):
        raise NotSender(files[0].message_id, by, min(senders, default=""))
    return files


def _every_file(site: Site, files: list[FoundMessage]) -> list[FoundMessage]:
    """Files on their way are found first, and alone; those of recipients that are dead belong to the message, too."""
    if files[0].folder not in _LIVE:
        return files
    dead = message_lookup.in_folders(site.root, (Folder.DEAD,), None)
    return [*files, *(one for one in dead if one.message_id == files[0].message_id)]


def _check_left(wanted: list[list[FoundMessage]], branches: list[list[FoundMessage]]) -> None:
    for files, branch in zip(wanted, branches, strict=True):
        if not branch and all(one.folder not in _LIVE for one in files):
            raise MessageOver(files[0].message_id, _ended(files[0]), "nothing is left to cancel")


def _ended(one: FoundMessage) -> str:
    """Say how a message that is over has ended."""
    return _header(one, _ENDED) or _STATES[one.folder]


# --- what came of a message -------------------------------------------------------------------------------------------
def came_of(site: Site, root_id: str) -> list[FoundMessage]:
    """Return the open messages that came of this one: its parts, what answers it or names it as its thread, and so on
    from each of them. Messages that are over are followed by the session log, so that what came of them is found. What
    only tells of something (a report, a notice, an escalation) is followed, and stays."""
    return _open_below(site, threads.links(site, by_thread=True), root_id)


def _open_below(site: Site, known: dict[str, Link], root_id: str) -> list[FoundMessage]:
    family = threads.settled_members(site, known, root_id)
    every = message_lookup.in_folders(site.root, message_lookup.LIVE, None)
    return [one for one in every if one.message_id in family and one.message_id != root_id and _is_work(one)]


def _is_work(one: FoundMessage) -> bool:
    fields = lineage.fields_at(one.path)
    automatic = ignite.is_automatic(fields.get("auto-submitted", "no"))
    return asks_for_work(fields.get("from", ""), fields.get("x-ignite-type", ""), automatic=automatic)


def _header(one: FoundMessage, pattern: re.Pattern[bytes]) -> str | None:
    head = re.split(rb"\r?\n\r?\n", message_lookup.read_head(one.path) or b"", maxsplit=1)[0]
    found = pattern.search(head)
    return found[1].decode(errors="replace") if found is not None else None
