"""Who sends, and who meddles: writers good and bad, an operator, and hands that delete files and directories.

``Ledger`` is the world's own account: every file that was handed to ackd, and every removal that was not ackd's. The
judge compares it with the disk and the log. Refuses to look at what the daemon thinks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place, ReceiptKind
from ackd.formats import ignite, utc_times
from ackd.storage import maildrop
from tests.simulation.team import CREW, POOL

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.core.message import Message
    from tests.simulation.faults import Swarm
    from tests.simulation.memory_disk import MemoryDisk
    from tests.simulation.timeline import Timeline

TYPES: Final = ("message", "task_assignment", "evaluation_request", "progress_update", "status_check", "user_goal")
REPORT: Final = "task_completed"


@dataclass
class Letter:
    """One message as its sender knows it, to one agent. ``copies``: files of it that were handed over."""

    message_id: str
    to: str
    sender: str
    type: str
    copies: int = 0
    contents: set[bytes] = field(default_factory=set)
    #: Who removed files of it.
    removed: list[str] = field(default_factory=list)
    #: When one was removed last that still lay in queue/.
    unclaimed_until: float = 0.0
    #: A power cut may have taken it before anything made it durable.
    doubtful: bool = False
    said: set[ReceiptKind] = field(default_factory=set)
    #: Its sender asked for it to be cancelled.
    cancelled: bool = False
    #: When it expires, by the clock that does not jump.
    expires: float | None = None
    #: It is a part of this message, and its sender wants to be told when all parts have ended.
    part_of: str | None = None


class Ledger:
    def __init__(self, rng: random.Random, swarm: Swarm, timeline: Timeline, disk: MemoryDisk, site: Site) -> None:
        self._rng, self._swarm, self._timeline, self._disk, self._site = rng, swarm, timeline, disk, site
        self.letters: dict[tuple[str, str], Letter] = {}
        #: Whose death was told of by a notice that somebody removed from its queue: the daemon may never have met it.
        self.notices_removed: set[str] = set()
        #: Every other message is a part of the one that its sender got last. Drawn from no dice: the runs of other
        #: seeds stay as they are.
        self.shares = False
        #: Every other message to a member of the pool is for the pool. Drawn from no dice, either.
        self.pooled = False
        self._latest: dict[str, str] = {}
        self.garbage = 0
        self.purged = 0
        self._sent = 0

    # --- sending ----------------------------------------------------------------------------------------------------
    def send(self, sender: str, to: str, *, kind: str | None = None, about: str | None = None) -> Letter:
        self._sent += 1
        if self.pooled and about is None and to in CREW and self._sent % 2:
            to = POOL
        message_id = f"{int(self._timeline.wall)}.{self._sent}.{self._rng.randbytes(3).hex()}@ignite.local"
        letter = Letter(message_id, to, sender, kind or self._rng.choice(TYPES))
        if self.shares and about is None and sender != to and self._sent % 2:
            letter.part_of = self._latest.get(sender)
        self._latest[to] = message_id
        self.letters[message_id, to] = letter
        self._drop(letter, self._bytes(letter, about))
        return letter

    def send_oddly(self, sender: str, to: str) -> None:
        match self._rng.choice(("again", "copied id", "garbage", "in place", "ping-pong", "to nobody")):
            case "again":
                letter = self.send(sender, to)
                data = next(iter(letter.contents))
                self._timeline.after(self._rng.expovariate(1 / 600), lambda: self._drop(letter, data))
            case "copied id":
                letter = self.send(sender, to)
                self._drop(letter, self._bytes(letter, None))
            case "garbage":
                self.garbage += 1
                data = self._rng.randbytes(self._rng.choice((0, 1, 200)))
                maildrop.drop(self._box(to), self._name("message"), data, fsync=self._site.fsync)
            case "in place":
                self._write_in_place(sender, to)
            case "ping-pong":
                for number in range(7):
                    bounce = partial(self._bounce, *((sender, to) if number % 2 else (to, sender)))
                    self._timeline.after(number * 5.0, bounce)
            case _:
                self.send(sender, f"guest{self._rng.randrange(3)}")

    def _bounce(self, sender: str, to: str) -> None:
        self.send(sender, to, about="ping-pong")

    def reply(self, sender: str, about: str) -> None:
        """A report: it completes what it answers."""
        self.send(sender, "clerk", kind=REPORT, about=about)

    def _time(self, of_s: float) -> tuple[float, str]:
        left_s = self._rng.expovariate(1 / of_s)
        return left_s, utc_times.write(self._timeline.wall + left_s)

    def _bytes(self, letter: Letter, about: str | None) -> bytes:
        expires = deadline = None
        if self._swarm.timed_letters and self._rng.random() < self._swarm.timed_letters:
            left_s, expires = self._time(600)
            letter.expires = self._timeline.mono + left_s
        if self._swarm.timed_letters and self._rng.random() < self._swarm.timed_letters:
            _, deadline = self._time(1800)
        in_reply_to = about if about is not None and "@" in about else None
        return ignite.build(
            message_id=letter.message_id,
            sender=letter.sender,
            to=[letter.to],
            date=ignite.rfc2822_date(self._timeline.wall),
            type=letter.type,
            body=f"content: drawn\nn: {self._rng.randrange(1 << 40)}\n",
            priority=self._rng.choice(("critical", "high", "normal", "normal", "low")),
            in_reply_to=in_reply_to,
            thread_id=about if in_reply_to is None else None,
            expires=expires,
            deadline=deadline,
            part_of=letter.part_of,
            notify="yes" if letter.part_of else None,
        )

    def _drop(self, letter: Letter, data: bytes) -> None:
        maildrop.make_box(self._box(letter.to), fsync=self._site.fsync)
        maildrop.drop(self._box(letter.to), self._name(letter.type), data, fsync=self._site.fsync)
        letter.contents.add(data)
        letter.copies += 1

    def _write_in_place(self, sender: str, to: str) -> None:
        """Byte by byte under its final name, with a pause; unflushed, so a power cut may take it."""
        self._sent += 1
        message_id = f"{int(self._timeline.wall)}.{self._sent}.{self._rng.randbytes(3).hex()}@ignite.local"
        letter = Letter(message_id, to, sender, "message", copies=1, doubtful=True)
        data = self._bytes(letter, None)
        maildrop.make_box(self._box(to), fsync=False)
        path = self._box(to) / self._name("message")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        self.letters[message_id, to] = letter
        cut = self._rng.randrange(len(data))
        os.write(fd, data[:cut])

        def finish() -> None:
            os.write(fd, data[cut:])
            os.close(fd)

        self._timeline.after(self._rng.expovariate(1 / 2), finish)

    def _box(self, name: str) -> Path:
        return self._site.queue / name

    def _name(self, kind: str) -> str:
        return ignite.file_name(kind, int(self._timeline.wall * 1_000_000))

    # --- removing ---------------------------------------------------------------------------------------------------
    def delete(self, path: str, who: str) -> None:
        """By its agent, whose word that is, or by someone who should not."""
        found = self.read(path)
        if found is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108
                self._note_removal(*found, who)

    def delete_any(self) -> None:
        files = [path for path, _ in self._disk.walk(str(self._site.queue)) if _is_waiting(path)]
        if files:
            self.delete(self._rng.choice(files), "somebody")

    def lose_box(self, name: str) -> None:
        """``git clean``."""
        box = str(self._box(name))
        for path, _ in self._disk.walk(box):
            found = self.read(path)
            if found is not None:
                self._note_removal(*found, "directory")
        with contextlib.suppress(OSError):
            shutil.rmtree(box)

    def _note_removal(self, message: Message, place: Place, who: str) -> None:
        if message.type in ("dead_letter", "escalation") and message.in_reply_to is not None:
            self.notices_removed.add(message.in_reply_to)
        letter = self.letters.get((message.message_id, message.recipient))
        if letter is not None:
            letter.removed.append(who)
            if place.folder is Folder.QUEUE:
                letter.unclaimed_until = self._timeline.mono

    def spoke(self, kind: ReceiptKind, message_id: str, name: str) -> None:
        letter = self.letters.get((message_id, self.addressee(message_id, name)))
        if letter is not None:
            letter.said.add(kind)

    # --- cancelling -------------------------------------------------------------------------------------------------
    def cancel_any(self) -> None:
        """A sender, or a person, changes its mind about something that is open; sometimes somebody who may not."""
        files = [path for path, _ in self._disk.walk(str(self._site.queue)) if _is_waiting(path)]
        found = self.read(self._rng.choice(files)) if files else None
        letter = self.letters.get((found[0].message_id, found[0].recipient)) if found is not None else None
        if letter is None:
            return
        by = self._rng.choice((letter.sender, letter.sender, "user", "nobody"))
        letter.cancelled = letter.cancelled or by != "nobody"
        # As the command does, which finds the file: a message of a pool is cancelled where it lies.
        pair = (letter.message_id, found[1].box or letter.to) if found is not None else (letter.message_id, letter.to)
        maildrop.drop_cancellations(self._site.receipts, [pair], by, "as drawn", fsync=self._site.fsync)

    # --- the operator -----------------------------------------------------------------------------------------------
    def ask(self) -> None:
        """Dig up or remove something that is dead or quarantined, by id or by file."""
        folder = self._rng.choice(("dead_letter", "corrupt"))
        names = [n for n in map(_base, self.listing(f"{self._site.queue}/{folder}")) if not n.endswith(".reason")]
        if not names:
            return
        name = self._rng.choice(names)
        kind = self._rng.choice((ReceiptKind.REQUEUE, ReceiptKind.REQUEUE, ReceiptKind.PURGE))
        message_id = agent = None
        if folder == "dead_letter":
            found = self.read(f"{self._site.queue}/{folder}/{name}")
            message_id, agent = (found[0].message_id, found[0].recipient) if found else (None, None)
            if kind is ReceiptKind.PURGE and found is not None:
                self._note_removal(*found, "operator")
        file = name if message_id is None or self._rng.random() < 0.5 else None
        where = Folder(folder) if file is not None else None
        maildrop.drop_receipt(
            self._site.receipts, kind, message_id, agent, file=file, folder=where, fsync=self._site.fsync
        )

    # --- looking ----------------------------------------------------------------------------------------------------
    def listing(self, directory: str) -> list[str]:
        try:
            return [f"{directory}/{name}" for name in os.listdir(directory) if name[0] != "."]  # noqa: PTH208
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            return []

    def read(self, path: str) -> tuple[Message, Place] | None:
        """What a file says it is; None for what is no message."""
        try:
            node = self._disk.look(path)
        except OSError:
            return None
        place = place_of(path[len(str(self._site.root)) + 1 :])
        if place is None or node.is_dir:
            return None
        try:
            data = bytes(node.data)
            box = place.box or dict(ignite.headers(data)).get("X-IGNITE-Recipient", "")
            message = ignite.decode(data, box)
        except BadMessage:
            return None
        return replace(message, recipient=self.addressee(message.message_id, box)), place

    def addressee(self, message_id: str, agent: str) -> str:
        """Whom the message was sent to, that an agent has: itself, or its pool."""
        pools = agent in CREW and (message_id, agent) not in self.letters and (message_id, POOL) in self.letters
        return POOL if pools else agent


def place_of(path: str) -> Place | None:
    match path.split("/"):
        case ["queue", ("dead_letter" | "corrupt") as folder, name]:
            return Place("", Folder(folder), name)
        case ["queue", box, "processed", name]:
            return Place(box, Folder.PROCESSED, name)
        case ["queue", box, name]:
            return Place(box, Folder.QUEUE, name)
        case ["archive", day, box, name]:
            return Place(box, Folder.ARCHIVE, f"{day}/{name}")
        case _:
            return None


def _is_waiting(path: str) -> bool:
    return "/dead_letter/" not in path and "/corrupt/" not in path and "/." not in path


def _base(path: str) -> str:
    return path.rpartition("/")[2]
