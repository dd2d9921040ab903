"""One track, followed: its lines are read on and acted on, its workers watched, its old events cleared.

Owns the order in which a line is acted on: the log, subscribers, event files, mail, and only then how far we came. So
a crash repeats and never skips; what is repeated has the ids it had. What the track was like before is rebuilt by
reading its queue up to there, without consequences. Whatever the disk refuses leaves as OSError: ``forget`` then, and
everything that was not kept is done again.
"""

from __future__ import annotations

import errno
import hashlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.adapters.bus_files import raise_event, state_files
from ackd.adapters.bus_files.tailing import HeldFile, Piece, Position, read_on
from ackd.core.bus_events import event_names, is_passing
from ackd.core.bus_track import TrackView
from ackd.core.clock_frames import Frame
from ackd.core.clock_frames import moved_s as moved
from ackd.core.errors import BadBusLine, UnknownAgent
from ackd.core.events import SignOfLife
from ackd.dialects.bus.reading import read
from ackd.json_line import MAX_LINE_BYTES
from ackd.runtime.gateways.bus import telling
from ackd.runtime.gateways.bus.bookmarks import Bookmark
from ackd.runtime.gateways.bus.event_watch import EventWatch
from ackd.runtime.gateways.bus.worker_watch import WorkerWatch
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.adapters.bus_files.tailing import RawLine
    from ackd.config_coordination import Bus
    from ackd.core.bus_layout import Track
    from ackd.core.bus_words import BusLine
    from ackd.core.message import Draft
    from ackd.runtime.gateways.bus.bookmarks import Bookmarks
    from ackd.runtime.gateways.gateway import Around
    from ackd.runtime.gateways.subscriber import Subscriber

#: The loop is given back after so long: others wait for it.
_SLICE_S: Final = 0.004
#: A line is a sign of life for so long after it was said.
_FRESH_S: Final = 60.0
#: A last line without an end is taken if it is whole and has stood still for ``settle_s``, else after so many of them.
_BROKEN_SETTLES: Final = 30
_MAX_SEEN: Final = 65_536
#: What a file or directory is that stands in another's place, or that is not ours to open: waiting mends none of it.
BROKEN: Final = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENXIO}
)
#: How often old events are looked for, at most.
_CLEAR_EVERY_S: Final = 600.0


@dataclass
class _Rest:
    """The beginning of a line whose end is still to come: where, how much of it, since when it stands still, and when
    to look at it again."""

    offset: int = -1
    size: int = 0
    since: float = 0.0
    look_at: float = 0.0


@dataclass
class FollowedTrack:
    track: Track
    config: Bus
    around: Around
    bookmarks: Bookmarks
    subscribers: Sequence[Subscriber]
    orchestrator: str
    agent_of: Callable[[str], str | None]
    view: TrackView = field(default_factory=TrackView)
    _watch: WorkerWatch = field(init=False)
    _events: EventWatch = field(init=False)
    _position: Position = field(default_factory=Position, init=False)
    _begun: bool = field(default=False, init=False)
    _again_until: int = field(default=0, init=False)
    _met_at: float = field(default=0.0, init=False)
    #: Lines of this track by content: a file that was written anew has most of them again.
    _seen: dict[bytes, None] = field(default_factory=dict, init=False)
    _reread: bool = field(default=False, init=False)
    _held: HeldFile = field(default_factory=HeldFile, init=False)
    _rest: _Rest = field(default_factory=_Rest, init=False)
    _unflushed: bool = field(default=False, init=False)
    _clear_at: float = field(default=0.0, init=False)
    _slice_began: float = field(default=0.0, init=False)
    _frame: Frame | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._watch = WorkerWatch(self.track, self.config, self.around, self.orchestrator, self.agent_of)
        self._events = EventWatch(self.track, self.around, self.bookmarks.events_path(self.track))

    # --- looking ------------------------------------------------------------------------------------------------------
    async def look(self, *, everything: bool) -> None:
        self._slice_began = time.monotonic()
        self._mind_the_clocks()
        if not self._begun:
            await self._begin()
        await self._read_on()
        await self._hear_events(everything=everything)
        kept = dict(self._watch.stale)
        await self._watch.look(self.view)
        if self._watch.stale != kept:
            await self._keep()
        if everything:
            await self._keep(flush=True)
            await self._clear_old_events()

    def _mind_the_clocks(self) -> None:
        """While we live, silence is counted by the monotonic clock: a wall clock that is set, or a night's sleep, makes
        nobody silent, and nobody's next word an old one."""
        now = self.around.clock.now()
        frame = Frame("this daemon's", now.wall - now.mono)
        if moved_s := moved(self._frame, frame):
            self.view.move(moved_s)
            self._watch.move(moved_s)
            self._met_at += moved_s
        if moved_s != 0.0:
            self._frame = frame

    def forget(self) -> None:
        """Something was refused half way: what is known is what is on disk."""
        self._begun = False

    def is_due(self) -> bool:
        wish = self.wish_s()
        return not self._begun or (wish is not None and wish <= 0)

    def wish_s(self) -> float | None:
        """In how many seconds it wants to be looked at again, without being told of a change."""
        rest_s = self._rest.look_at - time.monotonic() if self._rest.size else None
        wishes = [self._watch.wish_s(self.view), rest_s, self._events.wish_s()]
        return min((wish for wish in wishes if wish is not None), default=None)

    def page(self) -> dict[str, object]:
        return {"bus": self.track.bus, "offset": self._position.offset, **self._watch.page(self.view)}

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def _begin(self) -> None:
        """What was acted on before is read again, for what it says only."""
        kept, earlier = self.bookmarks.load(self.track), self.view
        self.view, self._seen = TrackView(), {}
        self._position, self._rest = Position(), _Rest()
        if kept is None:
            kept = Bookmark(Position(), (0, 0), {}, self.around.clock.now().wall)
            await self.bookmarks.keep(self.track, kept, flush=True)
        self._met_at, self._again_until = kept.met_at, 0
        self._watch.begin(kept.stale, self._history_before, earlier)
        found = read_on(self.track.queue, kept.position, MAX_LINE_BYTES)
        if found.restarted:
            self._say_restarted(found.restarted, kept.position.offset)
            self._events.lines_are_gone(all_of_them=True)
        else:
            await self._rebuild(kept.position)
            self.view.heard_as_in(earlier)
            self._position = kept.position
        if kept.reading[0] == found.position.inode:
            self._again_until = kept.reading[1]
        self._begun = True

    @property
    def _history_before(self) -> float:
        """What was said long before the track was first met is history, and nobody's news."""
        return self._met_at - self.config.keep_events_s

    async def _rebuild(self, until: Position) -> None:
        wall, position = self.around.clock.now().wall, Position()
        while position.offset < until.offset:
            piece = read_on(self.track.queue, position, MAX_LINE_BYTES)
            if piece.position.offset == position.offset:
                return
            for one in piece.lines:
                if one.end <= until.offset:
                    for said in read(one.raw, one.offset, one.end, wall, piece.written_at):
                        self._note(one)
                        if not isinstance(said, BadBusLine):
                            self._events.heard(said)
                            self.view.take(said)
                await self._pause()
            position = piece.position

    # --- reading on ---------------------------------------------------------------------------------------------------
    async def _read_on(self) -> None:
        more = True
        while more:
            piece = self._next_piece()
            if piece.restarted:
                await self._read_to_its_end()
                self._say_restarted(piece.restarted, self._position.offset)
                self._events.lines_are_gone()
                self.view, self._reread, self._again_until = TrackView(), True, 0
            if piece.lines:
                self.bookmarks.begin(self.track, piece.position.inode, piece.position.offset)
                await self._act_on(piece)
            moved, self._position = self._position != piece.position, piece.position
            self._held.hold(self.track.queue, piece.position.inode)
            if moved:
                await self._keep()
            more = piece.more
        self._reread = False

    async def _read_to_its_end(self) -> None:
        """What was said on a file between our last look and another's taking its name."""
        while (piece := self._held.rest(self._position, MAX_LINE_BYTES)) is not None and piece.lines:
            self.bookmarks.begin(self.track, piece.position.inode, piece.position.offset)
            await self._act_on(piece)
            self._position = piece.position

    def _next_piece(self) -> Piece:
        piece = read_on(self.track.queue, self._position, MAX_LINE_BYTES)
        now, settle_s, broken_s = time.monotonic(), self.around.settle_s, _BROKEN_SETTLES * self.around.settle_s
        if (piece.position.offset, piece.rest_bytes) != (self._rest.offset, self._rest.size):
            self._rest = _Rest(piece.position.offset, piece.rest_bytes, now, now + settle_s)
        if not piece.rest_bytes or now < self._rest.look_at:
            return piece
        self._rest.look_at = now + broken_s
        whole = read_on(self.track.queue, self._position, MAX_LINE_BYTES, take_rest=True)
        if whole.lines and (now >= self._rest.since + broken_s or self._is_whole(whole.lines[-1])):
            self._rest = _Rest()
            return whole
        return piece

    def _is_whole(self, last: RawLine) -> bool:
        said = list(read(last.raw, last.offset, last.end, self.around.clock.now().wall))
        return bool(said) and not isinstance(said[-1], BadBusLine)

    async def _act_on(self, piece: Piece) -> None:
        wall = self.around.clock.now().wall
        mail: list[Draft] = []
        for one in piece.lines:
            repeated = self._reread and _digest(one.raw) in self._seen
            self._note(one)
            for said in read(one.raw, one.offset, one.end, wall, piece.written_at):
                if isinstance(said, BadBusLine):
                    self._say_bad(said, one, repeated=repeated)
                elif repeated:
                    self._events.heard(said)
                    self.view.take(said)
                else:
                    await self._take(said, _cause(self.track, piece.position.inode, said, one.raw), mail)
                await self._pause()
        await self._send(mail)

    async def _take(self, line: BusLine, cause: tuple[object, ...], mail: list[Draft]) -> None:
        if line.offset < self._again_until:
            line = replace(line, again=True)
        if not line.event:
            self._events.heard(line)
        taken = self.view.take(line)
        self.around.record("bus_message", telling.facts(self.track.name, line))
        for subscriber in self.subscribers:
            await self._hand_to(subscriber, line)
        if not line.event:
            self._raise(event_names(line.type.value, line.message_id, line.payload))
        speaker = self.agent_of(line.source)
        if speaker is not None and line.is_its_own and line.at >= self.around.clock.now().wall - _FRESH_S:
            self.around.post(SignOfLife(speaker, f"{line.type.value} on the bus"))
        if line.at < self._history_before:
            return
        leader = self.around.called(self.orchestrator)
        if line.type in telling.TOLD_OF and leader is not None and leader != speaker:
            mail.append(telling.to_orchestrator(self.track.name, line, cause, leader))
        for woken in taken.woken:
            agent = self.agent_of(woken.worker)
            if agent is not None:
                mail.append(telling.to_woken(self.track.name, line, cause, woken, agent))

    async def _hear_events(self, *, everything: bool) -> None:
        """What only an event file says, after all that lines have said."""
        lines = self._events.look(self.view, everything=everything)
        if lines:
            mail: list[Draft] = []
            for line in lines:
                await self._take(line, (self.track.bus, line.message_id), mail)
            await self._send(mail)
            self._events.acted_on(lines)

    async def _hand_to(self, subscriber: Subscriber, line: BusLine) -> None:
        """What the machine refuses comes again. What is broken (a link in a file's place) would refuse for ever, and
        with this line all that were said after it: they go on, and the log says whose part was left out."""
        try:
            await subscriber.line(self.track, line)
        except OSError as error:
            if error.errno not in BROKEN:
                raise
            about = {"track": self.track.name, "message_id": line.message_id, "bus_type": line.type.value}
            what = f"{subscriber.name} of track {self.track.name}"
            self.around.record("io_error", {"what": what, "error": f"{error}: passed over for it", **about})

    def _raise(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                raise_event(self.track.events, name)
            except FileNotFoundError:
                state_files.make_directory(self.track.events)
                raise_event(self.track.events, name)
        if names:
            self._events.raised_by_us()

    async def _send(self, drafts: list[Draft]) -> None:
        """Side by side: each waits for its flush, which they share."""
        refused: list[OSError] = []

        async def one(draft: Draft) -> None:
            try:
                await self.around.mail(draft)
            except UnknownAgent:
                pass  # it left the team since
            except OSError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for draft in drafts:
                tasks.start_soon(one, draft)
        if refused:
            raise refused[0]

    # --- the rest -----------------------------------------------------------------------------------------------------
    async def _keep(self, *, flush: bool = False) -> None:
        """Flushed now and then only: a power cut makes mail again that is recognised."""
        if flush and not self._unflushed:
            return
        self._unflushed = not flush
        bookmark = Bookmark(self._position, (0, 0), dict(self._watch.stale), self._met_at)
        await self.bookmarks.keep(self.track, bookmark, flush=flush)

    async def _clear_old_events(self) -> None:
        """All of a track on which everything has ended and nothing was said for long; else those of one moment only."""
        if time.monotonic() < self._clear_at:
            return
        keep_s = self.config.keep_events_s
        self._clear_at = time.monotonic() + min(_CLEAR_EVERY_S, keep_s)
        before = self.around.clock.now().wall - keep_s
        silent = state_files.last_written(self.track.queue, self.track.status) < before
        wanted = (lambda _: True) if silent and self.view.finished() else is_passing
        removed, more = await in_thread(state_files.clear_events, self.track.events, before, wanted)
        if more:
            self._clear_at = 0.0
        if removed:
            self.around.record("bus_events_cleared", {"track": self.track.name, "number": removed})

    def _note(self, one: RawLine) -> None:
        self._seen[_digest(one.raw)] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _say_restarted(self, why: str, offset: int) -> None:
        data = {"track": self.track.name, "file": "queue.jsonl", "why": why, "offset": offset}
        self.around.record("bus_restarted", data)

    def _say_bad(self, bad: BadBusLine, one: RawLine, *, repeated: bool) -> None:
        if repeated:
            return
        begin = bad.offset - one.offset
        text = one.raw[begin : begin + 200].decode(errors="replace")
        data = {"track": self.track.name, "offset": bad.offset, "code": bad.code, "error": bad.detail, "text": text}
        self.around.record("bus_bad_line", data)

    async def _pause(self) -> None:
        if time.monotonic() - self._slice_began > _SLICE_S:
            await anyio.lowlevel.checkpoint()
            self._slice_began = time.monotonic()


def _cause(track: Track, inode: int, line: BusLine, raw: bytes) -> tuple[object, ...]:
    """What makes mail about this line this mail. A line with an id and a time is the same wherever it lies; one without
    is known by its place only: the same words are said again and again."""
    said = _digest(raw).hex()
    if b'"timestamp"' in raw and not line.message_id.startswith("line-"):
        return (track.bus, said)
    return (track.bus, f"inode {inode}", f"at {line.offset}", said)


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw.strip(), digest_size=8).digest()
