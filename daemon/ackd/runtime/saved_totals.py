"""Saves what outlives a session besides the messages: totals, open escalations, notices, held messages, directories.

The files lie in state/, and are written when something changes. Losing them costs a count or a repeated escalation,
never a message. Totals are exact all the same: the file says up to which byte of which log it has counted, and the
lines after that are counted at start. The count is brought up to date every hour; otherwise the start after a crash
would have to read the log of weeks.

The identity of each queue directory is saved, too. If a start finds another directory, the old one was removed while no
daemon ran, and messages that are missing there were not completed by their agent.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.daemon_facts import io_error
from ackd.core.errors import BadMessage, BadName
from ackd.core.escalations import MOST_ABOUT, OpenEscalation
from ackd.core.message_facts import COUNTED
from ackd.core.notices import Hour, hour_of
from ackd.core.state import Held
from ackd.formats import ignite
from ackd.storage import session_log
from ackd.storage.json_state import BadState, JsonState
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ackd.core.engine import Engine
    from ackd.core.ports import Record
    from ackd.storage.session_log import Line
    from ackd.system.syscalls import Birth

    Births = tuple[Birth, Birth] | None

#: Quick test: a log line without any of these words is of no type that is counted.
_COUNTS: Final = re.compile(b"|".join(word.encode() for word in COUNTED))
COUNT_EVERY_S: Final = 3600.0

_LARGEST_COUNT: Final = 1 << 53
_END_OF_TIME_S: Final = 1e11  # the year 5138: any earlier time can be made into a date


class SavedTotals:
    def __init__(
        self,
        state_dir: Path,
        engine: Engine,
        logs_dir: Path,
        lying: Callable[[str], Iterable[bytes]],
        record: Record,
    ) -> None:
        """``lying`` yields the header blocks of the escalations in an agent's queue. It raises BadName if no agent can
        have that name."""
        self._totals = state_dir / "totals.json"
        self._escalations = state_dir / "escalations.json"
        self._notices = state_dir / "notices.json"
        self._held = state_dir / "held.json"
        self._boxes = state_dir / "boxes.json"
        self._engine = engine
        self._logs = logs_dir
        self._lying = lying
        self._record = record
        self._tally = _Tally()
        self._written: list[tuple[object, ...]] = []
        self._notices_written = self._held_written = 0
        self._boxes_written = 0

    def load(self) -> None:
        """Load everything into the engine's state.

        An escalation is saved when it is decided, and its message is written a moment later. If its message is not
        there, it was never sent, or dealt with while no daemon ran: it is not open any more, and the next case of its
        cause is escalated anew. An escalation whose message was already seen (which completes the message) stays open
        without it, and waits for its answer.
        """
        self._load_totals()
        self._say(self._count_on())
        for name, count in self._tally.counts.items():
            setattr(self._engine.state.totals, name, count)
        found = _read(self._escalations).get("open")
        ids_with = functools.cache(self._ids_with)  # one queue may hold a thousand open escalations: read it once
        for item in found if isinstance(found, list) else ():
            escalation = _escalation(item)
            with contextlib.suppress(BadName):  # somebody edited the file
                if escalation is None:
                    continue
                if escalation.told or escalation.escalation_id in ids_with(escalation.to):
                    self._engine.state.escalations.open(escalation)
        self._written = self._picture()
        self._load_notices()
        self._load_held()

    def _load_notices(self) -> None:
        """Load how many notices were sent in which hour. Hours in the future are dropped: the clock was set back since,
        and they must not limit the notices of hours to come."""
        hours, now = _read(self._notices).get("hours"), hour_of(self._engine.state.now.wall)
        found = [_hour(item) for item in hours] if isinstance(hours, list) else []
        self._engine.state.notices.restore(one for one in found if one is not None and one.hour <= now)
        self._notices_written = self._engine.state.notices.changes

    def _load_held(self) -> None:
        state, items = self._engine.state, _read(self._held).get("held")
        for item in items if isinstance(items, list) else ():
            match item:
                case {"message_id": str(message_id), "agent": str(agent), "members": list(members), **more}:
                    rounds, since = _count(more.get("rounds")), float(_count(more.get("since")))
                    since = since if since < _END_OF_TIME_S else 0.0
                    state.held[message_id, agent] = Held(tuple(_texts(members)), rounds, since)
        self._held_written = state.held_changes

    def _ids_with(self, agent: str) -> set[str]:
        ids: set[str] = set()
        for head in self._lying(agent):
            with contextlib.suppress(BadMessage):
                ids.add(ignite.bare_id(ignite.split_head(head).fields.get("message-id", "")))
        return ids

    def _load_totals(self) -> None:
        saved = _read(self._totals)
        counts = {name: _count(saved.get(name)) for name in COUNTED.values()}
        self._tally = _Tally(counts, str(saved.get("log", "")), _count(saved.get("offset")))

    @property
    def counted_log(self) -> str:
        """The name of the log up to which everything is counted, and saved; empty if none is."""
        return self._tally.log

    async def keep_counting(self) -> None:
        while True:
            await anyio.sleep(COUNT_EVERY_S)
            with contextlib.suppress(OSError):  # no thread can be started now: the next hour tries again
                self._say(await in_thread(self._count_on))

    def _say(self, unread: dict[str, OSError]) -> None:
        for name, error in unread.items():
            self._record(io_error(what=f"read logs/{name}", error=str(error)))

    def _count_on(self) -> dict[str, OSError]:
        """Count the log lines that were written since the last count. Returns the logs that cannot be read.

        The result is saved after each log, so that after ten crashes the first log is not read ten times. A log that
        cannot be read is left out, and the others are counted.
        """
        unread: dict[str, OSError] = {}
        for path in session_log.session_files(self._logs):
            if session_log.age_order(path.name) < session_log.age_order(self._tally.log):
                continue
            offset = self._tally.offset if path.name == self._tally.log else 0
            counts, lines = dict(self._tally.counts), session_log.read_lines(path, offset, _COUNTS)
            try:
                _add(lines, counts)
            except OSError as error:
                unread[path.name] = error
            tally = _Tally(counts, path.name, lines.offset)
            if tally != self._tally:
                self._tally = tally
                self._keep(counts, path.name, lines.offset)
        return unread

    def save(self) -> None:
        """Save everything at a clean stop, after the last line was written."""
        files = session_log.session_files(self._logs)
        if files:
            totals = self._engine.state.totals
            counts = {name: getattr(totals, name) for name in COUNTED.values()}
            self._keep(counts, files[-1].name, session_log.end_of_lines(files[-1]))
        self.note_changes()

    def _keep(self, counts: dict[str, int], log: str, offset: int) -> None:
        _write(self._totals, {**counts, "log": log, "offset": offset})

    def note_changes(self) -> None:
        """Save open escalations, notices and held messages, if they have changed. Called at the end of each turn."""
        self._note_notices()
        self._note_held()
        picture = self._picture()
        if picture == self._written:
            return
        fields = OpenEscalation.__slots__
        items = [{name: getattr(one, name) for name in fields} for one in self._engine.state.escalations.all()]
        if _write(self._escalations, {"open": items}):
            self._written = picture

    def _note_notices(self) -> None:
        notices = self._engine.state.notices
        if notices.changes == self._notices_written:
            return
        hours = [
            {"to": one.to, "hour": one.hour, "told": sorted(one.told), "held": one.held}
            | {"held_causes": sorted(one.held_causes), "named": one.named}
            for one in notices.all()
        ]
        if _write(self._notices, {"hours": hours}):
            self._notices_written = notices.changes

    def _note_held(self) -> None:
        state = self._engine.state
        if state.held_changes == self._held_written:
            return
        items = [
            {"message_id": message_id, "agent": agent, "members": list(one.members), "rounds": one.rounds}
            | {"since": int(one.since)}
            for (message_id, agent), one in state.held.items()
        ]
        if _write(self._held, {"held": items}):
            self._held_written = state.held_changes

    # --- directories --------------------------------------------------------------------------------------------------
    def boxes(self) -> dict[str, object]:
        """Return the queue directories as they were last saved, each in the form of ``marks``."""
        return _read(self._boxes)

    def note_boxes(self, boxes: dict[str, Births], changes: int) -> None:
        """Save the queue directories, if there were more changes to them than at the last time."""
        if changes == self._boxes_written:
            return
        if _write(self._boxes, {box: marks(births) for box, births in boxes.items()}):
            self._boxes_written = changes

    def _picture(self) -> list[tuple[object, ...]]:
        """Return a value that changes whenever an open escalation does. The number of its messages (``about``) stands
        for the messages, because the list only grows or shrinks."""
        open_ones = self._engine.state.escalations.all()
        return [(one.escalation_id, one.counted, one.told, len(one.about)) for one in open_ones]


@dataclass(frozen=True)
class _Tally:
    """The counts, and up to which byte of which log they go."""

    counts: dict[str, int] = field(default_factory=dict)
    log: str = ""
    offset: int = 0


def marks(births: Births) -> list[list[int]] | None:
    """Return the part of a directory's identity that outlives a reboot. The device number may differ each time."""
    return [[inode, born_ns] for _, inode, born_ns in births] if births is not None else None


def _add(lines: Iterable[Line], counts: dict[str, int]) -> None:
    for line in lines:
        if line.type in COUNTED:
            counts[COUNTED[line.type]] += 1


def _escalation(item: object) -> OpenEscalation | None:
    """Parse one escalation. None if another version wrote it, or somebody edited it."""
    match item:
        case {
            "escalation_id": str(escalation_id),
            "agent": str(agent),
            "cause": str(cause),
            "to": str(to),
            "opened_at": int() | float() as opened_at,
            **more,
        } if 0 <= opened_at < _END_OF_TIME_S:
            counted = max(1, _count(more.get("counted")))
            about = more.get("about")
            known = [one for one in about if isinstance(one, str)][:MOST_ABOUT] if isinstance(about, list) else []
            told = more.get("told") is True
            return OpenEscalation(escalation_id, agent, cause, to, opened_at, counted, told, known)
        case _:
            return None


def _hour(item: object) -> Hour | None:
    """Parse the notices of one hour. None if another version wrote them, or somebody edited them."""
    match item:
        case {"to": str(to), "hour": int(hour), "told": list(told), "held": dict(held), **more} if hour >= 0:
            causes, named = more.get("held_causes"), more.get("named")
            return Hour(
                to,
                hour,
                set(_texts(told)),
                {str(kind): number for kind, found in held.items() if (number := _count(found))},
                set(_texts(causes)),
                _texts(named),
            )
        case _:
            return None


def _texts(items: object) -> list[str]:
    return [one for one in items if isinstance(one, str)] if isinstance(items, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < _LARGEST_COUNT else 0


def _read(path: Path) -> dict[str, object]:
    try:
        return JsonState(path, durable=False).load() or {}
    except (OSError, BadState):
        return {}


def _write(path: Path, data: dict[str, object]) -> bool:
    try:
        JsonState(path, durable=False).save(data)
    except OSError:
        return False  # the disk is full: the next change tries again
    return True
