"""Turns the watcher's hints into events: reads new files, notes missing ones, and scans for both without a hint.

A notification is a hint, a scan is the truth: a hint may be lost, repeated or early, and every path here ends in a look
at the disk. The intake waits until a file has settled, and remembers the queue directories as they were last seen.
Missing files are judged by ``departures``. The engine decides what becomes of a message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import anyio
import anyio.lowlevel

from ackd.core import events, headers, ports
from ackd.core.daemon_facts import io_error, watch_overflow
from ackd.core.delivery import State
from ackd.core.errors import BadBody, BadMessage, BadName
from ackd.core.message import MONITOR, Folder, Place, Status, identity
from ackd.core.message_facts import stray_file
from ackd.core.message_files import STRAY_AFTER_S, STRAY_CURE, STRAY_WORDS, is_message_file, is_stray
from ackd.formats import body_shapes, ignite
from ackd.runtime.intake.departures import Departures
from ackd.runtime.read_cache import ReadCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ackd.config.live import LiveConfig
    from ackd.core.message import Message
    from ackd.core.ports import Hint, Services
    from ackd.core.state import Deliveries, Delivery
    from ackd.runtime.intake.copies import Copies
    from ackd.runtime.receipts.receipts import Receipts
    from ackd.storage.spool import Spool
    from ackd.system.syscalls import Birth

#: Overflows of the watcher that follow each other within this time are logged once.
STORM_S: Final = 10.0
#: Files looked at before the event loop is given a turn.
SLICE: Final = 64
#: Statuses that ackd never leaves in processed/. They are believed only in files from before this version.
_FOREIGN_STATUSES: Final = frozenset({Status.COMPLETED, Status.ERROR})


@dataclass(kw_only=True)
class Intake:
    spool: Spool
    deliveries: Deliveries
    services: Services
    config: LiveConfig
    #: Returns the agent that a queue directory belongs to, and announces it if it is new.
    agent_of: Callable[[str], str]
    receipts: Receipts
    #: Called at once when a queue directory is gone: the root's lock may be gone, too.
    alarm: Callable[[], None]
    read_cache: ReadCache = field(default_factory=ReadCache)
    #: Wall time at which this version of ackd first served this root. 0: unknown, and no file counts as older.
    first_start: float = 0.0
    #: Gives a message that was dropped by hand to the other recipients that it names.
    copies: Copies | None = None
    #: Queue directories as last seen: other births mean another directory.
    boxes: dict[str, tuple[Birth, Birth] | None] = field(default_factory=dict)
    #: Grows whenever an entry of ``boxes`` changes: comparing thousands of them in each turn costs too much.
    box_changes: int = 0
    #: The agent that each queue directory belongs to.
    _owners: dict[str, str] = field(default_factory=dict)
    _settling: set[Place] = field(default_factory=set)
    #: Files (place and stamp) whose other recipients have their copies.
    _copied: set[tuple[Place, int]] = field(default_factory=set)
    #: Set while a start reads the messages in hand: files that hints named, and whether their writers closed them.
    _held: dict[Place, bool] | None = None
    #: Files that were in hand and could not be read at the start (see ``owe``).
    _owed: dict[Place, Callable[[events.Arrived], events.Arrived]] = field(default_factory=dict)
    #: Directories that seem lost, as they were: by the time we look, another may lie there.
    _losing: dict[str, tuple[Birth, Birth] | None] = field(default_factory=dict)
    _strays: set[str] = field(default_factory=set)
    _unfit: dict[str, str] = field(default_factory=dict)
    #: Scans asked for by overflows: at most the one that runs, and one that follows it.
    _owed_scans: int = 0
    _overflowed_at: float = -math.inf

    def __post_init__(self) -> None:
        self.departures = Departures(
            spool=self.spool,
            deliveries=self.deliveries,
            services=self.services,
            config=self.config,
            directories=self,
        )

    @property
    def settle_s(self) -> float:
        """The settle time: how long a file written in place must rest before it is read."""
        return self.config.now.watch.settle_s

    def hint(self, hint: Hint) -> None:
        match hint:
            case ports.FileReady(place, closed):
                self.came(place, closed=closed, told=True)
            case ports.FileGone(place):
                self.departures.left(place, told=True)
            case ports.ReceiptReady(name):
                self.receipts.take(name)
            case ports.BoxAppeared(box):
                if self.meet_box(box):
                    self.scan_box(box)
            case ports.BoxGone(box):
                self.lose_box(box)
            case ports.HintsLost():
                self._scan_after_lost_hints()
            case ports.WatchFailed():
                raise AssertionError  # SpoolWatch handles it, and changes the watcher
            case _:
                assert_never(hint)

    # --- boxes --------------------------------------------------------------------------------------------------------
    def meet_box(self, box: str) -> bool:
        """Take a queue directory into service. Returns False if that is impossible now (its processed/ is a file or a
        link, or may not be made): that is logged once, and tried again."""
        try:
            self._owners[box] = self.agent_of(box)
            self.spool.ensure_box(box)
            births = self.spool.births(box)
        except (OSError, BadName) as error:
            if self._unfit.get(box) != str(error):
                self.services.record(io_error(what=f"queue/{box}", error=str(error), agent=box))
            self._unfit[box] = str(error)
            return False
        self._unfit.pop(box, None)
        if box not in self.boxes or self.boxes[box] != births:
            self.boxes[box] = births
            self.box_changes += 1
        return True

    def lose_box(self, box: str) -> None:
        if box in self.boxes and box not in self._losing:
            self._losing[box] = self.boxes[box]
            self.alarm()
            self.services.tasks.start_soon(self._check_lost_box, box, name=f"box {box} gone")

    def _report_unseen(self, box: str, error: OSError) -> None:
        self.services.record(io_error(what=f"queue/{box}", error=str(error), agent=box))

    def is_losing(self, box: str) -> bool:
        return box in self._losing

    async def _check_lost_box(self, box: str) -> None:
        """Check after ``settle_s`` whether a queue directory is lost. Moved away and back is no loss.

        If it was replaced or is gone, report the files that went with it, and make the directory anew.
        """
        await anyio.sleep(self.settle_s)
        before = self._losing.pop(box)
        try:
            births = self.spool.births(box)
        except OSError as error:  # nobody can tell whether it is gone: the next scan asks again
            self._report_unseen(box, error)
            return
        if births == before:
            self.scan_box(box)
            return
        known = [
            d.place
            for d in self.deliveries
            if d.place.box == box and d.place.folder in (Folder.QUEUE, Folder.PROCESSED)
        ]
        lost = tuple(place for place in known if self.spool.is_gone(place))
        self.services.post(events.SpoolLost(box, lost))
        try:
            self.spool.ensure_layout()
        except OSError as error:
            self.services.record(io_error(what="make the directories again", error=str(error)))
        self.alarm()  # if the root itself was gone, its new lock is not taken yet
        if self.meet_box(box):
            self.scan_box(box)
        else:
            del self.boxes[box]  # the next scan tries again to serve it
            self.box_changes += 1

    # --- at a start ---------------------------------------------------------------------------------------------------
    def hold(self) -> None:
        """Hold back new files until recovery has met the messages in hand.

        Of two copies of a message the one in hand is the older, and an answer must find the message that it answers.
        """
        if self._held is None:
            self._held = {}

    async def release(self) -> None:
        held, self._held = self._held or {}, None
        for number, (place, closed) in enumerate(held.items(), 1):
            self.came(place, closed=closed, told=True)
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()

    def owe(self, places: Iterable[Place], take_up: Callable[[events.Arrived], events.Arrived]) -> None:
        """Remember files that were in hand and cannot be read now. When one can be read, it is treated as recovered,
        and ``take_up`` adds what the journal and its run say about it."""
        self._owed = dict.fromkeys(places, take_up)

    # --- files --------------------------------------------------------------------------------------------------------
    def came(self, place: Place, *, closed: bool, told: bool = False) -> None:
        """Read a new file, now if its writer has closed it, else when it has settled.

        ``told``: a hint named it, so a file under a known name is looked at, too: it may be another message.
        """
        if not is_message_file(place.name) or place in self._settling:
            return
        if self._held is not None:
            self._held[place] = closed or self._held.get(place, False)
            return
        if place.box not in self.boxes and not self.meet_box(place.box):
            return  # its processed/ cannot be used; once that is repaired, a scan finds the file
        if self.deliveries.at(place) is not None and not (told and place.folder is Folder.QUEUE):
            return
        if place.folder is Folder.PROCESSED and self._is_being_claimed(place):
            return
        if closed:
            self.read(place)
        else:
            self._read_later(place)

    def _read_later(self, place: Place) -> None:
        self._settling.add(place)
        self.services.tasks.start_soon(self._wait_until_settled, place, name=f"settle {place}")

    def _is_being_claimed(self, place: Place) -> bool:
        """True if the file in processed/ is there by our own claim, whose answer is on its way to the engine, or if it
        is the copy of a claim to another mount that could not remove the old file."""
        claimed = next(filter(None, map(self.deliveries.at, self._may_come_from(place))), None)
        if claimed is None or claimed.state is State.CLAIMING:
            return claimed is not None
        try:
            return self.spool.was_copied(claimed.place, to=place)
        except OSError as error:  # the next scan tries again
            self.services.record(io_error(what=f"read {place}", error=str(error)))
            return True

    def _may_come_from(self, place: Place) -> Iterator[Place]:
        """Yield the places from which a claim may have moved a file here: its agent's queue, and those of its pools."""
        yield Place(place.box, Folder.QUEUE, place.name)
        if self.config.now.pools:
            agent = self.deliveries.agents.get(self._owners.get(place.box, ""))
            boxes = {owner: box for box, owner in self._owners.items()}
            for pool in agent.served_pools if agent is not None else ():
                yield Place(boxes.get(pool, pool), Folder.QUEUE, place.name)

    async def _wait_until_settled(self, place: Place) -> None:
        """Read the file when nobody has it open and it has not changed for a while: a scan cannot know whether its
        writer has finished."""
        try:
            while not self.spool.settled(place, self.services.clock.now().wall, self.settle_s):  # noqa: ASYNC110 - a look, no event
                await anyio.sleep(max(self.settle_s / 4, 0.05))
        except FileNotFoundError:
            return
        except OSError as error:
            self.services.record(io_error(what=f"look at {place}", error=str(error)))
            return
        finally:
            self._settling.discard(place)
        self.read(place)

    def read(self, place: Place) -> None:
        known = self.deliveries.at(place)
        if known is not None and known.state is not State.QUEUED:
            return
        take_up = self._owed.get(place)
        try:
            event = self.look(place, recovered=take_up is not None)
        except FileNotFoundError:
            return
        except OSError as error:  # no descriptors left, or an I/O error: the next scan tries again
            self.services.record(io_error(what=f"read {place}", error=str(error)))
            return
        self._owed.pop(place, None)
        if isinstance(event, events.Arrived):
            if take_up is not None:
                event = take_up(event)
            if known is not None and not self._was_overwritten(known, event.message):
                return
            if self.must_copy(event):
                self._settling.add(place)
                self.services.tasks.start_soon(self._copy_then_read, event, name=f"copies of {place}")
                return
            self._copied.discard((place, event.stamp))
            self._tell_of_moves(event)
        elif not self._has_settled(place):
            if known is not None:
                self.services.post(events.Vanished(place))  # at once, or the new file would be claimed in its place
            self._read_later(place)
            return
        self.services.post(event)

    def must_copy(self, event: events.Arrived) -> bool:
        """True if the message names other recipients who may not have it.

        They get their copies first, while the message waits where it lies: after a crash in between it is found there,
        and checked again.
        """
        if not event.message.others or self.copies is None or event.place.folder is not Folder.QUEUE:
            return False
        return not self._is_old(event.arrived_at) and (event.place, event.stamp) not in self._copied

    async def _copy_then_read(self, event: events.Arrived) -> None:
        """Make the copies, then read the file. A sender that writes a file for each recipient gets time to do so."""
        assert self.copies is not None
        place = event.place
        try:
            await anyio.sleep(self.settle_s)
            if not await self.copies.make(event.message, place):
                return  # gone, or replaced by another message, which is read by its own arrival
            self._copied.add((place, event.stamp))
        finally:
            self._settling.discard(place)
        self.read(place)

    def _has_settled(self, place: Place) -> bool:
        """True if a file that is no message will not become one.

        A writer may open a file again after closing it, so such a file gets the same time as one that was never closed.
        A file that cannot be looked at counts as settled.
        """
        try:
            return self.spool.settled(place, self.services.clock.now().wall, self.settle_s)
        except OSError:
            return True

    def _was_overwritten(self, known: Delivery, now: Message) -> bool:
        """True if another message lies under the known name, because its sender always writes to the same one. The old
        message is then reported as gone."""
        if (known.message.message_id, known.message.digest) == (now.message_id, now.digest):
            return False
        self.services.post(events.Vanished(known.place))
        return True

    def _tell_of_moves(self, event: events.Arrived) -> None:
        """Report that a known message was renamed, by hand or by a writer whose temporary name ends in .mime, too: this
        is the same message, not a second one.

        Our own moves are not concerned: the engine has heard of them before, and knows no delivery at the old place.
        """
        for same in self.deliveries.of_id(event.message.message_id, event.message.recipient):
            old = same.place
            if old == event.place or old.folder not in (Folder.QUEUE, Folder.PROCESSED):
                continue
            if same.message.digest == event.message.digest and self.spool.is_gone(old):
                self.services.post(events.Vanished(old, moved_to=event.place))
        for old in self.departures.moved_here(event):
            self.services.post(events.Vanished(old, moved_to=event.place))

    def look(self, place: Place, *, recovered: bool = False) -> events.Arrived | events.Unreadable:
        """Read the file into an event: a message, or a named reason why it is none."""
        data = b""
        try:
            file = self.spool.read(place)
            data = file.data
            if place.folder is Folder.QUEUE and self.spool.is_large(file):  # a message in hand was accepted before
                self.spool.must_fit(len(ignite.rewrite(file.data, headers.NONE_OF_OURS)))
            owner = self._owners.get(place.box) or self.agent_of(place.box)
            message = ignite.decode(file.data, owner, extra_types=self.config.now.accepted_types)
            if self.config.now.groups:
                message = self._with_group(message, file.data)
        except BadMessage as bad:
            return events.Unreadable(place, bad.code, str(bad), ignite.claimed_sender(data))
        if recovered and place.folder is Folder.PROCESSED:
            message = self._with_pool(message, file.data)
        self.read_cache.keep(message, file.data)
        in_pool = recovered and owner in self.config.now.pools  # its header says how often it came back
        standing = ignite.standing(file.data) if place.folder is Folder.PROCESSED or in_pool else None
        if (
            standing is not None
            and standing.status in _FOREIGN_STATUSES
            and not (recovered and self._is_old(file.mtime))
        ):
            standing = replace(standing, status=Status.PROCESSING)
        warning = "" if recovered else body_warning(message, file.data)
        return events.Arrived(
            message, place, file.mtime, standing, recovered=recovered, stamp=file.stamp, warning=warning
        )

    def _with_pool(self, message: Message, data: bytes) -> Message:
        """Note the pool for which its agent holds a message in hand: it is addressed to that pool. (The journal, which
        knows more, may say otherwise.)"""
        config = self.config.now
        pools = [name for name in config.pools if message.recipient in config.pool_members(name)]
        if not pools:
            return message
        to = {name.lower(): value for name, value in ignite.headers(data)}.get("to", "")
        named = {identity(name) for name in ignite.names(to)}
        if identity(message.recipient) in named:
            return message  # its own copy, as far as that can be told
        return replace(message, pool=next((name for name in pools if identity(name) in named), ""))

    def _with_group(self, message: Message, data: bytes) -> Message:
        """Note the group that a message names alone, in To, while it lies in another queue. (One name in To is no
        reason to copy it: the directory is the address. But a group is a wish for copies.)"""
        if message.others:
            return message
        fields = {name.lower(): value for name, value in ignite.headers(data)}
        config, to = self.config.now, fields.get("to", "")
        if ignite.COPIES.lower() in fields or not config.members_of(to) or identity(to) == identity(message.recipient):
            return message
        return replace(message, others=(to,))

    def _is_old(self, mtime: float) -> bool:
        """True if the file was there before this version of ackd first served this root."""
        return mtime < self.first_start

    # --- the scan -----------------------------------------------------------------------------------------------------
    def _scan_after_lost_hints(self) -> None:
        """Scan, because hints were lost. In a storm every read of the watcher may overflow again: that is logged once,
        and at most one scan follows the one that runs."""
        now = self.services.clock.now().mono
        if now - self._overflowed_at > STORM_S:
            self.services.record(watch_overflow())
        self._overflowed_at = now
        if self._owed_scans == 0:
            self.services.tasks.start_soon(self._scan_owed, name="scan after overflow")
        self._owed_scans = min(self._owed_scans + 1, 2)

    async def _scan_owed(self) -> None:
        while self._owed_scans:
            await self.scan()
            self._owed_scans -= 1

    async def scan(self) -> None:
        """Look at every queue and at the receipts, in slices, and find everything that no hint named."""
        try:
            boxes = self.spool.boxes()
        except FileNotFoundError:
            boxes = {}
        except OSError as error:  # queue/ cannot be listed, which proves no change
            self.services.record(io_error(what="list queue", error=str(error)))
            return
        for box in self.boxes.keys() - boxes.keys():
            self.lose_box(box)
        for box in sorted(boxes):
            try:
                if box in self.boxes and self.spool.births(box) != self.boxes[box]:
                    self.lose_box(box)
            except OSError as error:
                self._report_unseen(box, error)
                continue
            if box in self.boxes or self.meet_box(box):
                self.scan_box(box)
            await anyio.lowlevel.checkpoint()
        self._scan_strangers()
        await self._scan_missing()
        await self.receipts.scan()

    def scan_box(self, box: str) -> None:
        try:
            found = [place for place, _ in self.spool.scan(box)]
        except FileNotFoundError:
            return
        except OSError as error:
            self.services.record(io_error(what=f"list queue/{box}", error=str(error)))
            return
        strays = {str(place): place for place in found if is_stray(place.name)}
        for place in found:
            if is_message_file(place.name):
                self.came(place, closed=False)
        self._strays -= {file for file in self._strays if file.startswith(f"queue/{box}/") and file not in strays}
        for place in strays.values():
            self._stray(place)

    def _scan_strangers(self) -> None:
        """Log directories in queue/ whose names no agent can have: nobody will look there."""
        try:
            names = self.spool.strangers()
        except OSError:
            return
        for name in names:
            self._say_stray(f"queue/{name}", None, "no agent can have that name: nobody will look there")

    async def _scan_missing(self) -> None:
        """Note known files that are gone, and whose deletion no hint reported."""
        for number, delivery in enumerate(self.deliveries):
            if number % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if delivery.place.folder in (Folder.QUEUE, Folder.PROCESSED) and self.spool.is_gone(delivery.place):
                self.departures.left(delivery.place, told=False)

    def _stray(self, place: Place) -> None:
        """Log a file that is no message by its name, once it is old. It is left alone, because a writer may yet rename
        it, but somebody should know that it will not be read."""
        if str(place) in self._strays:
            return
        try:
            age_s = self.services.clock.now().wall - self.spool.path(place).lstat().st_mtime
        except OSError:
            return
        if age_s > STRAY_AFTER_S:
            self._say_stray(str(place), place.box, f"{STRAY_WORDS}. {STRAY_CURE}")
            self._tell_of_stray(place)

    def _tell_of_stray(self, place: Place) -> None:
        """Escalate a stray file that looks like a message. For other files, like a person's notes, the log line is
        enough."""
        try:
            head = self.spool.head(place)
        except (OSError, BadMessage):
            return
        sender = ignite.claimed_sender(head)
        if ignite.glanced_id(head) is None or sender == MONITOR:
            return
        agent = self._owners.get(place.box, place.box)
        lain = f"has lain there for more than {STRAY_AFTER_S:.0f} s"
        text = f"1 file for {agent}, {place}, {lain}: {STRAY_WORDS}"
        self.services.post(events.TroubleSeen("stray", str(place), text, STRAY_CURE, agent, sender))

    def _say_stray(self, file: str, agent: str | None, why: str) -> None:
        if file not in self._strays:
            self._strays.add(file)
            whose: dict[str, Any] = {"agent": agent} if agent else {}
            self.services.record(stray_file(**whose, file=file, reason=why))


#: Types whose bodies have a fixed shape. Bodies of all other types are free.
_SHAPED: Final = frozenset(body_shapes.SHAPES) | {"task_completed"}
#: Larger bodies are not checked here. Their reader will notice.
_MOST_BYTES: Final = 65_536
_MOST_PROBLEMS: Final = 3


def body_warning(message: Message, data: bytes) -> str:
    """Return a warning if the body does not fit the message's type, else an empty string."""
    if message.type not in _SHAPED or message.sender == MONITOR or len(data) > _MOST_BYTES:
        return ""
    from ackd.formats import yaml_body  # noqa: PLC0415 - a team without such types need not wait for it

    text = ignite.body_of(data)
    try:
        if body_shapes.quick_check(message.type, yaml_body.load(text)):
            return ""
        from ackd.formats import bodies  # noqa: PLC0415

        problems = tuple(bodies.check(message.type, text))
    except BadBody as bad:
        problems = bad.problems
    said = "; ".join(str(problem) for problem in problems[:_MOST_PROBLEMS])
    return f"its body does not fit its type ({message.type}), delivered all the same: {said}"
