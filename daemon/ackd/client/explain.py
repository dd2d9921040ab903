"""Explain one message: gather what the session logs and the disk know of it.

Works with and without a daemon, and for a message that no daemon has met yet. What the lines mean is decided in
client/message_history.py; here the message is found, its lines are read, and what the disk and the clock add is filled
in. Fails with ``UnknownMessage`` and ``AmbiguousMessage``, and with OSError where logs or directories cannot be read.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ackd.client import agent_lines, log_history, message_history
from ackd.core import message_ids
from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.core.message import Folder
from ackd.storage import message_lookup, root_lock
from ackd.storage.log_index import LineQuery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.client.message_history import MessageHistory, RecipientHistory
    from ackd.config.site import Site
    from ackd.storage.message_lookup import FoundMessage, Stray

_HEADERS: Final = (("from", rb"from"), ("type", rb"x-ignite-type"), ("priority", rb"x-ignite-priority"))


def explain(site: Site, wanted: str) -> MessageHistory:
    """Return the history of the message that ``wanted`` means: an id, a unique beginning of one, a hash, or a path."""
    message_id = find_id(site, wanted)
    logs = log_history.search(site)
    history = message_history.history_of(logs.find(LineQuery(about=message_id)), message_id)
    if not history.recipients:
        history = from_disk(site, history)
    history = replace(history, around=agent_lines.lines_around(logs, history))
    daemon_runs = root_lock.holder(site.run) is not None
    recipients = tuple(_completed(site, history, one, daemon_runs=daemon_runs) for one in history.recipients)
    return replace(history, recipients=recipients)


def _completed(site: Site, history: MessageHistory, one: RecipientHistory, *, daemon_runs: bool) -> RecipientHistory:
    """Add what the disk, the clock and the lines about the agent say of one recipient."""
    found = _file_of(site.root, history, one)
    state = message_history.corrected(one, found.folder if found else None)
    step = message_history.next_step(
        state,
        history.message_id,
        now=time.time(),
        agent_state=agent_lines.last_agent_state(log_history.search(site), one.whose),
        daemon_runs=daemon_runs,
    )
    attempts = agent_lines.attempt_counts((*history.events, *history.around), one.whose)
    path = found.path if found else _path_of_stray(site, history.message_id, one)
    return replace(state, path=path, next=step, attempts=attempts)


# --- which message is meant -------------------------------------------------------------------------------------------
def find_id(site: Site, wanted: str) -> str:
    """Return the one id that is meant, among those in the logs and those on disk.

    The archive is read only if nothing else knows the message: it may hold a month of mail.
    """
    bare = wanted.strip().removeprefix("<").removesuffix(">")
    bare = message_lookup.id_in(bare) or bare
    ids = log_history.search(site).ids(bare)
    if bare in ids:
        return bare
    on_disk = _on_disk(site, bare, (*message_lookup.LIVE, Folder.DEAD))
    if not ids and not on_disk:
        on_disk = _on_disk(site, bare, (Folder.ARCHIVE,))
    if not ids and not on_disk:
        on_disk = {one.message_id for one in _strays(site, wanted) if one.message_id}
    if len(on_disk) == 1 and not message_ids.fits(bare, next(iter(on_disk))):
        return on_disk.pop()  # ``wanted`` was the path of a file
    return message_ids.choose(bare, ids | on_disk)


def _on_disk(site: Site, wanted: str, folders: tuple[Folder, ...]) -> set[str]:
    try:
        return {one.message_id for one in message_lookup.find(site.root, wanted, folders=folders)}
    except UnknownMessage:
        return set()
    except AmbiguousMessage as error:
        return set(error.candidates)


def _strays(site: Site, wanted: str, agent: str | None = None) -> list[Stray]:
    """Return the strays that bear the wanted id, or lie under the wanted path."""
    found = message_lookup.strays(site.root, time.time(), agent)
    return [one for one in found if one.message_id and (message_ids.fits(wanted, one.message_id) or _is(one, wanted))]


def _is(one: Stray, wanted: str) -> bool:
    return "/" in wanted and os.path.abspath(wanted) == os.path.abspath(one.path)  # noqa: PTH100


# --- what the disk says -----------------------------------------------------------------------------------------------
def from_disk(site: Site, history: MessageHistory) -> MessageHistory:
    """Name the recipients of a message that no log mentions: none, if it is not on disk either."""
    files = message_lookup.files_of(site.root, history.message_id)
    if not files:
        strays = [one for one in _strays(site, history.message_id) if one.message_id == history.message_id]
        head = (message_lookup.read_head(strays[0].path) or b"") if strays else b""
        recipients = tuple(message_history.stray(one.box) for one in strays)
        return replace(history, recipients=recipients, header=_headers(head))
    head = message_lookup.read_head(files[0].path) or b""
    recipients = tuple(message_history.from_disk_alone(one.box, one.folder) for one in files)
    return replace(history, recipients=recipients, header=_headers(head))


def _headers(head: bytes) -> dict[str, str]:
    block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    found = {key: re.search(rb"(?mi)^" + name + rb":[ \t]*([^\r\n]*)", block) for key, name in _HEADERS}
    return {key: match[1].decode(errors="replace").strip() for key, match in found.items() if match}


def _path_of_stray(site: Site, message_id: str, one: RecipientHistory) -> Path | None:
    if one.state != "stray":
        return None
    return next((stray.path for stray in _strays(site, message_id, one.agent)), None)


def _file_of(root: Path, history: MessageHistory, one: RecipientHistory) -> FoundMessage | None:
    """Return the recipient's file, if there is one. The whole archive is read only if nothing else finds it."""
    message_id = history.message_id
    look: tuple[Callable[[], FoundMessage | None], ...] = (
        lambda: _in_hand_or_dead(root, message_id, one),
        lambda: _archived_by_name(root, message_id, one),
        lambda: _by_id(root, message_id, one.whose, (Folder.ARCHIVE,)) if _may_be_archived(root, one) else None,
    )
    return next((found for search in look if (found := search()) is not None), None)


def _in_hand_or_dead(root: Path, message_id: str, one: RecipientHistory) -> FoundMessage | None:
    """Return the recipient's file on its way or dead. A dead letter of a pool's is the pool's."""
    names = dict.fromkeys((one.whose, one.agent))
    found = (_by_id(root, message_id, name, (*message_lookup.LIVE, Folder.DEAD)) for name in names)
    return next(filter(None, found), None)


def _may_be_archived(root: Path, one: RecipientHistory) -> bool:
    """Say whether the archive could have the file under another name than the log's. Not if its days were removed: the
    archive is removed by whole days."""
    done = one.proof_of("completed")
    if done is None:
        return True
    at = datetime.fromisoformat(done.at).timestamp()
    near = [time.strftime("%Y%m%d", time.gmtime(at + days * 86_400)) for days in (-1, 0, 1)]
    return any((root / "archive" / name).is_dir() for name in near)


def _by_id(root: Path, message_id: str, agent: str, folders: tuple[Folder, ...]) -> FoundMessage | None:
    try:
        return message_lookup.find(root, message_id, agent=agent, folders=folders)[0]
    except UnknownMessage:
        return None


def _archived_by_name(root: Path, message_id: str, one: RecipientHistory) -> FoundMessage | None:
    """Look in the archive under the name that the log gives: it may hold a month of mail, too much to open it all."""
    name = (one.file or "").rpartition("/")[2]
    if not name:
        return None
    for path in (day / box / name for day in _days(root) for box in {one.whose, one.whose.replace("-", "_")}):
        if message_id.encode() in (message_lookup.read_head(path) or b""):
            return message_lookup.FoundMessage(message_id, one.whose, Folder.ARCHIVE, path)
    return None


def _days(root: Path) -> list[Path]:
    return sorted((root / "archive").glob("[0-9]*"), reverse=True)
