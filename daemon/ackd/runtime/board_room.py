"""One track's board: every change of a meeting, by the command line or by the daemon, goes through here.

Owns the order of a change, under the board's lock: what others wrote by hand is taken in; the change; the record, which
is the commit; then the seed's files, lines of the bus and its events, all of which follow from the record and are made
again by the next change if a crash cut them short; last the record of what was said. Refuses to decide (core/board),
and to wait: mail and time are the gateway's. Blocking; fails with OSError, ``BoardHeld`` and a meeting's refusals.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ackd.adapters import board_files, bus_files
from ackd.core.board import adopting, foreign, form, papers
from ackd.core.board.answers import Door, Kind
from ackd.core.board.meeting import Driver, Meeting, advanced, made_known
from ackd.core.board.phases import Phase
from ackd.core.bus_layout import Track, event_name
from ackd.core.bus_words import BusLine, BusType
from ackd.core.errors import BadMeeting, NoMeeting
from ackd.dialects import bus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ackd.syscalls import Identity

#: How often a change is begun anew because somebody writes into the flat files all the time.
TRIES: Final = 20
#: How long a file that is empty, or no JSON, may be one that somebody is just writing.
WRITING_S: Final = 1.0
_ENTRIES: Final = {"assessments.json": Kind.ASSESS, "votes.json": Kind.VOTE}
_FLAT: Final = (*_ENTRIES, "discussion.jsonl", "resolution.md")
_KINDS: Final = {
    BusType.BOARD_ASSESS: Kind.ASSESS,
    BusType.BOARD_DISCUSS: Kind.DISCUSS,
    BusType.BOARD_VOTE: Kind.VOTE,
}
ORCHESTRATOR: Final = "orchestrator"


@dataclass
class BoardRoom:
    """``strange``: files that cannot be read, with the reason; they are left alone. ``unsettled``: somebody may be
    writing one: look again soon."""

    track: Track
    durable: bool
    strange: dict[str, str] = field(default_factory=dict)
    unsettled: bool = False
    _left_alone: dict[str, Identity] = field(default_factory=dict, init=False)

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, meeting_id: str) -> Meeting:
        return form.decode(board_files.read_meeting(self.board, meeting_id), f"{self.board}/{meeting_id}/meeting.json")

    def every(self) -> Iterator[Meeting]:
        """The newest first. One whose record cannot be read is passed over."""
        for meeting_id in board_files.newest_first(self.board):
            try:
                yield self.read(meeting_id)
            except BadMeeting as error:
                self.strange[error.path] = error.why
            except NoMeeting:
                continue

    def find(self, meeting_id: str | None) -> Meeting:
        """By its id; without one the newest that is open."""
        if meeting_id is not None:
            return self.read(meeting_id)
        for meeting in self.every():
            if meeting.is_open:
                return meeting
        raise NoMeeting(f"no meeting is open in track {self.track.name}: name one (`ackd board list`), or open one")

    @property
    def board(self) -> str:
        return self.track.board

    # --- changing -----------------------------------------------------------------------------------------------------
    def open(self, wall: float, make: Callable[[str, int], Meeting]) -> Meeting:
        """``make``: the meeting, by its id and the length of the bus. What lies in the flat files belongs to the
        meeting before, and moves to its directory first: after a crash in between they are only written again."""
        board_files.make_board(self.board)
        with board_files.held(self.board):
            newest = next(iter(board_files.newest_first(self.board)), None)
            if newest is not None:
                self._settle_if_readable(newest, wall)
            meeting_id = board_files.make_room(self.board, wall)
            try:
                self._clear_the_table(newest or meeting_id)
                meeting = make(meeting_id, board_files.queue_size(self.track.queue))
                return self._settled(meeting, None, wall)
            except OSError:
                board_files.give_up_room(self.board, meeting_id, _FLAT)
                raise

    def adopt(self, make: Callable[[str, object, float, int], Meeting | None], wall: float) -> Meeting | None:
        """The newest session, if the seed's own code has begun it: as a meeting from now on. ``make``: of its id, what
        its file says, when that was written, and the length of the bus; None: not this one. The flat files are its
        already."""
        if board_files.others_newest(self.board) is None:
            return None
        with board_files.held(self.board):
            meeting_id = board_files.others_newest(self.board)
            if meeting_id is None:
                return None
            found = self._session_file(meeting_id)
            if found.identity is None or (said := _json(found.data)) is None:
                return None  # half written, perhaps; its end is another event
            size = board_files.queue_size(self.track.queue)
            meeting = make(meeting_id, said, found.identity[1] / 1e9, size)
            if meeting is None:
                return None
            board_files.make_room_for(self.board, meeting_id)
            return self._settled(foreign.followed(meeting, said, wall), None, wall)

    def change(self, meeting_id: str | None, act: Callable[[Meeting], Meeting], wall: float) -> Meeting:
        """The meeting after ``act``, on disk. What ``act`` raises changes nothing."""
        if not board_files.meeting_ids(self.board):
            raise NoMeeting(f"no meeting was ever opened in track {self.track.name}")
        with board_files.held(self.board):
            before = self.find(meeting_id)
            return self._settled(before, before, wall, act)

    def hear(self, line: BusLine, wall: float) -> None:
        """A BOARD_* line of others, for the meeting that was the newest when it was said. Not ours: those are known by
        their ids."""
        kind = _KINDS.get(line.type)
        if kind is None or not board_files.meeting_ids(self.board):
            return
        with board_files.held(self.board):
            before = self._meant(line)
            if before is None or adopting.is_known(before, line.message_id):
                return
            said = (kind, line.source, line.payload, line.message_id, wall)
            self._settled(before, before, wall, lambda meeting: adopting.take_bus_line(meeting, *said))

    def _meant(self, line: BusLine) -> Meeting | None:
        """Its payload may name one; a line from before a meeting is none of its lines, nor is one for a session that
        the seed's own orchestrator has begun since."""
        named = line.payload.get("session_id")
        if isinstance(named, str) and named in board_files.meeting_ids(self.board):
            return self.read(named)
        for meeting in self.every():
            if line.offset >= meeting.queue_from or line.at >= meeting.opened_at:
                return None if board_files.others_since(self.board, meeting.meeting_id) else meeting
        return None

    def note(self, meeting_id: str, keys: Iterable[str]) -> None:
        """These errands are run. Nothing else changes by it."""
        with board_files.held(self.board):
            meeting = self.read(meeting_id)
            self._save(replace(meeting, done=meeting.done | frozenset(keys)))

    def _settle_if_readable(self, meeting_id: str, wall: float) -> None:
        try:
            meeting = self.read(meeting_id)
        except BadMeeting as error:
            self.strange[error.path] = error.why
            return
        self._settled(meeting, meeting, wall)

    def _clear_the_table(self, owner: str) -> None:
        for name in _FLAT:
            board_files.set_aside(f"{self.board}/{name}", f"{self.board}/{owner}")

    # --- the order of a change ----------------------------------------------------------------------------------------
    def _settled(
        self,
        meeting: Meeting,
        saved: Meeting | None,
        wall: float,
        act: Callable[[Meeting], Meeting] = lambda meeting: meeting,
    ) -> Meeting:
        """``saved``: what is on disk of it."""
        for left in reversed(range(TRIES)):
            try:
                meeting, saved = self._once(meeting, saved, wall, act)
            except OSError as error:
                if error.errno != errno.ESTALE or not left:
                    raise
                if (now := self._on_disk(meeting.meeting_id)) is not None:  # the change is saved, and done once
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
            # What was said in a phase that the session's own driver has ended is taken in first, then the next one's.
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
        """Where the seed's files of this meeting are: flat for the newest, in its own directory for the others."""
        if new:
            return self.board
        newest = next(iter(board_files.newest_first(self.board)), None)
        is_flat = newest == meeting_id and not board_files.others_since(self.board, meeting_id)
        return self.board if is_flat else f"{self.board}/{meeting_id}"

    def _save(self, meeting: Meeting) -> None:
        data = form.encode(meeting)
        board_files.write_meeting(self.board, meeting.meeting_id, data, durable=self.durable)

    # --- what others wrote --------------------------------------------------------------------------------------------
    def _taken_in(self, meeting: Meeting, place: str, files: Mapping[str, board_files.Flat], wall: float) -> Meeting:
        """Phase by phase: one that what lies in a file completes may open the next, whose file lies there, too."""
        while True:
            before = meeting
            for name, kind in _ENTRIES.items():
                entries = self._entries(f"{place}/{name}", files[name], wall)
                meeting = adopting.take_entries(meeting, kind, entries or {}, wall)
            meeting = adopting.take_lines(meeting, _json_lines(files["discussion.jsonl"].data), wall)
            meeting = advanced(meeting, wall)
            if meeting == before:
                return meeting

    def _entries(self, path: str, file: board_files.Flat, wall: float) -> dict[str, Any] | None:
        """None for what is no JSON object: half written, perhaps, and not ours to mend. Somebody who writes in place
        empties a file first: one that is empty is left alone for a moment."""
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
            self.strange.pop(path, None)
            return found
        self.strange[path] = found if isinstance(found, str) else "no JSON object"
        # Looked at once more, in case somebody is at it; after that its next change says so by itself.
        self.unsettled = self.unsettled or self._left_alone.get(path) != file.identity
        self._left_alone[path] = file.identity
        return None

    # --- what others see ----------------------------------------------------------------------------------------------
    def _mirrored(self, meeting: Meeting, place: str, files: Mapping[str, board_files.Flat], wall: float) -> Meeting:
        for name, kind in _ENTRIES.items():
            meeting = self._mirror_entries(meeting, f"{place}/{name}", files[name], kind, wall)
        self._mirror_lines(meeting, f"{place}/discussion.jsonl", files["discussion.jsonl"])
        if meeting.phase is Phase.RESOLVING and files["resolution.md"].data is None:
            text = papers.resolution(meeting).encode()
            board_files.put_flat(f"{place}/resolution.md", text, files["resolution.md"])
        return meeting

    def _mirror_entries(self, meeting: Meeting, path: str, file: board_files.Flat, kind: Kind, wall: float) -> Meeting:
        """Ours beside theirs."""
        there = self._entries(path, file, wall)
        if there is None:
            return meeting
        shown = adopting.to_show(meeting, kind, there)
        if shown or (file.data is None and not meeting.is_over):
            board_files.put_flat(path, papers.as_json({**there, **shown}), file)
        return adopting.mirrored(meeting, kind, shown)

    def _mirror_lines(self, meeting: Meeting, path: str, file: board_files.Flat) -> None:
        if meeting.is_over:
            return
        there = {one.get("id") for one in _json_lines(file.data) if isinstance(one, dict)}
        lines = [
            papers.discussion_line(meeting, heard)
            for heard in meeting.remarks
            if heard.mark.door is not Door.FILE and papers.line_id(meeting, heard.mark) not in there
        ]
        if lines or file.data is None:
            data = b"".join(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for one in lines)
            board_files.append_lines(path, data)

    def _session_file(self, meeting_id: str) -> board_files.Flat:
        return board_files.read_flat(f"{self.board}/session-{meeting_id}.json")

    def _write_session(self, meeting: Meeting) -> None:
        """One that another made stays as it is unless it lags behind: its maker counts in it, too, and may be further
        than what we have read of it."""
        there, data = self._session_file(meeting.meeting_id), papers.as_json(papers.session(meeting))
        path = f"session-{meeting.meeting_id}.json"
        if meeting.driver is not Driver.OURS:
            if foreign.lags(_json(there.data), meeting):
                board_files.put_flat(f"{self.board}/{path}", data, there)
        elif there.data != data:
            board_files.write_file(self.board, path, data, durable=False)

    # --- the bus ------------------------------------------------------------------------------------------------------
    def _published(self, meeting: Meeting) -> Meeting:
        """Lines for what the bus has none of; of the resolution only in RESOLVING, which a crash leaves us in."""
        unsaid = list(papers.unsaid(meeting))
        resolves = meeting.phase is Phase.RESOLVING and meeting.driver is not Driver.ANOTHER  # which says so itself
        marks = [mark for _, mark in unsaid]
        ids = [papers.line_id(meeting, mark) for mark in marks] + ([papers.line_id(meeting, None)] if resolves else [])
        there = board_files.said_since(self.track.queue, meeting.queue_from, ids)
        lines = [
            bus.encode(papers.line_id(meeting, mark), *papers.line(meeting, answer, mark), mark.at)
            for answer, mark in unsaid
            if papers.line_id(meeting, mark) not in there
        ]
        if resolves and papers.line_id(meeting, None) not in there:
            lines.append(self._resolve_line(meeting))
        if lines:
            bus_files.append(self.track.queue, b"".join(lines))
        if resolves:
            self._raise_events(meeting)
        return adopting.said(meeting, {mark.number for mark in marks})

    def _resolve_line(self, meeting: Meeting) -> bytes:
        assert meeting.resolution is not None
        ident, payload = papers.line_id(meeting, None), papers.resolve_payload(meeting)
        return bus.encode(ident, "BOARD_RESOLVE", ORCHESTRATOR, payload, meeting.resolution.at)

    def _raise_events(self, meeting: Meeting) -> None:
        """The seed's two names, and one of the meeting's own, which no earlier meeting has raised."""
        board_files.make_board(self.track.events)
        own = event_name("BOARD_RESOLVE", meeting.meeting_id)
        for name in ("BOARD_RESOLVE.event", event_name("BOARD_RESOLVE", "all"), own):
            bus_files.raise_event(self.track.events, name)


def _json(data: bytes | None) -> object:
    """None for what is no JSON."""
    try:
        return json.loads(data or b"")
    except (ValueError, RecursionError):
        return None


def _json_lines(data: bytes | None) -> list[object]:
    """Whole lines; the last one without an end is still being written. What is no JSON says nothing."""
    found: list[object] = []
    for line in (data or b"").split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return found
