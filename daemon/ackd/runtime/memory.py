"""What outlives a session besides the messages: totals, open escalations, and which directories the queues were.

Kept in state/, written when they change. Losing them costs a count or a repeated escalation, never a message. Totals
are exact all the same: the file says up to which byte of which log it has counted, and what follows there is counted at
start. Every hour the count is brought up to date, or the start after a crash would read the log of weeks. A queue
directory that is not the one we left was removed while nobody looked: what is missing there was completed by nobody.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import orjson

from ackd.adapters import atomic_file, session_log
from ackd.core.desk import Held
from ackd.core.errors import BadMessage, BadName
from ackd.core.escalations import MOST_ABOUT, OpenEscalation
from ackd.core.notices import Hour, hour_of
from ackd.dialects import ignite
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ackd.adapters.session_log import Line
    from ackd.core.engine import Engine
    from ackd.syscalls import Birth

    Births = tuple[Birth, Birth] | None

_COUNTED: Final = {
    "message_completed": "completed",
    "message_withdrawn": "withdrawn",
    "message_duplicate": "duplicates",
}
#: Wherever one of those words is not found, none of them is the line's type.
_COUNTS: Final = re.compile(b"|".join(word.encode() for word in _COUNTED))
COUNT_EVERY_S: Final = 3600.0

_LARGEST_COUNT: Final = 1 << 53
_END_OF_TIME_S: Final = 1e11  # the year 5138: a date can be made of what is before


class Memory:
    def __init__(
        self,
        state_dir: Path,
        engine: Engine,
        logs_dir: Path,
        lying: Callable[[str], Iterable[bytes]],
        record: Callable[[str, dict[str, object]], None],
    ) -> None:
        """``lying``: the header blocks of the escalations that lie with an agent; BadName if nobody can have that
        name."""
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
        self._boxes_written: dict[str, Births] = {}

    def load(self) -> None:
        """An escalation is noted when it is decided and written a moment later: one whose message is not there was
        never sent, or dealt with while we were away. Either way the next case is news. One whose message was seen, and
        completed by that, waits for its answer without it."""
        self._load_totals()
        self._say(self._count_on())
        for name, count in self._tally.counts.items():
            setattr(self._engine.desk.totals, name, count)
        found = _read(self._escalations).get("open")
        ids_with = functools.cache(self._ids_with)  # a box may hold a thousand, and each may be open
        for item in found if isinstance(found, list) else ():
            escalation = _escalation(item)
            with contextlib.suppress(BadName):  # someone's edit
                if escalation is None:
                    continue
                if escalation.told or escalation.escalation_id in ids_with(escalation.to):
                    self._engine.desk.escalations.open(escalation)
        self._written = self._picture()
        self._load_notices()
        self._load_held()

    def _load_notices(self) -> None:
        """A clock that is behind since must not count against hours that never were."""
        hours, now = _read(self._notices).get("hours"), hour_of(self._engine.desk.now.wall)
        found = [_hour(item) for item in hours] if isinstance(hours, list) else []
        self._engine.desk.notices.restore(one for one in found if one is not None and one.hour <= now)
        self._notices_written = self._engine.desk.notices.changes

    def _load_held(self) -> None:
        desk, items = self._engine.desk, _read(self._held).get("held")
        for item in items if isinstance(items, list) else ():
            match item:
                case {"message_id": str(message_id), "agent": str(agent), "members": list(members), **more}:
                    rounds, since = _count(more.get("rounds")), float(_count(more.get("since")))
                    since = since if since < _END_OF_TIME_S else 0.0
                    desk.held[message_id, agent] = Held(tuple(_texts(members)), rounds, since)
        self._held_written = desk.held_changes

    def _ids_with(self, agent: str) -> set[str]:
        ids: set[str] = set()
        for head in self._lying(agent):
            with contextlib.suppress(BadMessage):
                ids.add(ignite.bare_id(ignite.split_head(head).fields.get("message-id", "")))
        return ids

    def _load_totals(self) -> None:
        saved = _read(self._totals)
        counts = {name: _count(saved.get(name)) for name in _COUNTED.values()}
        self._tally = _Tally(counts, str(saved.get("log", "")), _count(saved.get("offset")))

    async def keep_counting(self) -> None:
        while True:
            await anyio.sleep(COUNT_EVERY_S)
            with contextlib.suppress(OSError):  # no thread for it just now
                self._say(await in_thread(self._count_on))

    def _say(self, unread: dict[str, OSError]) -> None:
        for name, error in unread.items():
            self._record("io_error", {"what": f"read logs/{name}", "error": str(error)})

    def _count_on(self) -> dict[str, OSError]:
        """What the logs tell of since. Kept after each: after ten crashes the first is not read ten times. What one
        tells that cannot be read is not counted; the others are."""
        unread: dict[str, OSError] = {}
        for path in session_log.session_files(self._logs):
            if _age_order(path.name) < _age_order(self._tally.log):
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
        """At a clean stop, after the last line."""
        files = session_log.session_files(self._logs)
        if files:
            totals = self._engine.desk.totals
            counts = {name: getattr(totals, name) for name in _COUNTED.values()}
            self._keep(counts, files[-1].name, session_log.end_of_lines(files[-1]))
        self.note_changes()

    def _keep(self, counts: dict[str, int], log: str, offset: int) -> None:
        _write(self._totals, {**counts, "log": log, "offset": offset})

    def note_changes(self) -> None:
        """At the end of each turn: open escalations as they are now, and how often whom was told of trouble."""
        self._note_notices()
        self._note_held()
        picture = self._picture()
        if picture == self._written:
            return
        fields = OpenEscalation.__slots__
        items = [{name: getattr(one, name) for name in fields} for one in self._engine.desk.escalations.all()]
        if _write(self._escalations, {"open": items}):
            self._written = picture

    def _note_notices(self) -> None:
        notices = self._engine.desk.notices
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
        desk = self._engine.desk
        if desk.held_changes == self._held_written:
            return
        items = [
            {"message_id": message_id, "agent": agent, "members": list(one.members), "rounds": one.rounds}
            | {"since": int(one.since)}
            for (message_id, agent), one in desk.held.items()
        ]
        if _write(self._held, {"held": items}):
            self._held_written = desk.held_changes

    # --- directories --------------------------------------------------------------------------------------------------
    def boxes(self) -> dict[str, object]:
        """The queue directories as they were when last noted, each in the form of ``marks``."""
        return _read(self._boxes)

    def note_boxes(self, boxes: dict[str, Births]) -> None:
        if boxes != self._boxes_written and _write(self._boxes, {box: marks(births) for box, births in boxes.items()}):
            self._boxes_written = dict(boxes)

    def _picture(self) -> list[tuple[object, ...]]:
        """Changes whenever one of them does: what it is about only grows or shrinks."""
        open_ones = self._engine.desk.escalations.all()
        return [(one.escalation_id, one.counted, one.told, len(one.about)) for one in open_ones]


@dataclass(frozen=True)
class _Tally:
    """What was counted, up to which byte of which log."""

    counts: dict[str, int] = field(default_factory=dict)
    log: str = ""
    offset: int = 0


def marks(births: Births) -> list[list[int]] | None:
    """What of a directory's birth outlives a reboot: not the device's number, which may be another each time."""
    return [[inode, born_ns] for _, inode, born_ns in births] if births is not None else None


def _add(lines: Iterable[Line], counts: dict[str, int]) -> None:
    for line in lines:
        if line.type in _COUNTED:
            counts[_COUNTED[line.type]] += 1


def _age_order(name: str) -> tuple[str, int]:
    """Session logs by age. As text ``…-2.ndjson`` comes before ``….ndjson``, which is the older one."""
    found = re.fullmatch(r"session-(\d{8}-\d{6})(?:-(\d{1,9}))?\.ndjson", name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)


def _escalation(item: object) -> OpenEscalation | None:
    """None for another version's, or someone's edit."""
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
    """None for another version's, or someone's edit."""
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
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, data: dict[str, object]) -> bool:
    try:
        atomic_file.put(path, path.with_name(f".{path.name}.tmp"), orjson.dumps(data))
    except OSError:
        return False  # a full disk: tried again at the next change
    return True
