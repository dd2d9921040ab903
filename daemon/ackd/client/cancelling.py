"""Cancelling messages: a request for each recipient that has not finished, as receipt files.

Only a message's sender and ``user`` may cancel it. The daemon acts on a request when it reads it, now or when it
starts: a message of which nobody was told is withdrawn; an agent that has one in hand is told to let go of it, and then
the message is dead as ``cancelled``. A completion that came before counts. With ``tree``, the open messages that came
of it are cancelled with it.

Fails with ``NotSender``, ``UnknownAgent``, ``UnknownMessage``, ``AmbiguousMessage``, ``MessageOver``, ``CannotWrite``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client.errors import MessageOver, NotSender
from ackd.client.identity import agent_here
from ackd.client.writing import check_reader, creating
from ackd.core.errors import UnknownAgent
from ackd.core.names import USER, agent_name, identity
from ackd.core.words import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackd.config.site import Site
    from ackd.storage.message_lookup import FoundMessage

_LIVE: Final = frozenset({Folder.QUEUE, Folder.PROCESSED})
_STATES: Final = {Folder.ARCHIVE: "completed", Folder.DEAD: "dead"}
_FROM: Final = re.compile(rb"(?mi)^from:[ \t]*([^\s]+)")
_IN_REPLY_TO: Final = re.compile(rb"(?mi)^in-reply-to:[ \t]*<?([^>\s]+)")
_THREAD: Final = re.compile(rb"(?mi)^x-ignite-thread-id:[ \t]*([^\r\n]*[^\s])")


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
    from ackd.storage import maildrop

    by = _speaker(site, agent)
    wanted = [_found(site, by, one) for one in message_ids]
    branches = [came_of(site, files[0].message_id) if tree else [] for files in wanted]
    _check_left(wanted, branches)
    check_reader(site)
    done: list[CancelRequest] = []
    with creating(site.receipts):
        for files, branch in zip(wanted, branches, strict=True):
            root = files[0].message_id
            open_ones = [one for one in (*files, *branch) if one.folder in _LIVE]
            pairs = list(dict.fromkeys((one.message_id, site.resolve_address(one.box)) for one in open_ones))
            paths = maildrop.drop_cancellations(site.receipts, pairs, by, reason, root, fsync=site.fsync)
            done += [
                CancelRequest(message_id, holder, "open", str(path))
                for (message_id, holder), path in zip(pairs, paths, strict=True)
            ]
            done += [
                CancelRequest(one.message_id, one.box, _STATES[one.folder], None)
                for one in files
                if one.folder not in _LIVE
            ]
    return tuple(done)


def _speaker(site: Site, given: str | None) -> str:
    """Name who cancels: as the caller, the environment or the pane says; else it is a person."""
    name = given or agent_here(site) or USER
    try:
        return site.resolve_agent(name)
    except UnknownAgent:
        return agent_name(name, site.reserved)  # a sender need not be an agent of this team


def _found(site: Site, by: str, wanted: str) -> list[FoundMessage]:
    """Every recipient's file of one message that ``by`` may cancel."""
    from ackd.storage import message_lookup

    files = message_lookup.find(site.root, wanted)
    files = _every_file(site, files)
    senders = {sender for one in files if (sender := _header(one, _FROM)) is not None}
    if identity(by) != identity(USER) and identity(by) not in map(identity, senders):
        raise NotSender(files[0].message_id, by, min(senders, default=""))
    return files


def _every_file(site: Site, files: list[FoundMessage]) -> list[FoundMessage]:
    """Files on their way are found first, and alone; those of recipients that are dead belong to the message, too."""
    from ackd.storage import message_lookup

    if files[0].folder not in _LIVE:
        return files
    dead = message_lookup.in_folders(site.root, (Folder.DEAD,), None)
    return [*files, *(one for one in dead if one.message_id == files[0].message_id)]


def _check_left(wanted: list[list[FoundMessage]], branches: list[list[FoundMessage]]) -> None:
    for files, branch in zip(wanted, branches, strict=True):
        if not branch and all(one.folder not in _LIVE for one in files):
            raise MessageOver(files[0].message_id, _STATES[files[0].folder], "nothing is left to cancel")


# --- what came of a message -------------------------------------------------------------------------------------------
def came_of(site: Site, root_id: str) -> list[FoundMessage]:
    """Return the open messages that came of this one: those that answer it or stand in its thread, and so on from each
    of them. Messages that are over are followed by the session log, so that what came of them is found, too."""
    from ackd.storage import message_lookup

    found = {one.message_id: one for one in message_lookup.in_folders(site.root, tuple(_LIVE), None)}
    parents = {**_parents_by_log(site), **{key: _parents(one) for key, one in found.items()}}
    family, grown = {root_id}, True
    while grown:
        more = {key for key, above in parents.items() if key not in family and not family.isdisjoint(above)}
        grown = bool(more)
        family |= more
    every = message_lookup.in_folders(site.root, tuple(_LIVE), None)
    return [one for one in every if one.message_id in family and one.message_id != root_id]


def _parents(one: FoundMessage) -> frozenset[str]:
    found = (_header(one, _IN_REPLY_TO), _header(one, _THREAD))
    return frozenset(parent for parent in found if parent is not None and parent != one.message_id)


def _parents_by_log(site: Site) -> dict[str, frozenset[str]]:
    return {key: frozenset(above) for key, *above in _queued_lines(site) if above}


def _queued_lines(site: Site) -> Iterator[list[str]]:
    from ackd.core.message_facts import message_queued
    from ackd.storage import session_log

    for line in session_log.iter_logs(site.logs, containing=f'"{message_queued.type}"'.encode()):
        if line.type != message_queued.type:
            continue
        ids = [line.data.get(key) for key in ("message_id", "in_reply_to", "thread_id")]
        if isinstance(ids[0], str):
            yield [ids[0], *(one for one in ids[1:] if isinstance(one, str) and one != ids[0])]


def _header(one: FoundMessage, pattern: re.Pattern[bytes]) -> str | None:
    from ackd.storage.message_lookup import read_head

    head = re.split(rb"\r?\n\r?\n", read_head(one.path) or b"", maxsplit=1)[0]
    found = pattern.search(head)
    return found[1].decode(errors="replace") if found is not None else None
