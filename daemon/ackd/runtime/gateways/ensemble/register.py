"""What of an Ensemble team's files has been taken in, and what is owed: ``state/gateways/ensemble.json``.

Owns that file. It is written after the mail that it tells of: who reads an older one makes the same mail again, which
is recognised by its id. Times in it are wall time; at a load they become durations of the clock that cannot jump, and
one from the future counts as now. Refuses to know what files mean. A file that is no register is ``BadRegister``; every
OSError passes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from ackd.adapters import atomic_file
from ackd.core import dispatches
from ackd.core.dispatches import Dispatch, End, Work
from ackd.core.errors import BadMessage, TheirFault
from ackd.core.values import value
from ackd.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.events import Now
    from ackd.runtime.gateways.ensemble.shelf import Mark

#: A file that is gone is remembered for longer than ids are (dedup_window_s): its next version must have another id.
REMEMBER_S: Final = 30 * 86_400.0
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_SAID: Final = 2_000


#: What reading a JSON value of another shape may end in.
_UNLIKE_OURS: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class BadRegister(TheirFault):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


@value
class Known:
    """A file's newest version that became mail. ``gone_at``: when it was missed, in wall time."""

    version: int
    digest: str
    mark: Mark
    gone_at: float | None = None


@dataclass
class Register:
    path: Path
    durable: bool
    files: dict[str, Known] = field(default_factory=dict)
    tasks: tuple[Dispatch, ...] = ()
    work: Work | None = None
    #: What was said once, in the order in which it was.
    said: dict[str, None] = field(default_factory=dict)
    #: Whether something in here is not on disk.
    dirty: bool = False

    def load(self, now: Now) -> bool:
        """False: there is none yet."""
        try:
            content = json.loads(atomic_file.read_regular(self.path, _MOST_BYTES))
            self._fill(content, now)
        except FileNotFoundError:
            return False
        except (*_UNLIKE_OURS, BadMessage) as error:
            self.files, self.tasks, self.work, self.said = {}, (), None, {}
            raise BadRegister(f"not a register of files: {type(error).__name__}: {error}") from None
        return True

    async def save(self, now: Now) -> None:
        if not self.dirty:
            return
        self.dirty = False
        data = self._content(now)
        try:
            await in_thread(self._put, data)
        except BaseException:  # cancelled too: what is on disk is older
            self.dirty = True
            raise

    def note(self, key: str, known: Known) -> None:
        self.files[key] = known
        self.dirty = True

    def miss(self, place: str, there: set[str], wall: float) -> None:
        """Files of that place that are not there any more."""
        for key, known in self.files.items():
            if key.startswith(f"{place}/") and key not in there and known.gone_at is None:
                self.note(key, Known(known.version, known.digest, known.mark, wall))

    def change(self, tasks: tuple[Dispatch, ...]) -> None:
        if tasks != self.tasks:
            self.tasks, self.dirty = tasks, True

    def set_work(self, work: Work | None) -> None:
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
    def _put(self, data: bytes) -> None:
        temp = self.path.with_name(f".{self.path.name}.tmp")
        if self.durable:
            atomic_file.put_durably(self.path, temp, data)
        else:
            atomic_file.put(self.path, temp, data)

    def _content(self, now: Now) -> bytes:
        self.tasks = dispatches.kept(self.tasks, now.mono)
        content = {
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
        return json.dumps(content).encode()

    def _fill(self, content: dict[str, Any], now: Now) -> None:
        for key, (version, digest, mark, gone_at) in content["files"].items():
            inode, size, mtime_ns, ctime_ns = map(int, mark)
            at = None if gone_at is None else float(gone_at)
            self.files[str(key)] = Known(int(version), str(digest), (inode, size, mtime_ns, ctime_ns), at)
        self.tasks = tuple(_task(one, now) for one in content["tasks"])
        self.work = None if content["work"] is None else _work(content["work"], now)
        self.said = dict.fromkeys(map(str, content["said"]))


def _written(one: Dispatch | Work) -> dict[str, object]:
    """Without ``since``, which is another clock's after a restart."""
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


def _work(said: dict[str, Any], now: Now) -> Work:
    wall = _wall(said["wall"], now)
    return Work(str(said["first"]), int(said["given_ns"]), now.mono - (now.wall - wall), wall, told=bool(said["told"]))


def _wall(said: object, now: Now) -> float:
    """Nothing began in the future, or at a time that is none."""
    at = float(said)  # type: ignore[arg-type]
    return at if 0 <= at <= now.wall else now.wall
