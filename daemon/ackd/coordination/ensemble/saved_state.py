"""The saved state of the Ensemble gateway, ``state/gateways/ensemble.json``: files taken in, and reports still owed.

It is written after the mail that it records: a daemon that reads an older one makes the same mail again, which is
recognised by its id. Times in it are wall time; when loaded they are converted to the monotonic clock, and a time from
the future counts as now. ``BadSavedState`` for a file of another shape; every OSError passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.ensemble.rules import dispatches
from ackd.coordination.ensemble.rules.dispatches import Dispatch, End, OpenWork
from ackd.core.errors import TheirFault
from ackd.core.values import value
from ackd.storage.json_state import BadState, JsonState
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.coordination.ensemble.directory import Mark
    from ackd.core.events import Now

#: A file that is gone is remembered for longer than ids are (dedup_window_s): its next version must have another id.
REMEMBER_S: Final = 30 * 86_400.0
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_SAID: Final = 2_000


#: The errors that reading a JSON value of another shape may raise.
_UNLIKE_OURS: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class BadSavedState(TheirFault):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


@value
class KnownFile:
    """The newest version of a file that became mail. ``gone_at``: when the file was found missing, in wall time."""

    version: int
    digest: str
    mark: Mark
    gone_at: float | None = None


@dataclass
class SavedEnsemble:
    path: Path
    durable: bool
    files: dict[str, KnownFile] = field(default_factory=dict)
    tasks: tuple[Dispatch, ...] = ()
    work: OpenWork | None = None
    #: Lines that are written only once, the oldest first.
    said: dict[str, None] = field(default_factory=dict)
    #: Set while something in here is not on disk.
    dirty: bool = False

    def load(self, now: Now) -> bool:
        """Read the file; False: there is none yet."""
        try:
            content = self._file.load()
            if content is None:
                return False
            self._fill(content, now)
        except (*_UNLIKE_OURS, BadState) as error:
            self.files, self.tasks, self.work, self.said = {}, (), None, {}
            raise BadSavedState(f"not a register of files: {type(error).__name__}: {error}") from None
        return True

    async def save(self, now: Now) -> None:
        if not self.dirty:
            return
        self.dirty = False
        data = self._file.encode(self._content(now))
        try:
            await in_thread(self._file.save_encoded, data)
        except BaseException:  # cancelled too: what is on disk is older
            self.dirty = True
            raise

    def note(self, key: str, known: KnownFile) -> None:
        self.files[key] = known
        self.dirty = True

    def miss(self, place: str, there: set[str], wall: float) -> None:
        """Note the files of that place that are gone."""
        for key, known in self.files.items():
            if key.startswith(f"{place}/") and key not in there and known.gone_at is None:
                self.note(key, KnownFile(known.version, known.digest, known.mark, wall))

    def change(self, tasks: tuple[Dispatch, ...]) -> None:
        if tasks != self.tasks:
            self.tasks, self.dirty = tasks, True

    def set_work(self, work: OpenWork | None) -> None:
        if work != self.work:
            self.work, self.dirty = work, True

    def is_news(self, what: str) -> bool:
        if what in self.said:
            return False
        self.said[what] = None
        if len(self.said) > _MOST_SAID:
            del self.said[next(iter(self.said))]
        self.dirty = True
        return True

    # --- as JSON ------------------------------------------------------------------------------------------------------
    @property
    def _file(self) -> JsonState:
        return JsonState(self.path, durable=self.durable, max_bytes=_MOST_BYTES)

    def _content(self, now: Now) -> dict[str, object]:
        self.tasks = dispatches.kept(self.tasks, now.mono)
        return {
            "version": 1,
            "files": {
                key: [one.version, one.digest, one.mark, one.gone_at]
                for key, one in self.files.items()
                if one.gone_at is None or now.wall - one.gone_at < REMEMBER_S
            },
            "tasks": [_written(one) for one in self.tasks],
            "work": None if self.work is None else _written(self.work),
            "said": list(self.said),
        }

    def _fill(self, content: dict[str, Any], now: Now) -> None:
        for key, (version, digest, mark, gone_at) in content["files"].items():
            inode, size, mtime_ns, ctime_ns = map(int, mark)
            at = None if gone_at is None else float(gone_at)
            self.files[str(key)] = KnownFile(int(version), str(digest), (inode, size, mtime_ns, ctime_ns), at)
        self.tasks = tuple(_task(one, now) for one in content["tasks"])
        self.work = None if content["work"] is None else _work(content["work"], now)
        self.said = dict.fromkeys(map(str, content["said"]))


def _written(one: Dispatch | OpenWork) -> dict[str, object]:
    """The fields as JSON, without ``since``: the monotonic clock is another one after a restart."""
    values = {each.name: getattr(one, each.name) for each in fields(one) if each.name != "since"}
    return {name: each.value if isinstance(each, End) else each for name, each in values.items()}


def _task(said: dict[str, Any], now: Now) -> Dispatch:
    wall = _wall(said["wall"], now)
    return Dispatch(
        message_id=str(said["message_id"]),
        agent=str(said["agent"]),
        names=tuple(map(str, said["names"])),
        file=str(said["file"]),
        given_ns=int(said["given_ns"]),
        since=now.mono - (now.wall - wall),
        wall=wall,
        acked=bool(said["acked"]),
        reported=bool(said["reported"]),
        overdue=bool(said["overdue"]),
        end=End(said["end"]),
    )


def _work(said: dict[str, Any], now: Now) -> OpenWork:
    wall = _wall(said["wall"], now)
    return OpenWork(
        str(said["first"]), int(said["given_ns"]), now.mono - (now.wall - wall), wall, told=bool(said["told"])
    )


def _wall(said: object, now: Now) -> float:
    """A saved wall time; one from the future, or no time at all, counts as now."""
    at = float(said)  # type: ignore[arg-type]
    return at if 0 <= at <= now.wall else now.wall
