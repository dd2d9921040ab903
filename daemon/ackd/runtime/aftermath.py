"""What became of messages that are not where they were, and the lines about them that a crash swallowed.

Two witnesses are asked: the journal, for what was in hand, and the log of the sessions before, for what was only met.
Owns their questioning and the lines that follow (``recovered: true``). Nothing here moves a file, and a line is only
written if no session before has written it, so it may be interrupted and done again.

A move that the journal was told of first is never mistaken: what it names lies in the archive, in dead_letter/, or is
gone by its agent's hand.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.adapters import session_log
from ackd.adapters.journal import End, LetGo, TakenIn
from ackd.core import events
from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place, identity
from ackd.dialects import ignite
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ackd.adapters.journal import Journal
    from ackd.adapters.session_log import Line
    from ackd.adapters.spool import Reason, Spool
    from ackd.core.engine import Engine
    from ackd.ports import Clock, Post

_TERMINAL: Final = frozenset({"message_completed", "message_dead", "message_withdrawn", "message_duplicate"})

#: A session that writes one of these has met the message, and tells its end.
MET: Final = _TERMINAL | {"message_queued"}

_DUPLICATE: Final = "message_duplicate"
#: Of a count in a header. Anyone may have written it.
_MAX_DIGITS: Final = 6

#: Message id and identity of the agent: what a line of the log is about.
_About: TypeAlias = tuple[str, str]
#: The same, and whether it is about a duplicate.
_Which: TypeAlias = tuple[str, str, bool]
_Told: TypeAlias = dict[_Which, tuple[float, str]]


@dataclass(frozen=True)
class _Grave:
    """When it died (0: it does not say), and what its line says of it."""

    at: float
    words: dict[str, object]


@dataclass
class Aftermath:
    spool: Spool
    engine: Engine
    post: Post
    journal: Journal
    clock: Clock
    logs_dir: Path
    record: Callable[[str, dict[str, object]], None]
    #: Queue directories that are gone, or others than those we left: what is missing there was completed by nobody.
    lost_boxes: frozenset[str] = frozenset()
    _known: set[_About] = field(default_factory=set)
    _kept: list[tuple[str, Reason]] = field(default_factory=list)
    #: What this session has met; None when nobody will ask any more.
    _ours: set[_About] | None = field(default_factory=set)
    #: What could not be read, and was said.
    _unread: set[str] = field(default_factory=set)

    # --- what the journal knows ---------------------------------------------------------------------------------------
    def was_completed(self, entry: TakenIn) -> bool:
        """Asked of a message that was in hand and is not in processed/. If it was archived, and we died before the
        journal heard of it, whatever else bears its id and content is a second copy, and from now on known for one."""
        if self._in_archive(entry) is None:
            return False
        self.engine.desk.completed.remember(entry.message_id, entry.agent, entry.digest, entry.at)
        return True

    def settle(self, gone: list[TakenIn], unsure: Callable[[TakenIn], bool] = lambda _: False) -> None:
        """Messages that the journal had in hand and that are nowhere to be met. ``unsure``: whether another message may
        have been written over it, unclaimed; then only an end that is on disk is believed."""
        if not gone:
            return
        told, graves = self._told_by_log(min(entry.at for entry in gone)), self._graves()
        lost: dict[str, list[Place]] = {}
        for entry in gone:
            end, fact, words = self._what_became_of(entry, graves)
            if "file" not in words and unsure(entry):
                continue
            now = self.clock.now().wall
            self.journal.let_go(LetGo(entry.agent, entry.message_id, entry.name, end, entry.digest, now))
            still_dead = entry.late and end is End.DEAD
            if not still_dead and not _is_told(told, entry, fact, words):
                self._write_down_arrival(entry)
                self._write_down(entry, end, fact, words)
            if end is End.COMPLETED:
                self.engine.desk.completed.remember(entry.message_id, entry.agent, entry.digest, now)
            elif end is End.WITHDRAWN and entry.box in self.lost_boxes:
                lost.setdefault(entry.box, []).append(Place(entry.box, Folder.PROCESSED, entry.name))
        for box, places in lost.items():
            self.post(events.SpoolLost(box, tuple(places)))

    def _write_down_arrival(self, entry: TakenIn) -> None:
        """As of everything that a start finds: the crash may have swallowed that line, too, and no end stands alone."""
        about: dict[str, object] = {"message_id": entry.message_id, "agent": entry.agent, "from": entry.sender}
        file = str(Place(entry.box, Folder.PROCESSED, entry.name))
        self.record("message_queued", {**about, "message_type": entry.type, "file": file, "recovered": True})

    def _write_down(self, entry: TakenIn, end: End, fact: str, words: dict[str, object]) -> None:
        totals = self.engine.desk.totals
        self.record(fact, {"message_id": entry.message_id, "agent": entry.agent, **words, "recovered": True})
        totals.completed += end is End.COMPLETED
        totals.withdrawn += end is End.WITHDRAWN
        totals.duplicates += end is End.DUPLICATE

    def _what_became_of(self, entry: TakenIn, graves: dict[_About, _Grave]) -> tuple[End, str, dict[str, object]]:
        """By its id, wherever that can be read. If it died and was completed, sent once more in between, the later of
        the two is the end of this life."""
        kept, grave = self._in_archive(entry), graves.get((entry.message_id, identity(entry.agent)))
        if kept is None and entry.box not in self.lost_boxes and (grave is None or entry.is_duplicate):
            kept = self._perhaps_in_archive(entry)
        if entry.is_duplicate:
            return End.DUPLICATE, "message_duplicate", {"file": str(kept)} if kept is not None else {}
        if grave is not None and (kept is None or grave.at >= int(entry.at)):  # it is written in whole seconds
            return End.DEAD, "message_dead", {"from": entry.sender, **grave.words}
        if kept is not None:
            return End.COMPLETED, "message_completed", {"by": "found in the archive", "file": str(kept)}
        if entry.box in self.lost_boxes:
            reason = "spool_lost: its directory was removed or replaced while ackd was away"
            return End.WITHDRAWN, "message_withdrawn", {"reason": reason}
        if (moved_to := self._given_to_another(entry)) is not None:
            return End.WITHDRAWN, "message_withdrawn", {"reason": f"moved by hand to {moved_to} while ackd was away"}
        return End.COMPLETED, "message_completed", {"by": "file deleted by its agent while ackd was away"}

    def _given_to_another(self, entry: TakenIn) -> Place | None:
        """Where it lies under its name in the queue of an agent that its headers do not name."""
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
        """The one that bears its id and says the same: another message may have had the name, or a copied id."""
        return next((place for place in self.archived(entry) if self._is_it(place, entry)), None)

    def _perhaps_in_archive(self, entry: TakenIn) -> Place | None:
        """What has its name, and its id or none that can be read: its agent may have written into it."""
        return next((place for place in self.archived(entry) if self.bears_id(place, entry) is not False), None)

    def _is_it(self, place: Place, entry: TakenIn) -> bool:
        """What only the log knows, and a duplicate, which is nobody's completion, go by their id."""
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
        """None: what lies there cannot be read, or is no message."""
        try:
            found = ignite.split_head(self.spool.head(place)).fields.get("message-id")
        except (OSError, BadMessage):
            return None
        return None if found is None else ignite.bare_id(found) == entry.message_id

    def may_lie_there(self, entry: TakenIn) -> bool:
        return next(self.still_to_read(entry), None) is not None

    def still_to_read(self, entry: TakenIn) -> Iterator[Place]:
        """In queue/ or processed/, under its name. What bears another id is another message, whose sender used the name
        again; what cannot be read may be it."""
        return (place for place in self.under_its_name(entry) if self.bears_id(place, entry) is not False)

    def under_its_name(self, entry: TakenIn) -> Iterator[Place]:
        """Whatever lies there, or cannot be looked at."""
        places = (Place(entry.box, folder, entry.name) for folder in (Folder.QUEUE, Folder.PROCESSED))
        return (place for place in places if not self.spool.is_gone(place))

    def archived(self, entry: TakenIn) -> Iterator[Place]:
        """What lies in the archive under the names that it may have got there; the newest day first."""
        since = datetime.fromtimestamp(entry.at, UTC).date() - timedelta(days=1)
        today = datetime.fromtimestamp(self.clock.now().wall, UTC).date()
        for n in range(min(max((today - since).days, 0), 3660) + 1):
            day = (today - timedelta(days=n)).strftime("%Y%m%d")
            yield from self.spool.namesakes(Place(entry.box, Folder.ARCHIVE, f"{day}/{entry.name}"))

    def _graves(self) -> dict[_About, _Grave]:
        """Dead letters by message id and recipient (a Message-ID may have several), as their log line has them."""
        found: dict[_About, _Grave] = {}
        for name, head in self._letters():
            try:
                fields = ignite.split_head(head).fields
            except BadMessage:
                continue  # somebody else's, or written over
            to = fields.get("x-ignite-recipient") or fields.get("to", "").partition(",")[0].strip()
            about = ignite.bare_id(fields.get("message-id", "")), identity(to)
            count = fields.get("x-ignite-retry-count", "")
            words: dict[str, object] = {
                "reason": fields.get("x-ignite-error-reason", "unknown"),
                "retry_count": int(count) if count.isdecimal() and len(count) <= _MAX_DIGITS else 0,
                "file": str(Place(to, Folder.DEAD, name)),
            }
            grave = _Grave(_wall(fields.get("x-ignite-error-at", "")), words)
            if about not in found or found[about].at <= grave.at:
                found[about] = grave
        return found

    def _letters(self) -> Iterator[tuple[str, bytes]]:
        """One that cannot be read tells nothing, and the others do."""
        graves = self.spool.graves
        with self._saying("list queue/dead_letter"):
            for name in graves.files():
                with self._saying(f"read queue/dead_letter/{name}"):
                    head = graves.head(name)
                    if head is not None:
                        yield name, head

    def _told_by_log(self, since: float) -> _Told:
        """When the log last told of a message's end, and of which."""
        told: _Told = {}
        paths: list[Path] = []
        with self._saying("list logs"):
            paths = session_log.session_files(self.logs_dir)
        for path in reversed(paths):
            with self._saying(f"read logs/{path.name}"):
                for line in _backwards(path):
                    if line.at < since:
                        return told
                    if line.type in _TERMINAL:
                        told.setdefault((*_about(line), line.type == _DUPLICATE), (line.at, line.type))
        return told

    @contextlib.contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """What cannot be read must not stop us: one line each."""
        try:
            yield
        except OSError as error:
            self._say_unread(what, error)

    def _say_unread(self, what: str, error: OSError) -> None:
        if what not in self._unread:
            self._unread.add(what)
            self.record("io_error", {"what": what, "error": str(error)})

    # --- what only the log knows --------------------------------------------------------------------------------------
    def leave_open(self, met: Iterable[_About], kept: Iterable[tuple[str, Reason | None]]) -> None:
        """What a start has found, for ``fill_in``: messages it met or has dealt with, files in quarantine."""
        self._known = set(met)
        self._kept = [(name, reason) for name, reason in kept if reason is not None]

    def heard(self, _type: str, data: dict[str, object]) -> None:
        """A line of our own session about what it has met, at the start or since: its end is not ours to tell."""
        if self._ours is not None:
            self._ours.add(_whose(data))

    async def fill_in(self) -> None:
        """Beside everything else, for a log may be long: what it began to tell and did not end. Not after a crash only:
        what waits in a queue may be removed while nobody serves, or just before a stop, within the time it takes to
        prove that."""
        try:
            told, unread = await in_thread(self._read_sessions)
            for what, error in unread.items():
                self._say_unread(what, error)
            graves = self._graves() if told.opened else {}
            for line in told.opened.values():
                self._end_untold(line, graves)
            for name, reason in self._kept:
                if name not in told.rejected and _wall(reason.at) >= told.since - 1:  # it is written in whole seconds
                    self._say_rejected(name, reason)
        finally:
            self._ours = None

    def _read_sessions(self) -> tuple[_Sessions, dict[str, OSError]]:
        """Of the last session that ended by itself and those since. It tells of all that there was, for a start writes
        down everything that it finds; unless it was stopped before it had read a long queue to its end.

        Of what came before a log that cannot be read nothing is believed: the end of it may be told there."""
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
        """Oldest first, without the one that we are writing."""
        found: list[Path] = []
        for path in reversed(session_log.session_files(self.logs_dir)[:-1]):
            found.append(path)
            try:
                last = next(_backwards(path), None)
            except OSError:  # whoever reads it says so
                break
            if last is not None and last.type == "session_end":
                break
        return found[::-1]

    def _end_untold(self, line: Line, graves: dict[_About, _Grave]) -> None:
        place = _place(str(line.data.get("file", "")))
        if _about(line) in self._known or _about(line) in (self._ours or ()):
            return
        if place is None:
            return
        message_id, agent = str(line.data["message_id"]), str(line.data.get("agent"))
        entry = TakenIn(agent, message_id, place.box, place.name, "", str(line.data.get("from")), "", 0, line.at)
        if self.may_lie_there(entry):
            return
        end, fact, words = self._what_became_of(entry, graves)
        if line.type != "message_claimed" and words.get("by") == "file deleted by its agent while ackd was away":
            end, fact = End.WITHDRAWN, "message_withdrawn"
            words = {"reason": "file deleted from the queue while ackd was away"}
        self._write_down(entry, end, fact, words)

    def _say_rejected(self, name: str, reason: Reason) -> None:
        """As the session would have said it, had it lived a moment longer."""
        about: dict[str, object] = {"file": f"receipts/{reason.name}"}
        if reason.queue:
            part = "/processed" if reason.folder == Folder.PROCESSED.value else ""
            about = {"file": f"queue/{reason.queue}{part}/{reason.name}", "agent": reason.queue}
        said = {"code": reason.code, "reason": reason.detail, "kept_as": name, "recovered": True}
        self.record("message_rejected", {**about, **said})


@dataclass
class _Sessions:
    """What logs began to tell and did not end, by message; what they say was quarantined; their earliest time."""

    opened: dict[_About, Line] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    since: float = float("inf")

    def add(self, line: Line) -> None:
        self.since = min(self.since, line.at)
        if line.type in ("message_queued", "message_claimed", "message_requeued") and "message_id" in line.data:
            self.opened[_about(line)] = line
        elif line.type in _TERMINAL:
            self.opened.pop(_about(line), None)
        elif line.type == "message_rejected":
            self.rejected.add(str(line.data.get("kept_as")))


def _which(entry: TakenIn) -> _Which:
    return entry.message_id, identity(entry.agent), entry.is_duplicate


def _is_told(told: _Told, entry: TakenIn, fact: str, words: dict[str, object]) -> bool:
    """The line of an earlier life says nothing about this one, nor does that of its duplicate; nor that of its death
    about what lies in the archive: it was done as it was buried, and went on from there."""
    at, said = told.get(_which(entry), (0.0, fact))
    completed_late = said == "message_dead" and fact == "message_completed" and "file" in words
    return at >= entry.at and not completed_late


def _about(line: Line) -> _About:
    return _whose(line.data)


def _whose(data: Mapping[str, object]) -> _About:
    return str(data.get("message_id")), identity(str(data.get("agent")))


def _wall(stamp: str) -> float:
    """0 for what is no time: anyone may have written over a reason, or a letter's header."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _backwards(path: Path) -> Iterator[Line]:
    """The lines of one log, newest first."""
    return session_log.iter_logs(path.parent, newest_first=True, ends={path: session_log.end_of_lines(path)})


def _place(file: str) -> Place | None:
    """Back from ``str(Place)``: where a message waited or was in hand."""
    match file.split("/"):
        case ["queue", box, name]:
            return Place(box, Folder.QUEUE, name)
        case ["queue", box, "processed", name]:
            return Place(box, Folder.PROCESSED, name)
        case _:
            return None
