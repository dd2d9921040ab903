"""Follows one track: reads its lines and acts on them, watches its workers, and clears its old events.

A line is acted on in this order: the log, subscribers, event files, mail, and only then the bookmark. So a crash
repeats lines and never skips one; repeated mail has the ids it had. At a start the track's state is rebuilt by reading
its queue up to the bookmark, without consequences. An OSError ends the look: the caller calls ``forget``, and
everything after the bookmark is done again.
"""

from __future__ import annotations

import errno
import hashlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from ackd.coordination.bus import notices as telling
from ackd.coordination.bus.bookmarks import Bookmark
from ackd.coordination.bus.event_watch import EventWatch
from ackd.coordination.bus.facts import bus_bad_line, bus_events_cleared, bus_message, bus_restarted
from ackd.coordination.bus.files import raise_event, state_files
from ackd.coordination.bus.files.tailing import HeldFile, Piece, Position, read_on
from ackd.coordination.bus.rules.events import event_names, is_passing
from ackd.coordination.bus.rules.track import TrackView
from ackd.coordination.bus.wire.reading import read
from ackd.coordination.bus.worker_watch import WorkerWatch
from ackd.core.clock_frames import Frame
from ackd.core.clock_frames import moved_s as moved
from ackd.core.daemon_facts import io_error
from ackd.core.errors import BadBusLine, UnknownAgent
from ackd.core.events import SignOfLife
from ackd.formats.json_line import MAX_LINE_BYTES
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.coordination.bus.bookmarks import Bookmarks
    from ackd.coordination.bus.files.tailing import RawLine
    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.coordination.bus.settings import BusSettings
    from ackd.coordination.bus.subscriber import Subscriber
    from ackd.coordination.gateway import GatewayServices
    from ackd.core.message import Draft

#: The time after which reading gives the event loop back to the other tasks.
_SLICE_S: Final = 0.004
#: The age up to which a line counts as a sign of life.
_FRESH_S: Final = 60.0
#: A last line without an end is taken after ``settle_s`` without growth if it is whole, else after so many of them.
_BROKEN_SETTLES: Final = 30
_MAX_SEEN: Final = 65_536
#: Errors that waiting does not mend: something else is in the place of a file, or it may not be opened.
BROKEN: Final = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENXIO}
)
#: Old events are looked for no more often than this.
_CLEAR_EVERY_S: Final = 600.0


@dataclass
class _Rest:
    """The beginning of a line whose end has not been written yet: where it is, how long, since when it has not grown,
    and when to look at it again."""

    offset: int = -1
    size: int = 0
    since: float = 0.0
    look_at: float = 0.0


@dataclass
class FollowedTrack:
    track: Track
    config: BusSettings
    services: GatewayServices
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
    #: Digests of lines of this track: a file that was written anew contains most of them again.
    _seen: dict[bytes, None] = field(default_factory=dict, init=False)
    _reread: bool = field(default=False, init=False)
    _held: HeldFile = field(default_factory=HeldFile, init=False)
    _rest: _Rest = field(default_factory=_Rest, init=False)
    _unflushed: bool = field(default=False, init=False)
    _clear_at: float = field(default=0.0, init=False)
    _slice_began: float = field(default=0.0, init=False)
    _frame: Frame | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._watch = WorkerWatch(self.track, self.config, self.services, self.orchestrator, self.agent_of)
        self._events = EventWatch(self.track, self.services, self.bookmarks.events_path(self.track))

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
        """Count silence by the monotonic clock while the daemon lives: setting the wall clock, or a night's sleep,
        makes no worker silent and no later line an old one."""
        now = self.services.clock.now()
        frame = Frame("this daemon's", now.wall - now.mono)
        if moved_s := moved(self._frame, frame):
            self.view.move(moved_s)
            self._watch.move(moved_s)
            self._met_at += moved_s
        if moved_s != 0.0:
            self._frame = frame

    def forget(self) -> None:
        """Drop what is in memory after a refusal half way: the next look starts from what is on disk."""
        self._begun = False

    def is_due(self) -> bool:
        next_look_s = self.next_look_s()
        return not self._begun or (next_look_s is not None and next_look_s <= 0)

    def next_look_s(self) -> float | None:
        """Return in how many seconds the track wants to be looked at again without a hint."""
        rest_s = self._rest.look_at - time.monotonic() if self._rest.size else None
        next_looks = [self._watch.next_look_s(self.view), rest_s, self._events.next_look_s()]
        return min((in_s for in_s in next_looks if in_s is not None), default=None)

    def page(self) -> dict[str, Any]:
        return {"bus": self.track.bus, "offset": self._position.offset, **self._watch.page(self.view)}

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def _begin(self) -> None:
        """Read the lines that were acted on before, only to rebuild the track's state."""
        kept, earlier = self.bookmarks.load(self.track), self.view
        self.view, self._seen = TrackView(), {}
        self._position, self._rest = Position(), _Rest()
        if kept is None:
            kept = Bookmark(Position(), (0, 0), {}, self.services.clock.now().wall)
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
        """The time before which lines are history and are not acted on: long before the daemon first saw the track."""
        return self._met_at - self.config.keep_events_s

    async def _rebuild(self, until: Position) -> None:
        wall, position = self.services.clock.now().wall, Position()
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
        """Read the lines that were appended to a file between the last look and its replacement by another."""
        while (piece := self._held.rest(self._position, MAX_LINE_BYTES)) is not None and piece.lines:
            self.bookmarks.begin(self.track, piece.position.inode, piece.position.offset)
            await self._act_on(piece)
            self._position = piece.position

    def _next_piece(self) -> Piece:
        piece = read_on(self.track.queue, self._position, MAX_LINE_BYTES)
        now, settle_s, broken_s = time.monotonic(), self.services.settle_s, _BROKEN_SETTLES * self.services.settle_s
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
        said = list(read(last.raw, last.offset, last.end, self.services.clock.now().wall))
        return bool(said) and not isinstance(said[-1], BadBusLine)

    async def _act_on(self, piece: Piece) -> None:
        wall = self.services.clock.now().wall
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
        self.services.record(bus_message(**telling.facts(self.track.name, line)))
        for subscriber in self.subscribers:
            await self._hand_to(subscriber, line)
        if not line.event:
            self._raise(event_names(line.type.value, line.message_id, line.payload))
        speaker = self.agent_of(line.source)
        if speaker is not None and line.is_its_own and line.at >= self.services.clock.now().wall - _FRESH_S:
            self.services.post(SignOfLife(speaker, f"{line.type.value} on the bus"))
        if line.at < self._history_before:
            return
        leader = self.services.called(self.orchestrator)
        if line.type in telling.TOLD_OF and leader is not None and leader != speaker:
            mail.append(telling.to_orchestrator(self.track.name, line, cause, leader))
        for woken in taken.woken:
            agent = self.agent_of(woken.worker)
            if agent is not None:
                mail.append(telling.to_woken(self.track.name, line, cause, woken, agent))

    async def _hear_events(self, *, everything: bool) -> None:
        """Act on ends that only an event file tells of, after all lines."""
        lines = self._events.look(self.view, everything=everything)
        if lines:
            mail: list[Draft] = []
            for line in lines:
                await self._take(line, (self.track.bus, line.message_id), mail)
            await self._send(mail)
            self._events.acted_on(lines)

    async def _hand_to(self, subscriber: Subscriber, line: BusLine) -> None:
        """Give a line to a subscriber. If the machine refuses, the line comes again. If a file of the subscriber's is
        broken (a link in its place), that would last for ever and hold up all later lines: they go on, and the log
        names the part that was left out."""
        try:
            await subscriber.line(self.track, line)
        except OSError as error:
            if error.errno not in BROKEN:
                raise
            what = f"{subscriber.name} of track {self.track.name}"
            self.services.record(
                io_error(
                    what=what,
                    error=f"{error}: passed over for it",
                    track=self.track.name,
                    message_id=line.message_id,
                    bus_type=line.type.value,
                )
            )

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
        """Send mail side by side: each waits for its flush, which they share."""
        refused: list[OSError] = []

        async def one(draft: Draft) -> None:
            try:
                await self.services.mail(draft)
            except UnknownAgent:
                pass  # the agent has left the team since
            except OSError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for draft in drafts:
                tasks.start_soon(one, draft)
        if refused:
            raise refused[0]

    # --- the rest -----------------------------------------------------------------------------------------------------
    async def _keep(self, *, flush: bool = False) -> None:
        """Save the bookmark. It is flushed only now and then: mail that is made again after a power cut is
        recognised."""
        if flush and not self._unflushed:
            return
        self._unflushed = not flush
        bookmark = Bookmark(self._position, (0, 0), dict(self._watch.stale), self._met_at)
        await self.bookmarks.keep(self.track, bookmark, flush=flush)

    async def _clear_old_events(self) -> None:
        """Remove old event files: all of them if everything on the track has ended and nothing was said for long; else
        only those of a single moment."""
        if time.monotonic() < self._clear_at:
            return
        keep_s = self.config.keep_events_s
        self._clear_at = time.monotonic() + min(_CLEAR_EVERY_S, keep_s)
        before = self.services.clock.now().wall - keep_s
        silent = state_files.last_written(self.track.queue, self.track.status) < before
        wanted = (lambda _: True) if silent and self.view.finished() else is_passing
        removed, more = await in_thread(state_files.clear_events, self.track.events, before, wanted)
        if more:
            self._clear_at = 0.0
        if removed:
            self.services.record(bus_events_cleared(track=self.track.name, number=removed))

    def _note(self, one: RawLine) -> None:
        self._seen[_digest(one.raw)] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _say_restarted(self, why: str, offset: int) -> None:
        self.services.record(bus_restarted(track=self.track.name, file="queue.jsonl", why=why, offset=offset))

    def _say_bad(self, bad: BadBusLine, one: RawLine, *, repeated: bool) -> None:
        if repeated:
            return
        begin = bad.offset - one.offset
        text = one.raw[begin : begin + 200].decode(errors="replace")
        self.services.record(
            bus_bad_line(track=self.track.name, offset=bad.offset, code=bad.code, error=bad.detail, text=text)
        )

    async def _pause(self) -> None:
        if time.monotonic() - self._slice_began > _SLICE_S:
            await anyio.lowlevel.checkpoint()
            self._slice_began = time.monotonic()


def _cause(track: Track, inode: int, line: BusLine, raw: bytes) -> tuple[object, ...]:
    """The key that makes mail about a line idempotent: same line, same mail. A line with an id and a time is the same
    wherever it is in the file; one without is known by its place only, because workers repeat the same words."""
    said = _digest(raw).hex()
    if b'"timestamp"' in raw and not line.message_id.startswith("line-"):
        return (track.bus, said)
    return (track.bus, f"inode {inode}", f"at {line.offset}", said)


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw.strip(), digest_size=8).digest()
