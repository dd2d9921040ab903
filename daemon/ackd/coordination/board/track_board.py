"""The board of one track: every change of a meeting, by the command line or by the daemon, goes through here.

A change is made under the board's lock, in this order. First, what others wrote by hand is taken in. Then comes the
change itself, and the record is written: that is the commit. Then the seed's files, the lines of the bus and its events
are written. They follow from the record, so the next change writes them again if a crash cut them short. Last, the
record notes what was said on the bus.

What a change means is decided in ``rules``; mail and deadlines are the gateway's. All methods block. They fail with
OSError, ``BoardHeld`` and a meeting's refusals.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.board import files as board_files
from ackd.coordination.board.rules import encoding, exports, foreign, imports
from ackd.coordination.board.rules.answers import AnswerKind, Channel
from ackd.coordination.board.rules.meeting import Driver, Meeting, advanced, made_known
from ackd.coordination.board.rules.phases import Phase
from ackd.coordination.bus import files as bus_files
from ackd.coordination.bus import wire as bus
from ackd.coordination.bus.rules.layout import Track, event_name
from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.core.errors import BadMeeting, NoMeeting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ackd.system.syscalls import Identity

#: The most times that a change is begun anew if somebody keeps writing into the flat files.
TRIES: Final = 20
#: The time for which a file that is empty, or not JSON, is taken for one that somebody is just writing.
WRITING_S: Final = 1.0
_ENTRIES: Final = {"assessments.json": AnswerKind.ASSESS, "votes.json": AnswerKind.VOTE}
_FLAT: Final = (*_ENTRIES, "discussion.jsonl", "resolution.md")
_KINDS: Final = {
    BusType.BOARD_ASSESS: AnswerKind.ASSESS,
    BusType.BOARD_DISCUSS: AnswerKind.DISCUSS,
    BusType.BOARD_VOTE: AnswerKind.VOTE,
}
ORCHESTRATOR: Final = "orchestrator"


@dataclass
class TrackBoard:
    """``unreadable``: files that are left alone because they cannot be read, with the reason. ``unsettled``: somebody
    may be writing one, so look again soon."""

    track: Track
    durable: bool
    unreadable: dict[str, str] = field(default_factory=dict)
    unsettled: bool = False
    _left_alone: dict[str, Identity] = field(default_factory=dict, init=False)

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, meeting_id: str) -> Meeting:
        return encoding.decode(
            board_files.read_meeting(self.directory, meeting_id), f"{self.directory}/{meeting_id}/meeting.json"
        )

    def every(self) -> Iterator[Meeting]:
        """Yield the meetings, the newest first. One whose record cannot be read is passed over."""
        for meeting_id in board_files.newest_first(self.directory):
            try:
                yield self.read(meeting_id)
            except BadMeeting as error:
                self.unreadable[error.path] = error.why
            except NoMeeting:
                continue

    def find(self, meeting_id: str | None) -> Meeting:
        """Find a meeting by its id; without one, the newest that is open."""
        if meeting_id is not None:
            return self.read(meeting_id)
        for meeting in self.every():
            if meeting.is_open:
                return meeting
        raise NoMeeting(f"no meeting is open in track {self.track.name}: name one (`ackd board list`), or open one")

    @property
    def directory(self) -> str:
        return self.track.board

    # --- changing -----------------------------------------------------------------------------------------------------
    def open(self, wall: float, make: Callable[[str, int], Meeting]) -> Meeting:
        """Open a meeting, which ``make`` makes from its id and the length of the bus.

        The flat files belong to the meeting before, and move to its directory first. A crash in between does no harm:
        they are written again.
        """
        board_files.make_board(self.directory)
        with board_files.locked(self.directory):
            newest = next(iter(board_files.newest_first(self.directory)), None)
            if newest is not None:
                self._apply_if_readable(newest, wall)
            meeting_id = board_files.new_meeting(self.directory, wall)
            try:
                self._move_flat_files_aside(newest or meeting_id)
                meeting = make(meeting_id, board_files.queue_size(self.track.queue))
                return self._applied(meeting, None, wall)
            except OSError:
                board_files.abandon_meeting(self.directory, meeting_id, _FLAT)
                raise

    def adopt(self, make: Callable[[str, object, float, int], Meeting | None], wall: float) -> Meeting | None:
        """Turn the newest session into a meeting, if the seed's own code has begun it.

        ``make`` makes the meeting from the session's id, the content of its file, the time when that was written, and
        the length of the bus; None: not this one. The flat files belong to the session already.
        """
        if board_files.newest_foreign_session(self.directory) is None:
            return None
        with board_files.locked(self.directory):
            meeting_id = board_files.newest_foreign_session(self.directory)
            if meeting_id is None:
                return None
            found = self._session_file(meeting_id)
            if found.identity is None or (said := _json(found.data)) is None:
                return None  # perhaps half written: the end of the writing will be another event
            size = board_files.queue_size(self.track.queue)
            meeting = make(meeting_id, said, found.identity[1] / 1e9, size)
            if meeting is None:
                return None
            board_files.make_meeting_directory(self.directory, meeting_id)
            return self._applied(foreign.followed(meeting, said, wall), None, wall)

    def change(self, meeting_id: str | None, act: Callable[[Meeting], Meeting], wall: float) -> Meeting:
        """Change a meeting, and return it as it is on disk. If ``act`` raises, nothing has changed."""
        if not board_files.meeting_ids(self.directory):
            raise NoMeeting(f"no meeting was ever opened in track {self.track.name}")
        with board_files.locked(self.directory):
            before = self.find(meeting_id)
            return self._applied(before, before, wall, act)

    def hear(self, line: BusLine, wall: float) -> None:
        """Take in a BOARD_* line of others, for the meeting that was the newest when it was said.

        Our own lines are known by their ids, and passed over.
        """
        kind = _KINDS.get(line.type)
        if kind is None or not board_files.meeting_ids(self.directory):
            return
        with board_files.locked(self.directory):
            before = self._meant(line)
            if before is None or imports.is_known(before, line.message_id):
                return
            said = (kind, line.source, line.payload, line.message_id, wall)
            self._applied(before, before, wall, lambda meeting: imports.take_bus_line(meeting, *said))

    def _meant(self, line: BusLine) -> Meeting | None:
        """Find the meeting that a line is for. Its payload may name one.

        A line from before a meeting is not for it, nor is one after the seed's own orchestrator has begun a session.
        """
        named = line.payload.get("session_id")
        if isinstance(named, str) and named in board_files.meeting_ids(self.directory):
            return self.read(named)
        for meeting in self.every():
            if line.offset >= meeting.queue_from or line.at >= meeting.opened_at:
                return None if board_files.foreign_session_since(self.directory, meeting.meeting_id) else meeting
        return None

    def note(self, meeting_id: str, keys: Iterable[str]) -> None:
        """Note that these follow-ups were carried out. Nothing else is changed."""
        with board_files.locked(self.directory):
            meeting = self.read(meeting_id)
            self._save(replace(meeting, done=meeting.done | frozenset(keys)))

    def _apply_if_readable(self, meeting_id: str, wall: float) -> None:
        try:
            meeting = self.read(meeting_id)
        except BadMeeting as error:
            self.unreadable[error.path] = error.why
            return
        self._applied(meeting, meeting, wall)

    def _move_flat_files_aside(self, owner: str) -> None:
        for name in _FLAT:
            board_files.move_aside(f"{self.directory}/{name}", f"{self.directory}/{owner}")

    # --- the order of a change ----------------------------------------------------------------------------------------
    def _applied(
        self,
        meeting: Meeting,
        saved: Meeting | None,
        wall: float,
        act: Callable[[Meeting], Meeting] = lambda meeting: meeting,
    ) -> Meeting:
        """Apply a change, anew if somebody wrote into the flat files meanwhile. ``saved``: the meeting as on disk."""
        for left in reversed(range(TRIES)):
            try:
                meeting, saved = self._once(meeting, saved, wall, act)
            except OSError as error:
                if error.errno != errno.ESTALE or not left:
                    raise
                now = self._on_disk(meeting.meeting_id)
                if now is not None:  # the change was saved, and must not be made twice
                    meeting, saved, act = now, now, lambda meeting: meeting
            else:
                return meeting
        raise AssertionError

    def _on_disk(self, meeting_id: str) -> Meeting | None:
        try:
            return self.read(meeting_id)
        except NoMeeting:
            return None

    def _once(
        self, meeting: Meeting, saved: Meeting | None, wall: float, act: Callable[[Meeting], Meeting]
    ) -> tuple[Meeting, Meeting]:
        place = self._place(meeting.meeting_id, new=saved is None)
        files = {name: board_files.read_flat(f"{place}/{name}") for name in _FLAT}
        meeting = self._taken_in(meeting, place, files, wall)
        if meeting.driver is not Driver.OURS and meeting.is_open:
            # First what was said in a phase that the session's own driver has ended, then what was said in the next.
            session = _json(self._session_file(meeting.meeting_id).data)
            meeting = self._taken_in(foreign.followed(meeting, session, wall), place, files, wall)
        meeting = advanced(act(meeting), wall)
        if meeting != saved:
            self._save(meeting)
            saved = meeting
        meeting = self._mirrored(meeting, place, files, wall)
        meeting = self._published(meeting)
        if meeting.phase is Phase.RESOLVING:
            meeting = made_known(meeting, wall)
        if meeting != saved:
            self._save(meeting)
        self._write_session(meeting)
        return meeting, meeting

    def _place(self, meeting_id: str, *, new: bool) -> str:
        """Return where the seed's files of a meeting are: flat for the newest, in its own directory for the others."""
        if new:
            return self.directory
        newest = next(iter(board_files.newest_first(self.directory)), None)
        is_flat = newest == meeting_id and not board_files.foreign_session_since(self.directory, meeting_id)
        return self.directory if is_flat else f"{self.directory}/{meeting_id}"

    def _save(self, meeting: Meeting) -> None:
        data = encoding.encode(meeting)
        board_files.write_meeting(self.directory, meeting.meeting_id, data, durable=self.durable)

    # --- taking in the words of others --------------------------------------------------------------------------------
    def _taken_in(
        self, meeting: Meeting, place: str, files: Mapping[str, board_files.FlatFile], wall: float
    ) -> Meeting:
        """Take in what others wrote, phase by phase.

        A file may complete a phase and so open the next one, whose file may be there already.
        """
        while True:
            before = meeting
            for name, kind in _ENTRIES.items():
                entries = self._entries(f"{place}/{name}", files[name], wall)
                meeting = imports.take_entries(meeting, kind, entries or {}, wall)
            meeting = imports.take_lines(meeting, _json_lines(files["discussion.jsonl"].data), wall)
            meeting = advanced(meeting, wall)
            if meeting == before:
                return meeting

    def _entries(self, path: str, file: board_files.FlatFile, wall: float) -> dict[str, Any] | None:
        """Return a file's entries; None if it is no JSON object, which may be half written and is not ours to mend.

        Whoever writes a file in place empties it first, so an empty one is left alone for a moment.
        """
        if file.data is None or file.identity is None:
            return {}
        if not file.data.strip():
            is_new = abs(wall - file.identity[1] / 1e9) < WRITING_S
            self.unsettled = self.unsettled or is_new
            return None if is_new else {}
        try:
            found = json.loads(file.data)
        except (ValueError, RecursionError) as error:
            found = f"not JSON: {error}"
        if isinstance(found, dict):
            self.unreadable.pop(path, None)
            return found
        self.unreadable[path] = found if isinstance(found, str) else "no JSON object"
        # Look once more, in case somebody is writing it. After that, its next change will be noticed by itself.
        self.unsettled = self.unsettled or self._left_alone.get(path) != file.identity
        self._left_alone[path] = file.identity
        return None

    # --- files and lines for others -----------------------------------------------------------------------------------
    def _mirrored(
        self, meeting: Meeting, place: str, files: Mapping[str, board_files.FlatFile], wall: float
    ) -> Meeting:
        for name, kind in _ENTRIES.items():
            meeting = self._mirror_entries(meeting, f"{place}/{name}", files[name], kind, wall)
        self._mirror_lines(meeting, f"{place}/discussion.jsonl", files["discussion.jsonl"])
        if meeting.phase is Phase.RESOLVING and files["resolution.md"].data is None:
            text = exports.resolution(meeting).encode()
            board_files.put_flat(f"{place}/resolution.md", text, files["resolution.md"])
        return meeting

    def _mirror_entries(
        self, meeting: Meeting, path: str, file: board_files.FlatFile, kind: AnswerKind, wall: float
    ) -> Meeting:
        """Write our entries beside those of others."""
        there = self._entries(path, file, wall)
        if there is None:
            return meeting
        shown = imports.to_show(meeting, kind, there)
        if shown or (file.data is None and not meeting.is_over):
            board_files.put_flat(path, exports.as_json({**there, **shown}), file)
        return imports.mirrored(meeting, kind, shown)

    def _mirror_lines(self, meeting: Meeting, path: str, file: board_files.FlatFile) -> None:
        if meeting.is_over:
            return
        there = {one.get("id") for one in _json_lines(file.data) if isinstance(one, dict)}
        lines = [
            exports.discussion_line(meeting, heard)
            for heard in meeting.remarks
            if heard.mark.channel is not Channel.FILE and exports.line_id(meeting, heard.mark) not in there
        ]
        if lines or file.data is None:
            data = b"".join(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for one in lines)
            board_files.append_lines(path, data)

    def _session_file(self, meeting_id: str) -> board_files.FlatFile:
        return board_files.read_flat(f"{self.directory}/session-{meeting_id}.json")

    def _write_session(self, meeting: Meeting) -> None:
        """Write the session's file. One that others made stays as it is, unless it lags behind.

        Its maker counts in it too, and may be further than what we have read of it.
        """
        there, data = self._session_file(meeting.meeting_id), exports.as_json(exports.session(meeting))
        path = f"session-{meeting.meeting_id}.json"
        if meeting.driver is not Driver.OURS:
            if foreign.lags(_json(there.data), meeting):
                board_files.put_flat(f"{self.directory}/{path}", data, there)
        elif there.data != data:
            board_files.write_file(self.directory, path, data, durable=False)

    # --- the bus ------------------------------------------------------------------------------------------------------
    def _published(self, meeting: Meeting) -> Meeting:
        """Write the lines that the bus lacks.

        The resolution's is written in RESOLVING only, where a crash leaves us.
        """
        unsaid = list(exports.unsaid(meeting))
        resolves = (
            meeting.phase is Phase.RESOLVING and meeting.driver is not Driver.ANOTHER
        )  # others post it themselves
        marks = [mark for _, mark in unsaid]
        ids = [exports.line_id(meeting, mark) for mark in marks] + (
            [exports.line_id(meeting, None)] if resolves else []
        )
        there = board_files.ids_said_since(self.track.queue, meeting.queue_from, ids)
        lines = [
            bus.encode(exports.line_id(meeting, mark), *exports.line(meeting, answer, mark), mark.at)
            for answer, mark in unsaid
            if exports.line_id(meeting, mark) not in there
        ]
        if resolves and exports.line_id(meeting, None) not in there:
            lines.append(self._resolve_line(meeting))
        if lines:
            bus_files.append(self.track.queue, b"".join(lines))
        if resolves:
            self._raise_events(meeting)
        return imports.said(meeting, {mark.number for mark in marks})

    def _resolve_line(self, meeting: Meeting) -> bytes:
        assert meeting.resolution is not None
        ident, payload = exports.line_id(meeting, None), exports.resolve_payload(meeting)
        return bus.encode(ident, "BOARD_RESOLVE", ORCHESTRATOR, payload, meeting.resolution.at)

    def _raise_events(self, meeting: Meeting) -> None:
        """Raise the seed's two events, and one with the meeting's name, which no earlier meeting can have raised."""
        board_files.make_board(self.track.events)
        own = event_name("BOARD_RESOLVE", meeting.meeting_id)
        for name in ("BOARD_RESOLVE.event", event_name("BOARD_RESOLVE", "all"), own):
            bus_files.raise_event(self.track.events, name)


def _json(data: bytes | None) -> object:
    """Return the value, or None for data that is not JSON."""
    try:
        return json.loads(data or b"")
    except (ValueError, RecursionError):
        return None


def _json_lines(data: bytes | None) -> list[object]:
    """Return the values of whole lines that are JSON. A last line without an end is still being written."""
    found: list[object] = []
    for line in (data or b"").split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return found
