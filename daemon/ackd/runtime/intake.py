"""From hints to events: reads what came, proves what went, scans for what no hint told of.

A notification is a hint, a scan is the truth: a hint may be lost, repeated or early, and every path here ends in a look
at the disk. Owns the waiting until a file has settled, and the queue directories as they were last seen. What went is
proven by departures. Refuses to decide what becomes of a message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, assert_never

import anyio
import anyio.lowlevel

from ackd import ports
from ackd.core import events, headers
from ackd.core.delivery import State
from ackd.core.errors import BadMessage, BadName
from ackd.core.message import MONITOR, Folder, Place, Status
from ackd.core.message_files import STRAY_AFTER_S, STRAY_CURE, STRAY_WORDS, is_message_file, is_stray
from ackd.dialects import ignite
from ackd.runtime.body_warnings import body_warning
from ackd.runtime.departures import Departures
from ackd.runtime.fresh_mail import FreshMail

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from anyio.abc import TaskGroup

    from ackd.adapters.spool import Spool
    from ackd.core.book import Book, Delivery
    from ackd.core.message import Message
    from ackd.ports import Clock, Hint, Post
    from ackd.runtime.copies import Copies
    from ackd.runtime.letterbox import Letterbox
    from ackd.syscalls import Birth

#: A file that is no message by its name is somebody's mistake once it has lain there this long.
#: Overflows that follow each other within this time are one storm, and one line.
STORM_S: Final = 10.0
#: Files looked at between two breaths of the loop.
SLICE: Final = 64
_OTHERS_WORDS: Final = frozenset({Status.COMPLETED, Status.ERROR})


@dataclass
class Intake:
    spool: Spool
    book: Book
    clock: Clock
    post: Post
    tasks: TaskGroup
    settle_s: float
    extra_types: Container[str]
    #: The agent a queue directory belongs to; makes it known if it is new.
    agent_of: Callable[[str], str]
    record: Callable[[str, dict[str, object]], None]
    letterbox: Letterbox
    #: Told at once when a queue directory is gone: the root's lock may have gone the same way.
    alarm: Callable[[], None]
    fresh: FreshMail = field(default_factory=FreshMail)
    #: When this version of ackd first served this root (wall); 0: nobody knows, and nothing is older.
    first_start: float = 0.0
    #: Gives a message that was dropped by hand to the others whom it names.
    copies: Copies | None = None
    #: Directories as they were when last seen whole: another birth means another directory.
    boxes: dict[str, tuple[Birth, Birth] | None] = field(default_factory=dict)
    #: Whose each of them is.
    _owners: dict[str, str] = field(default_factory=dict)
    _settling: set[Place] = field(default_factory=set)
    #: Files whose others have theirs: place and stamp.
    _copied: set[tuple[Place, int]] = field(default_factory=set)
    #: While a start reads what is in hand: files that were hinted at, and whether their writers had closed them.
    _held: dict[Place, bool] | None = None
    _owed: dict[Place, Callable[[events.Arrived], events.Arrived]] = field(default_factory=dict)
    #: Directories that went, as they were: the one that lies there by the time we look may be another.
    _losing: dict[str, tuple[Birth, Birth] | None] = field(default_factory=dict)
    _strays: set[str] = field(default_factory=set)
    _unfit: dict[str, str] = field(default_factory=dict)
    #: Scans that an overflow asked for: the one that runs, and the one that follows it.
    _owed_scans: int = 0
    _overflowed_at: float = -math.inf

    def __post_init__(self) -> None:
        common = (self.spool, self.book, self.clock, self.post, self.tasks, self.settle_s)
        self.departures = Departures(*common, door=self)

    def hint(self, hint: Hint) -> None:
        match hint:
            case ports.FileReady(place, closed):
                self.came(place, closed=closed, told=True)
            case ports.FileGone(place):
                self.departures.left(place, told=True)
            case ports.ReceiptReady(name):
                self.letterbox.take(name)
            case ports.BoxAppeared(box):
                if self.meet_box(box):
                    self.scan_box(box)
            case ports.BoxGone(box):
                self.lose_box(box)
            case ports.HintsLost():
                self._miss_hints()
            case ports.WatchFailed():
                raise AssertionError  # the daemon's: it changes the watcher
            case _:
                assert_never(hint)

    # --- boxes ------------------------------------------------------------------------------------------------------
    def meet_box(self, box: str) -> bool:
        """False if it cannot be served (its processed/ is a file, a link, may not be made): said once, tried again."""
        try:
            self._owners[box] = self.agent_of(box)
            self.spool.ensure_box(box)
            births = self.spool.births(box)
        except (OSError, BadName) as error:
            if self._unfit.get(box) != str(error):
                self.record("io_error", {"what": f"queue/{box}", "error": str(error), "agent": box})
            self._unfit[box] = str(error)
            return False
        self._unfit.pop(box, None)
        if box not in self.boxes or self.boxes[box] != births:
            self.boxes[box] = births  # what is the same stays the same object: each turn compares them all with a copy
        return True

    def lose_box(self, box: str) -> None:
        if box in self.boxes and box not in self._losing:
            self._losing[box] = self.boxes[box]
            self.alarm()
            self.tasks.start_soon(self._mourn, box, name=f"box {box} gone")

    def _cannot_see(self, box: str, error: OSError) -> None:
        self.record("io_error", {"what": f"queue/{box}", "error": str(error), "agent": box})

    def is_losing(self, box: str) -> bool:
        return box in self._losing

    async def _mourn(self, box: str) -> None:
        """Moved away and back is no loss; replaced or gone is: say which files went with it, and make it anew."""
        await anyio.sleep(self.settle_s)
        before = self._losing.pop(box)
        try:
            births = self.spool.births(box)
        except OSError as error:  # it cannot be seen whether it went; the next scan asks again
            self._cannot_see(box, error)
            return
        if births == before:
            self.scan_box(box)
            return
        known = [
            d.place for d in self.book if d.place.box == box and d.place.folder in (Folder.QUEUE, Folder.PROCESSED)
        ]
        lost = tuple(place for place in known if self.spool.is_gone(place))
        self.post(events.SpoolLost(box, lost))
        try:
            self.spool.ensure_layout()
        except OSError as error:
            self.record("io_error", {"what": "make the directories again", "error": str(error)})
        self.alarm()  # if the root itself was gone, its lock is nobody's yet
        if self.meet_box(box):
            self.scan_box(box)
        else:
            del self.boxes[box]  # the next scan meets it, if it can be met

    # --- at a start ---------------------------------------------------------------------------------------------------
    def hold(self) -> None:
        """What comes waits until recovery is through with what is in hand: of two twins that one is the older, and an
        answer must find its question."""
        if self._held is None:
            self._held = {}

    async def release(self) -> None:
        held, self._held = self._held or {}, None
        for number, (place, closed) in enumerate(held.items(), 1):
            self.came(place, closed=closed, told=True)
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()

    def owe(self, places: Iterable[Place], take_up: Callable[[events.Arrived], events.Arrived]) -> None:
        """What was in hand and cannot be read now: whenever it can be, it is from before, and ``take_up`` adds what is
        known of it."""
        self._owed = dict.fromkeys(places, take_up)

    # --- files ------------------------------------------------------------------------------------------------------
    def came(self, place: Place, *, closed: bool, told: bool = False) -> None:
        """``told``: by a hint, so that also what lies under a known name is looked at: it may be another message."""
        if not is_message_file(place.name) or place in self._settling:
            return
        if self._held is not None:
            self._held[place] = closed or self._held.get(place, False)
            return
        if place.box not in self.boxes and not self.meet_box(place.box):
            return  # nothing is moved through a processed/ that is none; once it is mended the scan finds the file
        if self.book.at(place) is not None and not (told and place.folder is Folder.QUEUE):
            return
        if place.folder is Folder.PROCESSED and self._is_being_claimed(place):
            return
        if closed:
            self.read(place)
        else:
            self._read_later(place)

    def _read_later(self, place: Place) -> None:
        self._settling.add(place)
        self.tasks.start_soon(self._wait_until_settled, place, name=f"settle {place}")

    def _is_being_claimed(self, place: Place) -> bool:
        """Our own move, whose answer is on its way to the engine; or, to another mount, one that was half refused."""
        claimed = self.book.at(Place(place.box, Folder.QUEUE, place.name))
        if claimed is None or claimed.state is State.CLAIMING:
            return claimed is not None
        try:
            return self.spool.was_copied(claimed.place, to=place)
        except OSError as error:  # the next scan meets it again
            self.record("io_error", {"what": f"read {place}", "error": str(error)})
            return True

    async def _wait_until_settled(self, place: Place) -> None:
        """A scan cannot know whether its writer is through: nobody has it open, and it has not changed for a while."""
        try:
            while not self.spool.settled(place, self.clock.now().wall, self.settle_s):  # noqa: ASYNC110 - a look, no event
                await anyio.sleep(max(self.settle_s / 4, 0.05))
        except FileNotFoundError:
            return
        except OSError as error:
            self.record("io_error", {"what": f"look at {place}", "error": str(error)})
            return
        finally:
            self._settling.discard(place)
        self.read(place)

    def read(self, place: Place) -> None:
        known = self.book.at(place)
        if known is not None and known.state is not State.QUEUED:
            return
        take_up = self._owed.get(place)
        try:
            event = self.look(place, recovered=take_up is not None)
        except FileNotFoundError:
            return
        except OSError as error:  # no descriptors left, I/O error: the next scan meets it again
            self.record("io_error", {"what": f"read {place}", "error": str(error)})
            return
        self._owed.pop(place, None)
        if isinstance(event, events.Arrived):
            if take_up is not None:
                event = take_up(event)
            if known is not None and not self._was_overwritten(known, event.message):
                return
            if self.must_copy(event):
                self._settling.add(place)
                self.tasks.start_soon(self._copy_then_read, event, name=f"copies of {place}")
                return
            self._copied.discard((place, event.stamp))
            self._tell_of_moves(event)
        elif not self._has_settled(place):
            if known is not None:
                self.post(events.Vanished(place))  # at once, or what lies there would be claimed in its place
            self._read_later(place)
            return
        self.post(event)

    def must_copy(self, event: events.Arrived) -> bool:
        """Whether others are named who may not have it. They get theirs first, while it waits where it lies: a crash in
        between finds it there, and looks again."""
        if not event.message.others or self.copies is None or event.place.folder is not Folder.QUEUE:
            return False
        return not self._is_old(event.arrived_at) and (event.place, event.stamp) not in self._copied

    async def _copy_then_read(self, event: events.Arrived) -> None:
        """Whoever writes a file for each is given the time to."""
        assert self.copies is not None
        place = event.place
        try:
            await anyio.sleep(self.settle_s)
            if not await self.copies.make(event.message, place):
                return  # gone, or another by now: its own arrival is read
            self._copied.add((place, event.stamp))
        finally:
            self._settling.discard(place)
        self.read(place)

    def _has_settled(self, place: Place) -> bool:
        """Whoever closes a file may open it once more and go on: what is no message yet is given the same time as what
        was never closed. What cannot be looked at will not become one."""
        try:
            return self.spool.settled(place, self.clock.now().wall, self.settle_s)
        except OSError:
            return True

    def _was_overwritten(self, known: Delivery, now: Message) -> bool:
        """Someone who always writes to the same name was quicker than we: one message is gone, another is there."""
        if (known.message.message_id, known.message.digest) == (now.message_id, now.digest):
            return False
        self.post(events.Vanished(known.place))
        return True

    def _tell_of_moves(self, event: events.Arrived) -> None:
        """Renamed by hand, or by a writer whose temporary name ends in .mime too: the same message, not a second one.

        Of our own moves the engine has heard before it hears of this: nothing is at the old place then.
        """
        for same in self.book.of_id(event.message.message_id, event.message.recipient):
            old = same.place
            if old == event.place or old.folder not in (Folder.QUEUE, Folder.PROCESSED):
                continue
            if same.message.digest == event.message.digest and self.spool.is_gone(old):
                self.post(events.Vanished(old, moved_to=event.place))
        for old in self.departures.moved_here(event):
            self.post(events.Vanished(old, moved_to=event.place))

    def look(self, place: Place, *, recovered: bool = False) -> events.Arrived | events.Unreadable:
        """The file as an event: a message, or a named reason why it is none."""
        data = b""
        try:
            file = self.spool.read(place)
            data = file.data
            if place.folder is Folder.QUEUE and self.spool.is_large(file):  # what is in hand has been let in before
                self.spool.must_fit(len(ignite.rewrite(file.data, headers.NONE_OF_OURS)))
            owner = self._owners.get(place.box) or self.agent_of(place.box)
            message = ignite.decode(file.data, owner, extra_types=self.extra_types)
        except BadMessage as bad:
            return events.Unreadable(place, bad.code, str(bad), ignite.claimed_sender(data))
        self.fresh.keep(message, file.data)
        standing = ignite.standing(file.data) if place.folder is Folder.PROCESSED else None
        if standing is not None and standing.status in _OTHERS_WORDS and not (recovered and self._is_old(file.mtime)):
            standing = replace(standing, status=Status.PROCESSING)
        warning = "" if recovered else body_warning(message, file.data)
        return events.Arrived(
            message, place, file.mtime, standing, recovered=recovered, stamp=file.stamp, warning=warning
        )

    def _is_old(self, mtime: float) -> bool:
        """Whether it lay there before this version of ackd first served this root."""
        return mtime < self.first_start

    # --- the scan -----------------------------------------------------------------------------------------------------
    def _miss_hints(self) -> None:
        """In a storm every reading may overflow again: that is said once, and one scan follows the one that runs."""
        now = self.clock.now().mono
        if now - self._overflowed_at > STORM_S:
            self.record("watch_overflow", {})
        self._overflowed_at = now
        if self._owed_scans == 0:
            self.tasks.start_soon(self._scan_owed, name="scan after overflow")
        self._owed_scans = min(self._owed_scans + 1, 2)

    async def _scan_owed(self) -> None:
        while self._owed_scans:
            await self.scan()
            self._owed_scans -= 1

    async def scan(self) -> None:
        """Everything there is, in slices: whatever no hint told of is found here."""
        try:
            boxes = self.spool.boxes()
        except FileNotFoundError:
            boxes = {}
        except OSError as error:  # it cannot be seen that anything changed
            self.record("io_error", {"what": "list queue", "error": str(error)})
            return
        for box in self.boxes.keys() - boxes.keys():
            self.lose_box(box)
        for box in sorted(boxes):
            try:
                if box in self.boxes and self.spool.births(box) != self.boxes[box]:
                    self.lose_box(box)
            except OSError as error:
                self._cannot_see(box, error)
                continue
            if box in self.boxes or self.meet_box(box):
                self.scan_box(box)
            await anyio.lowlevel.checkpoint()
        self._scan_strangers()
        await self._scan_missing()
        await self.letterbox.scan()

    def scan_box(self, box: str) -> None:
        try:
            found = [place for place, _ in self.spool.scan(box)]
        except FileNotFoundError:
            return
        except OSError as error:
            self.record("io_error", {"what": f"list queue/{box}", "error": str(error)})
            return
        strays = {str(place): place for place in found if is_stray(place.name)}
        for place in found:
            if is_message_file(place.name):
                self.came(place, closed=False)
        self._strays -= {file for file in self._strays if file.startswith(f"queue/{box}/") and file not in strays}
        for place in strays.values():
            self._stray(place)

    def _scan_strangers(self) -> None:
        """In queue/ itself: no agent can have that name, so nobody will look there."""
        try:
            names = self.spool.strangers()
        except OSError:
            return
        for name in names:
            self._say_stray(f"queue/{name}", None, "no agent can have that name: nobody will look there")

    async def _scan_missing(self) -> None:
        """Known files that are not there: their deletion went unheard."""
        for number, delivery in enumerate(self.book):
            if number % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if delivery.place.folder in (Folder.QUEUE, Folder.PROCESSED) and self.spool.is_gone(delivery.place):
                self.departures.left(delivery.place, told=False)

    def _stray(self, place: Place) -> None:
        """Not ours to touch: a writer may yet rename it. But somebody should know that nobody will read it."""
        if str(place) in self._strays:
            return
        try:
            age_s = self.clock.now().wall - self.spool.path(place).lstat().st_mtime
        except OSError:
            return
        if age_s > STRAY_AFTER_S:
            self._say_stray(str(place), place.box, f"{STRAY_WORDS}. {STRAY_CURE}")
            self._tell_of_stray(place)

    def _tell_of_stray(self, place: Place) -> None:
        """Of what looks like a message. Who keeps notes in a queue has the line in the log."""
        try:
            head = self.spool.head(place)
        except (OSError, BadMessage):
            return
        sender = ignite.claimed_sender(head)
        if ignite.glanced_id(head) is None or sender == MONITOR:
            return
        agent = self._owners.get(place.box, place.box)
        lain = f"has lain there for more than {STRAY_AFTER_S:.0f} s"
        text = f"1 file for {agent}, {place}, {lain}: {STRAY_WORDS} (0 of 1, 0%)"
        self.post(events.TroubleSeen("stray", str(place), text, STRAY_CURE, agent, sender))

    def _say_stray(self, file: str, agent: str | None, why: str) -> None:
        if file not in self._strays:
            self._strays.add(file)
            whose: dict[str, object] = {"agent": agent} if agent else {}
            self.record("stray_file", {**whose, "file": file, "reason": why})
