"""Finds out what became of messages that are not where they were, and writes the lines that a crash swallowed.

There are two sources: the journal for messages in hand, and the logs of earlier sessions for messages that were only
met. The lines that are written have ``recovered: true``. Nothing here moves a file, and a line is only written if no
earlier session has written it, so this may be interrupted and done again.

The journal is told of every move before the move. So a message that it names, and that is not where it was, lies in the
archive or in dead_letter/, or was deleted by its agent.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ackd.core import events
from ackd.core.daemon_facts import io_error, log_continued, session_end
from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place, identity
from ackd.core.message_facts import (
    message_claimed,
    message_completed,
    message_dead,
    message_duplicate,
    message_handed_back,
    message_queued,
    message_rejected,
    message_requeued,
    message_withdrawn,
)
from ackd.core.names import dead_letter_recipient
from ackd.core.parts import PartEnd
from ackd.core.signals import MessageEnded, MessageMet
from ackd.core.words import MessageEnd
from ackd.formats import ignite
from ackd.storage import session_log
from ackd.storage.journal import PutAway, TakenIn, part_key
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ackd.core.engine import Engine
    from ackd.core.fact import Fact
    from ackd.core.ports import Services
    from ackd.storage.journal import Journal, PartKey
    from ackd.storage.session_log import Line
    from ackd.storage.spool import Reason, Spool

_BEGINS: Final = frozenset({message_queued.type, message_claimed.type, message_handed_back.type, message_requeued.type})
_TERMINAL: Final = frozenset(
    {message_completed.type, message_dead.type, message_withdrawn.type, message_duplicate.type}
)
#: Longest number that is believed in a header, because anyone may have written it.
_MAX_DIGITS: Final = 6

#: Message id and identity of the agent: the message that a log line is about.
_About: TypeAlias = tuple[str, str]
#: The same, and True if it is about a duplicate.
_Which: TypeAlias = tuple[str, str, bool]
_Told: TypeAlias = dict[_Which, tuple[float, str]]


@dataclass(frozen=True)
class _DeadLetter:
    """When the message died (0: its header does not say), and the fields of its log line."""

    at: float
    words: dict[str, Any]


@dataclass(kw_only=True)
class MissingMessages:
    spool: Spool
    engine: Engine
    services: Services
    journal: Journal
    logs_dir: Path
    #: The first log of this session, which itself records what becomes of its messages.
    own_log: Path
    #: Returns an agent's directory in queue/.
    box: Callable[[str], str]
    #: Parts of which the journal knows that they have ended, and when.
    known_parts: dict[PartKey, float] = field(default_factory=dict)
    #: Queue directories that are gone or were replaced. A message that is missing there was not completed.
    lost_boxes: frozenset[str] = frozenset()
    _known: set[_About] = field(default_factory=set)
    _kept: list[tuple[str, Reason]] = field(default_factory=list)
    #: Messages that this session has met. None when they are not needed any more.
    _met_here: set[_About] | None = field(default_factory=set)
    #: Files that could not be read, which was logged.
    _unread: set[str] = field(default_factory=set)

    # --- messages that the journal names ------------------------------------------------------------------------------
    def was_completed(self, entry: TakenIn) -> bool:
        """True if a message that was in hand, and is not in processed/, lies in the archive.

        Then the last daemon died before it told the journal. The message is remembered as completed, so that any other
        file with its id and content is recognised as a second copy.
        """
        kept = self._in_archive(entry)
        if kept is None or self._withdrawn_because(kept) is not None:
            return False
        self.engine.state.completed.remember(entry.message_id, entry.addressee, entry.digest, entry.at)
        return True

    def settle(self, gone: list[TakenIn], unsure: Callable[[TakenIn], bool] = lambda _: False) -> None:
        """Write the ends of messages that the journal had in hand and that were not met.

        ``unsure`` returns True if another message may have been written over this one before it was claimed. Then only
        an end that is on disk is believed.
        """
        if not gone:
            return
        told, dead_letters = self._told_by_log(min(entry.at for entry in gone)), self._dead_letters()
        lost: dict[str, list[Place]] = {}
        for entry in gone:
            end, line = self._what_became_of(entry, dead_letters)
            if "file" not in line.data and unsure(entry):
                continue
            now = self.services.clock.now().wall
            self.let_go(entry, end, now)
            still_dead = entry.late and end is MessageEnd.DEAD
            if not still_dead and not _is_told(told, entry, line):
                self._write_down_arrival(entry)
                self._write_down(entry, end, line)
            self._tell_of_part(entry, end, line)
            if end is MessageEnd.COMPLETED:
                self.engine.state.completed.remember(entry.message_id, entry.addressee, entry.digest, now)
            elif end is MessageEnd.WITHDRAWN and entry.box in self.lost_boxes:
                lost.setdefault(entry.box, []).append(Place(entry.box, Folder.PROCESSED, entry.name))
        for box, places in lost.items():
            self.services.post(events.SpoolLost(box, tuple(places)))

    def let_go(self, entry: TakenIn, end: MessageEnd, now_wall: float) -> None:
        self.journal.let_go(
            PutAway(
                agent=entry.agent,
                message_id=entry.message_id,
                name=entry.name,
                end=end,
                digest=entry.digest,
                at=now_wall,
                pool=entry.pool,
            )
        )

    def is_back_in_pool(self, entry: TakenIn) -> bool:
        """True if a message that an agent had in hand for its pool lies in the pool's queue: it was given back, or had
        not left it yet."""
        if not entry.pool:
            return False
        places = self.spool.namesakes(Place(self.box(entry.pool), Folder.QUEUE, entry.name))
        return any(self.bears_id(place, entry) is not False for place in places)

    def _tell_of_part(self, entry: TakenIn, end: MessageEnd, line: Fact) -> None:
        """Tell the engine of a part that has ended: whoever sent it is told when all have."""
        if not entry.part_of or entry.is_duplicate:
            return
        reason = str(line.data.get("reason", "")) if end is MessageEnd.DEAD else ""
        part = PartEnd(
            parent=entry.part_of,
            holder=entry.sender,
            message_id=entry.message_id,
            agent=entry.addressee,
            type=entry.type,
            end=end,
            at=self.services.clock.now().wall,
            reason=reason,
        )
        if self.known_parts.get(part_key(part), -1.0) >= entry.at:
            return  # the journal knows, and only the end of the message had not reached it
        self.journal.note(part)
        self.services.post(events.PartEnded(part, entry.notify))

    def _write_down_arrival(self, entry: TakenIn) -> None:
        """Write the line of the arrival, as for every message that a start finds. The crash may have swallowed that
        line, too, and an end must not stand alone in the log."""
        file = str(Place(entry.box, Folder.PROCESSED, entry.name))
        self.services.record(
            message_queued(
                message_id=entry.message_id,
                agent=entry.addressee,
                from_=entry.sender,
                message_type=entry.type,
                file=file,
                recovered=True,
            )
        )
        self.services.emit(MessageMet(entry.message_id, entry.addressee))

    def _write_down(self, entry: TakenIn, end: MessageEnd, line: Fact) -> None:
        totals = self.engine.state.totals
        self.services.record(line)
        self.services.emit(MessageEnded(entry.message_id, entry.addressee, end))
        totals.completed += end is MessageEnd.COMPLETED
        totals.withdrawn += end is MessageEnd.WITHDRAWN
        totals.duplicates += end is MessageEnd.DUPLICATE

    def _what_became_of(
        self, entry: TakenIn, dead_letters: dict[_About, _DeadLetter], *, in_hand: bool = True
    ) -> tuple[MessageEnd, Fact]:
        """Find the end of a message, by its id wherever that can be read: the end, and the line that says so.

        A message that is nowhere on disk was completed by its agent, if it was in hand: deleting its file is how an
        agent does that. Otherwise it was withdrawn.

        If the message both died and was completed, because it was sent again in between, the later end is the one of
        this delivery.
        """
        kept, dead_letter = self._in_archive(entry), dead_letters.get((entry.message_id, identity(entry.addressee)))
        if kept is None and entry.box not in self.lost_boxes and (dead_letter is None or entry.is_duplicate):
            kept = self._perhaps_in_archive(entry)
        file = str(kept) if kept is not None else None
        about = _fields_about(entry)
        if entry.is_duplicate:
            return MessageEnd.DUPLICATE, message_duplicate(**about, file=file)
        if dead_letter is not None and (kept is None or dead_letter.at >= int(entry.at)):  # ``at`` has whole seconds
            return MessageEnd.DEAD, message_dead(**about, from_=entry.sender, **dead_letter.words)
        if kept is not None and (why := self._withdrawn_because(kept)) is not None:
            return MessageEnd.WITHDRAWN, message_withdrawn(**about, reason=why)
        if kept is not None:
            return MessageEnd.COMPLETED, message_completed(**about, by="found in the archive", file=file)
        if entry.box in self.lost_boxes:
            reason = "spool_lost: its directory was removed or replaced while ackd was away"
            return MessageEnd.WITHDRAWN, message_withdrawn(**about, reason=reason)
        if (moved_to := self._given_to_another(entry)) is not None:
            reason = f"moved by hand to {moved_to} while ackd was away"
            return MessageEnd.WITHDRAWN, message_withdrawn(**about, reason=reason)
        if not in_hand:
            reason = "file deleted from the queue while ackd was away"
            return MessageEnd.WITHDRAWN, message_withdrawn(**about, reason=reason)
        return MessageEnd.COMPLETED, message_completed(**about, by="file deleted by its agent while ackd was away")

    def _withdrawn_because(self, kept: Place) -> str | None:
        """Return why an archived message was withdrawn, as its header says; None if it was completed."""
        try:
            fields = ignite.split_head(self.spool.head(kept)).fields
        except (OSError, BadMessage):
            return None
        return fields.get("x-ignite-error-reason", "unknown") if fields.get("x-ackd-ended") == "withdrawn" else None

    def _given_to_another(self, entry: TakenIn) -> Place | None:
        """Return the place of the file, under its name, in the queue of an agent that its headers do not name."""
        for box in self.spool.boxes():
            for folder in (Folder.QUEUE, Folder.PROCESSED):
                place = Place(box, folder, entry.name)
                if box != entry.box and not self.spool.is_gone(place) and self._is_it(place, entry):
                    fields = ignite.split_head(self.spool.head(place)).fields
                    names = f"{fields.get('to', '')},{fields.get('cc', '')}".split(",")
                    if identity(box) not in {identity(name.strip()) for name in names}:
                        return place
        return None

    def _in_archive(self, entry: TakenIn) -> Place | None:
        """Return the archived file with the message's id and content. Another message may have had the same name, or a
        copied id."""
        return next((place for place in self.archived(entry) if self._is_it(place, entry)), None)

    def _perhaps_in_archive(self, entry: TakenIn) -> Place | None:
        """Return an archived file with the message's name, and with its id or an unreadable one: its agent may have
        written into the file."""
        return next((place for place in self.archived(entry) if self.bears_id(place, entry) is not False), None)

    def _is_it(self, place: Place, entry: TakenIn) -> bool:
        """True if the file is the message, by id and content.

        The id alone decides for a message that only the log names (its digest is unknown), and for a duplicate, which
        completes nothing.
        """
        if not self.bears_id(place, entry):
            return False
        if not entry.digest or entry.is_duplicate:
            return True
        try:
            found = ignite.decode(self.spool.read(place).data, entry.agent, extra_types=frozenset({entry.type}))
        except (OSError, BadMessage):
            return False
        return found.digest == entry.digest

    def bears_id(self, place: Place, entry: TakenIn) -> bool | None:
        """Tell whether the file has the message's id. None if it cannot be read, or is no message."""
        try:
            found = ignite.split_head(self.spool.head(place)).fields.get("message-id")
        except (OSError, BadMessage):
            return None
        return None if found is None else ignite.bare_id(found) == entry.message_id

    def may_lie_there(self, entry: TakenIn) -> bool:
        return next(self.still_to_read(entry), None) is not None

    def still_to_read(self, entry: TakenIn) -> Iterator[Place]:
        """Yield files in queue/ or processed/ under the message's name that may be the message.

        A file with another id is another message, whose sender used the name again. A file that cannot be read may be
        the message.
        """
        return (place for place in self.under_its_name(entry) if self.bears_id(place, entry) is not False)

    def under_its_name(self, entry: TakenIn) -> Iterator[Place]:
        """Yield the places in queue/ and processed/ under the message's name where a file lies, or that cannot be
        looked at."""
        places = (Place(entry.box, folder, entry.name) for folder in (Folder.QUEUE, Folder.PROCESSED))
        return (place for place in places if not self.spool.is_gone(place))

    def archived(self, entry: TakenIn) -> Iterator[Place]:
        """Yield the files in the archive under the names that the message may have got there, the newest day first."""
        since = datetime.fromtimestamp(entry.at, UTC).date() - timedelta(days=1)
        today = datetime.fromtimestamp(self.services.clock.now().wall, UTC).date()
        for n in range(min(max((today - since).days, 0), 3660) + 1):
            day = (today - timedelta(days=n)).strftime("%Y%m%d")
            yield from self.spool.namesakes(Place(entry.box, Folder.ARCHIVE, f"{day}/{entry.name}"))

    def _dead_letters(self) -> dict[_About, _DeadLetter]:
        """Read the dead letters, by message id and recipient (one id may have died at several recipients)."""
        found: dict[_About, _DeadLetter] = {}
        for name, head in self._letters():
            try:
                fields = ignite.split_head(head).fields
            except BadMessage:
                continue  # no message, or one that was written over
            to = dead_letter_recipient(fields.get("x-ignite-recipient"), fields.get("to")) or ""
            about = ignite.bare_id(fields.get("message-id", "")), identity(to)
            count = fields.get("x-ignite-retry-count", "")
            words: dict[str, Any] = {
                "reason": fields.get("x-ignite-error-reason", "unknown"),
                "retry_count": int(count) if count.isdecimal() and len(count) <= _MAX_DIGITS else 0,
                "file": str(Place(to, Folder.DEAD, name)),
            }
            if (end := fields.get("x-ackd-ended")) in ("cancelled", "expired"):
                words["end"] = end
            dead_letter = _DeadLetter(_wall(fields.get("x-ignite-error-at", "")), words)
            if about not in found or found[about].at <= dead_letter.at:
                found[about] = dead_letter
        return found

    def _letters(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and header of each dead letter. Those that cannot be read are logged and left out."""
        folder = self.spool.dead_letters
        with self._logging_unread("list queue/dead_letter"):
            for name in folder.files():
                with self._logging_unread(f"read queue/dead_letter/{name}"):
                    head = folder.head(name)
                    if head is not None:
                        yield name, head

    def _told_by_log(self, since: float) -> _Told:
        """Read from the logs since a time which ends of messages were written, and when: the last one of each."""
        told: _Told = {}
        paths: list[Path] = []
        with self._logging_unread("list logs"):
            paths = session_log.session_files(self.logs_dir)
        for path in reversed(paths):
            with self._logging_unread(f"read logs/{path.name}"):
                for line in _backwards(path):
                    if line.at < since:
                        return told
                    if line.type in _TERMINAL:
                        told.setdefault((*_about(line), line.type == message_duplicate.type), (line.at, line.type))
        return told

    @contextlib.contextmanager
    def _logging_unread(self, what: str) -> Iterator[None]:
        """Log a file that cannot be read, once each, and go on."""
        try:
            yield
        except OSError as error:
            self._log_unread(what, error)

    def _log_unread(self, what: str, error: OSError) -> None:
        if what not in self._unread:
            self._unread.add(what)
            self.services.record(io_error(what=what, error=str(error)))

    @property
    def has_read_all(self) -> bool:
        """True if nothing was unreadable so far."""
        return not self._unread

    # --- messages that only the log names -----------------------------------------------------------------------------
    def leave_open(self, met: Iterable[_About], kept: Iterable[tuple[str, Reason | None]]) -> None:
        """Note for ``fill_in`` what the start has found: messages that it met or dealt with, quarantined files."""
        self._known = set(met)
        self._kept = [(name, reason) for name, reason in kept if reason is not None]

    def was_met(self, message: MessageMet | MessageEnded) -> None:
        """Note a message that this session has met, at its start or since. This session itself records its end."""
        if self._met_here is not None:
            self._met_here.add((message.message_id, identity(message.agent)))

    async def fill_in(self) -> None:
        """Write the ends of messages whose arrival is in an earlier log and whose end is not.

        Runs beside the deliveries, because a log may be long. It is needed after a clean stop, too: a waiting file may
        be removed while no daemon runs, or so shortly before a stop that its removal could not be proven any more.
        """
        try:
            told, unread = await in_thread(self._read_sessions)
            for what, error in unread.items():
                self._log_unread(what, error)
            dead_letters = self._dead_letters() if told.opened else {}
            for line in told.opened.values():
                self._end_untold(line, dead_letters)
            for name, reason in self._kept:
                if name not in told.rejected and _wall(reason.at) >= told.since - 1:  # ``at`` has whole seconds
                    self._say_rejected(name, reason)
        finally:
            self._met_here = None

    def _read_sessions(self) -> tuple[_Sessions, dict[str, OSError]]:
        """Read the log of the last session that stopped cleanly, and all logs since.

        Older logs are not needed, because a start writes a line for everything that it finds (unless it is stopped
        before it has read a long queue to its end). If a log cannot be read, the logs before it are not believed: the
        ends of their messages may be in the unreadable one.
        """
        told, unread = _Sessions(), dict[str, OSError]()
        try:
            paths = self._sessions()
        except OSError as error:
            return told, {"list logs": error}
        for path in paths:
            try:
                for line in session_log.read_lines(path):
                    told.add(line)
            except OSError as error:
                told = _Sessions()
                unread[f"read logs/{path.name}"] = error
        return told, unread

    def _sessions(self) -> list[Path]:
        """List the logs to read, oldest first, without those of this session.

        A log that its session went on in may say from which one on all messages that were open then have their lines:
        older ones are not needed.
        """
        found: list[Path] = []
        ended: bool | None = None  # whether the session whose files are passed stopped cleanly
        needed_from = ""
        for path in reversed(session_log.session_files(self.logs_dir)):
            if session_log.age_order(path.name) >= session_log.age_order(self.own_log.name):
                continue
            found.append(path)
            try:
                first, last = next(iter(session_log.read_lines(path)), None), next(_backwards(path), None)
            except OSError:  # ``_read_sessions`` reports it
                break
            ended = (last is not None and last.type == session_end.type) if ended is None else ended
            goes_on = first is not None and first.type == log_continued.type
            if first is not None and goes_on and not needed_from:
                needed_from = str(first.data.get("needed_from", ""))
            if needed_from and session_log.age_order(path.name) <= session_log.age_order(needed_from):
                break
            if not goes_on:
                if ended and not needed_from:
                    break
                ended = None
        return found[::-1]

    def _end_untold(self, line: Line, dead_letters: dict[_About, _DeadLetter]) -> None:
        place = _place(str(line.data.get("file", "")))
        if _about(line) in self._known or _about(line) in (self._met_here or ()):
            return
        if place is None:
            return
        message_id, agent = str(line.data["message_id"]), str(line.data.get("agent"))
        if line.type == message_handed_back.type:
            agent = str(line.data.get("pool"))  # nobody had it
        entry = TakenIn(
            agent, message_id, place.box, place.name, "", str(line.data.get("from")), "", 0, line.at, **_part(line)
        )
        if line.type == message_claimed.type:
            entry = replace(entry, pool=str(line.data.get("pool", "")))
        if self.may_lie_there(entry) or self.is_back_in_pool(entry):
            return
        end, last = self._what_became_of(entry, dead_letters, in_hand=line.type == message_claimed.type)
        self._write_down(entry, end, last)
        self._tell_of_part(entry, end, last)

    def _say_rejected(self, name: str, reason: Reason) -> None:
        """Write the line of a quarantined file that the last session could not write before it died."""
        about: dict[str, Any] = {"file": f"receipts/{reason.name}"}
        if reason.queue:
            part = "/processed" if reason.folder == Folder.PROCESSED.value else ""
            about = {"file": f"queue/{reason.queue}{part}/{reason.name}", "agent": reason.queue}
        self.services.record(
            message_rejected(**about, code=reason.code, reason=reason.detail, kept_as=name, recovered=True)
        )


@dataclass
class _Sessions:
    """Messages whose arrival the logs have and whose end they lack; quarantined files that they name; their earliest
    time."""

    opened: dict[_About, Line] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    since: float = float("inf")

    def add(self, line: Line) -> None:
        self.since = min(self.since, line.at)
        if line.type in _BEGINS and "message_id" in line.data:
            self.opened[_about(line)] = line
        elif line.type in _TERMINAL:
            self.opened.pop(_about(line), None)
        elif line.type == message_rejected.type:
            self.rejected.add(str(line.data.get("kept_as")))


def _which(entry: TakenIn) -> _Which:
    return entry.message_id, identity(entry.addressee), entry.is_duplicate


def _is_told(told: _Told, entry: TakenIn, line: Fact) -> bool:
    """True if the log already has the end of this message.

    A line from before the message was taken in is about an earlier delivery, and does not count. Lines about duplicates
    are kept apart (``_which``). A line of its death does not count either if the file lies in the archive: then it was
    completed while it was being moved to dead_letter/, and archived from there.
    """
    at, said = told.get(_which(entry), (0.0, line.type))
    completed_late = said == message_dead.type and line.type == message_completed.type and "file" in line.data
    return at >= entry.at and not completed_late


def _fields_about(entry: TakenIn) -> dict[str, Any]:
    about: dict[str, Any] = {"message_id": entry.message_id, "agent": entry.agent, "recovered": True}
    return {**about, "pool": entry.pool} if entry.pool else about


def _part(line: Line) -> dict[str, Any]:
    """The fields of a journal entry that say whether the message is a part."""
    part_of, notify = line.data.get("part_of"), line.data.get("notify")
    return {
        "part_of": part_of if isinstance(part_of, str) else "",
        "notify": notify if isinstance(notify, bool) else None,
    }


def _about(line: Line) -> _About:
    return _whose(line.data)


def _whose(data: Mapping[str, object]) -> _About:
    return str(data.get("message_id")), identity(str(data.get("pool") or data.get("agent")))


def _wall(stamp: str) -> float:
    """Parse a time. 0 if it is none: anyone may have written over a reason file or the header of a dead letter."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _backwards(path: Path) -> Iterator[Line]:
    """Yield the lines of one log, newest first."""
    return session_log.iter_logs(path.parent, newest_first=True, ends={path: session_log.end_of_lines(path)})


def _place(file: str) -> Place | None:
    """Parse ``str(Place)`` of a message that waited or was in hand. None for any other place."""
    match file.split("/"):
        case ["queue", box, name]:
            return Place(box, Folder.QUEUE, name)
        case ["queue", box, "processed", name]:
            return Place(box, Folder.PROCESSED, name)
        case _:
            return None
