"""Threads: a message, all that came of it, how far each has come, and who waits for whom.

A message comes of another if it is a part of it (``X-ACKD-Part-Of``) or answers it (``In-Reply-To``). The log says
both in the line of a message's arrival; of messages that no daemon has met yet, their files do. The functions below
``--- reading`` are the only ones that read the whole log. Others wrote these headers, so the messages may go round in a
circle, or be thousands deep: each is shown once, and nothing here calls itself. A message may name one that nobody
knows, and a file may bear the id of another message: what is known of an id by its first arrival counts.

Fails as client/explain.py does.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client import explain, lineage, message_history
from ackd.client.message_history import OVER
from ackd.core.message import MONITOR, identity
from ackd.core.message_facts import message_queued, message_waits
from ackd.formats import ignite
from ackd.storage import message_lookup, session_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from ackd.client.message_history import MessageHistory, RecipientHistory
    from ackd.config.site import Site
    from ackd.storage.message_lookup import FoundMessage
    from ackd.storage.session_log import Line

PART: Final = "part"
ANSWER: Final = "answer"
#: A message that belongs to the thread by its Thread-ID alone.
THREAD: Final = "thread"

#: A message of ackd's own that answers another: a dead letter's notice, or the one that all parts have ended.
NOTICE: Final = "notice"


class Link(NamedTuple):
    """A message that came of another. ``how``: ``part``, ``answer`` or ``thread``. ``thread_id``: another message that
    it names as its thread, if such were asked for."""

    message_id: str
    parent: str
    how: str
    thread_id: str = ""


class ThreadRecipient(NamedTuple):
    """A recipient of a message, and how far the message has come with it. ``queued_at`` and ``since`` (of its state):
    wall seconds, if the log has them. ``waits_for``: the agents whose work its holder waits for."""

    agent: str
    state: str
    queued_at: float | None
    since: float | None
    reason: str | None = None
    waits_for: tuple[str, ...] = ()
    #: For a message to a pool: the member that has it, or had it when it ended.
    holder: str = ""


class ThreadMessage(NamedTuple):
    """A message of a thread. ``depth`` is 0 for the first. ``how`` it came of ``parent`` (part, answer, notice) is None
    there. ``sender`` and ``type`` are None if nothing tells."""

    message_id: str
    parent: str | None
    how: str | None
    depth: int
    sender: str | None
    type: str | None
    recipients: tuple[ThreadRecipient, ...]

    @property
    def is_open(self) -> bool:
        return any(one.state not in OVER for one in self.recipients)


class Thread(NamedTuple):
    """``asked``: the message that was asked for. ``messages``: each before those that came of it, which follow in the
    order in which they were sent."""

    asked: str
    messages: tuple[ThreadMessage, ...]

    @property
    def root(self) -> str:
        return self.messages[0].message_id


def thread(site: Site, wanted: str, *, whole: bool = True) -> Thread:
    """Return the thread of the message that ``wanted`` means: from its first message on, or (not ``whole``) from the
    message itself on."""
    asked = explain.find_id(site, wanted)
    known = links(site)

    def above() -> list[str]:
        return _line_of(known, asked) if whole else [asked]

    told = settled(site, known, lambda: [one.message_id for one, _ in _in_order(known, above()[-1])])
    line = above()
    is_known = len(line) == 1 or bool(told[line[-1]].recipients)
    placed = _in_order(known, line[-1] if is_known else line[-2])
    return Thread(asked, tuple(_with_waits([_described(told[one.message_id], one, depth) for one, depth in placed])))


def _line_of(known: Mapping[str, Link], message_id: str) -> list[str]:
    """Return the message, the one that it came of, and so on to the first, of which perhaps nothing else is known; in a
    circle, to the one that was met last."""
    found = {message_id: None}
    while (link := known.get(message_id)) is not None and link.parent not in found:
        message_id = link.parent
        found[message_id] = None
    return list(found)


def _in_order(known: Mapping[str, Link], first: str) -> list[tuple[Link, int]]:
    """Return all that came of the first message, depth first, each once. ``known`` is in the order of arrival."""
    children: dict[str, list[Link]] = {}
    for link in known.values():
        children.setdefault(link.parent, []).append(link)
    found: list[tuple[Link, int]] = []
    met: set[str] = set()
    rest = [(Link(first, "", ""), 0)]
    while rest:
        link, depth = rest.pop()
        if link.message_id in met:
            continue
        met.add(link.message_id)
        found.append((link, depth))
        rest += [(child, depth + 1) for child in reversed(children.get(link.message_id, []))]
    return found


def _described(told: MessageHistory, link: Link, depth: int) -> ThreadMessage:
    header = told.header
    return ThreadMessage(
        told.message_id,
        link.parent or None,
        NOTICE if header.get("from") == MONITOR and link.how == ANSWER else link.how or None,
        depth,
        header.get("from"),
        header.get("type"),
        tuple(_recipient(told, one) for one in told.recipients),
    )


def _recipient(told: MessageHistory, one: RecipientHistory) -> ThreadRecipient:
    """Describe one recipient by the lines about it. Its state is as old as the last line that made it."""
    queued_at = since = None
    waits: tuple[str, ...] = ()
    before = None
    for line in told.events:
        if identity(message_history.addressee(line)) != identity(one.agent):
            continue
        if line.type == message_waits.type:
            waits = tuple(map(str, line.data.get("waits_for") or ()))
        if message_history.recipient_of(line) is None:
            continue
        if line.type == message_queued.type:
            queued_at = queued_at or line.at
        after = message_history.after_line(before or message_history.RecipientHistory(one.agent), line)
        if before is None or after.state != before.state:
            since = line.at
        before = after
    reason = one.reason if one.state in ("retrying", "dead", "cancelled", "withdrawn") else None
    waits = () if one.state in OVER else waits
    return ThreadRecipient(one.agent, one.state, queued_at, since, reason, waits, one.holder)


def _with_waits(messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    """Add the agents that have parts which are open: whoever sent those waits for them, while it has the message."""
    awaited: dict[tuple[str, str], list[str]] = {}
    for one in messages:
        if one.how == PART and one.parent is not None and one.sender is not None:
            open_ones = [to.agent for to in one.recipients if to.state not in OVER]
            awaited.setdefault((one.parent, identity(one.sender)), []).extend(open_ones)
    return [
        one._replace(
            recipients=tuple(
                to
                if to.state in OVER
                else to._replace(
                    waits_for=tuple(
                        dict.fromkeys(
                            (*awaited.get((one.message_id, identity(to.holder or to.agent)), ()), *to.waits_for)
                        )
                    )
                )
                for to in one.recipients
            )
        )
        for one in messages
    ]


# --- all that comes of messages ---------------------------------------------------------------------------------------
def members(known: Mapping[str, Link], message_id: str) -> dict[str, bool]:
    """Return the message and all that came of it; True for those that somebody still has to deal with: the message
    itself, and parts. An answer only informs, but what came of it counts."""
    children: dict[str, list[Link]] = {}
    for link in known.values():
        for parent in filter(None, (link.parent, link.thread_id)):
            children.setdefault(parent, []).append(link)
    found = {message_id: True}
    rest = deque([message_id])
    while rest:
        for link in children.get(rest.popleft(), ()):
            if link.message_id not in found:
                found[link.message_id] = link.how == PART
                rest.append(link.message_id)
    return found


def settled(site: Site, known: dict[str, Link], wanted: Callable[[], Iterable[str]]) -> dict[str, MessageHistory]:
    """Return the histories of the messages that ``wanted`` names by ``known``, from which links are removed that only a
    file with a copied id has."""
    told: dict[str, MessageHistory] = {}
    while True:
        ids = list(wanted())
        told |= histories(site, [one for one in ids if one not in told])
        if not _without_copies(known, {one: told[one].events for one in ids}):
            return {one: told[one] for one in ids}


def settled_members(site: Site, known: dict[str, Link], message_id: str) -> dict[str, bool]:
    """Return ``members``, after such links were removed from ``known``."""
    while True:
        found = members(known, message_id)
        others = found.keys() - {message_id}
        if not others or not _without_copies(known, lines_of(site, others)):
            return found


def _without_copies(known: dict[str, Link], lines: Mapping[str, Sequence[Line]]) -> bool:
    """Remove the links of messages whose first arrival had none. Return whether there were any."""
    copied = []
    for message_id in lines.keys() & known.keys():
        first = next((line for line in lines[message_id] if line.type == message_queued.type), None)
        if first is not None and link_of(first, by_thread=known[message_id].how == THREAD) is None:
            copied.append(message_id)
    for message_id in copied:
        del known[message_id]
    return bool(copied)


def histories(site: Site, ids: Iterable[str]) -> dict[str, MessageHistory]:
    """Return the histories of messages. The queues are looked at before the log is read: what has left a queue by then
    is in the log."""
    wanted = dict.fromkeys(ids)
    files = waiting_files(site, wanted)
    lines = lines_of(site, wanted.keys())
    return {one: _history(site, one, lines.get(one, []), files.get(one, [])) for one in wanted}


def _history(site: Site, message_id: str, lines: list[Line], files: list[FoundMessage]) -> MessageHistory:
    history = message_history.history_of(lines, message_id)
    if not history.recipients and not files:
        return explain.from_disk(site, history)  # dead or archived, and no log tells of it; or nobody knows it
    found = {identity(file.box): file for file in files}
    told = tuple(
        message_history.corrected(one, found[identity(one.whose)].folder) if identity(one.whose) in found else one
        for one in history.recipients
    )
    unmet = found.keys() - {identity(name) for one in history.recipients for name in (one.agent, one.whose)}
    told += tuple(message_history.from_disk_alone(found[who].box, found[who].folder) for who in sorted(unmet))
    header = history.header or _header(files[0].path)
    return replace(history, recipients=told, header=header)


def _header(path: Path) -> dict[str, str]:
    fields = lineage.fields_at(path)
    named = {"from": fields.get("from"), "type": fields.get("x-ignite-type")}
    return {key: value for key, value in named.items() if value}


# --- reading ----------------------------------------------------------------------------------------------------------
_LINKED: Final = re.compile(rb'"(?:part_of|in_reply_to)": ?"')
_LINKED_BY_THREAD: Final = re.compile(rb'"(?:part_of|in_reply_to|thread_id)": ?"')
_ID: Final = re.compile(rb'"message_id": ?"([^"\\]*)"')


def links(site: Site, *, by_thread: bool = False) -> dict[str, Link]:
    """Return every message that came of another, in the order of arrival. ``by_thread``: also messages that say so by
    their Thread-ID, which may be the name of a thread and no message's id."""
    files = list(message_lookup.in_folders(site.root, message_lookup.LIVE, None))
    found: dict[str, Link] = {}
    for path in session_log.session_files(site.logs):
        for line in session_log.read_lines(path, only=_LINKED_BY_THREAD if by_thread else _LINKED):
            if (link := link_of(line, by_thread=by_thread)) is not None:
                found.setdefault(link.message_id, link)
    _add_files(found, files, by_thread=by_thread)
    return found


def add_new(site: Site, known: dict[str, Link], *, by_thread: bool = False) -> bool:
    """Add messages that have come into the queues since. Return whether there are any that came of another."""
    before = len(known)
    _add_files(known, message_lookup.in_folders(site.root, message_lookup.LIVE, None), by_thread=by_thread)
    return len(known) > before


def _add_files(found: dict[str, Link], files: Iterable[FoundMessage], *, by_thread: bool) -> None:
    for file in files:
        if file.message_id not in found and (unmet := _link_in(file, by_thread=by_thread)) is not None:
            found[unmet.message_id] = unmet


def link_of(line: Line, *, by_thread: bool = False) -> Link | None:
    """Return the message that has come, by this line, and that it came of; None for all other lines."""
    if line.type != message_queued.type:
        return None
    message_id, part_of, answers, thread_id = map(line.data.get, ("message_id", "part_of", "in_reply_to", "thread_id"))
    return _link(message_id, part_of, answers, thread_id if by_thread else None)


def _link(message_id: object, part_of: object, answers: object, thread_id: object) -> Link | None:
    for parent, how in ((part_of, PART), (answers, ANSWER), (thread_id, THREAD)):
        if isinstance(message_id, str) and isinstance(parent, str) and parent and parent != message_id:
            other = isinstance(thread_id, str) and thread_id not in (message_id, parent)
            return Link(message_id, parent, how, str(thread_id) if other else "")
    return None


def _link_in(file: FoundMessage, *, by_thread: bool) -> Link | None:
    fields = lineage.fields_at(file.path)
    part_of, answers = (ignite.bare_id(fields.get(name, "")) for name in ("x-ackd-part-of", "in-reply-to"))
    return _link(file.message_id, part_of, answers, fields.get("x-ignite-thread-id") if by_thread else None)


def lines_of(site: Site, ids: AbstractSet[str]) -> dict[str, list[Line]]:
    """Return the lines about each of these messages, oldest first."""
    found: dict[str, list[Line]] = {}
    raw_ids = {one.encode() for one in ids}
    for path in session_log.session_files(site.logs):
        for chunk in session_log.chunks(path):
            for raw in chunk.split(b"\n"):
                about = _ID.search(raw)
                if about is None or about[1] not in raw_ids:
                    continue
                line = session_log.parse_line(raw)
                if line is not None and (of := line.data.get("message_id")) in ids:
                    found.setdefault(str(of), []).append(line)
    return found


def waiting_files(site: Site, ids: Iterable[str]) -> dict[str, list[FoundMessage]]:
    """Return the files of these messages that lie in the queues, and in processed/."""
    wanted = set(ids)
    found: dict[str, list[FoundMessage]] = {}
    for file in message_lookup.in_folders(site.root, message_lookup.LIVE, None):
        if file.message_id in wanted:
            found.setdefault(file.message_id, []).append(file)
    return found
