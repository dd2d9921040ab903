"""The state of a track, from its lines and its worker-status.json: workers, tasks, and who waits for whom now.

``DOING`` is the table of what a worker does, by what it says; ``TrackView`` applies it and knows the rest: a task's
holder and end, and what a blocked worker waits for. A wait is over when the worker says anything that only a working
one says, or when what it waited for has ended: history makes no deadlock. Names may be those of tasks, workers or
paths; they are resolved when asked for, because the one that is waited for may speak later. Never fails; names beyond
``MAX_NAMES`` push the oldest out.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from ackd.coordination.bus.rules.words import BusLine, BusType, FileWait, WorkerDoing, WorkerWait
from ackd.core.values import value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ackd.coordination.bus.rules.words import WorkerStatus

MAX_NAMES: Final = 10_000
#: The kernel gives a file the time of its last tick, which may be earlier than a line that was written before the file.
_TICK_S: Final = 0.01
_Entry = TypeVar("_Entry")


# --- the table --------------------------------------------------------------------------------------------------------
class WorkerNews(enum.Enum):
    """The kinds of news about a worker: by a line, by its status, or because what it waited for ended."""

    PROGRESS = "progress"
    COMPLETE = "complete"
    FAILED = "failed"
    LOCK = "lock"
    UNLOCK = "unlock"
    BLOCKED = "blocked"
    BOARD = "board"  # a director speaks: it is heard, and works on no task
    NOTICE = "notice"  # the leader speaks of the bus, or of others
    FREED = "what it waited for ended"
    STATUS_RUNNING = "status running"
    STATUS_COMPLETE = "status complete"
    STATUS_FAILED = "status failed"
    STATUS_BLOCKED = "status blocked"


_R, _C, _F, _B = WorkerDoing.RUNNING, WorkerDoing.COMPLETE, WorkerDoing.FAILED, WorkerDoing.BLOCKED

#: The state of a worker after each kind of news, by its state before (None: it was never heard of). Unlocking a file is
#: the last step of a piece of work and happens while blocked, too, so it changes no state. Somebody who has only locked
#: or unlocked files has no task on this bus (a person, or an agent that reports elsewhere), and owes no heartbeat.
DOING: Final[Mapping[WorkerNews, Mapping[WorkerDoing | None, WorkerDoing | None]]] = {
    WorkerNews.PROGRESS: {None: _R, _R: _R, _B: _R, _C: _R, _F: _R},
    WorkerNews.COMPLETE: {None: _C, _R: _C, _B: _C, _C: _C, _F: _C},
    WorkerNews.FAILED: {None: _F, _R: _F, _B: _F, _C: _F, _F: _F},
    WorkerNews.LOCK: {None: None, _R: _R, _B: _R, _C: _R, _F: _R},
    WorkerNews.UNLOCK: {None: None, _R: _R, _B: _B, _C: _C, _F: _F},
    WorkerNews.BLOCKED: {None: _B, _R: _B, _B: _B, _C: _B, _F: _B},
    WorkerNews.BOARD: {None: None, _R: _R, _B: _B, _C: _C, _F: _F},
    WorkerNews.NOTICE: {None: None, _R: _R, _B: _B, _C: _C, _F: _F},
    WorkerNews.FREED: {None: None, _R: _R, _B: _R, _C: _C, _F: _F},
    WorkerNews.STATUS_RUNNING: {None: _R, _R: _R, _B: _R, _C: _R, _F: _R},
    WorkerNews.STATUS_COMPLETE: {None: _C, _R: _C, _B: _C, _C: _C, _F: _C},
    WorkerNews.STATUS_FAILED: {None: _F, _R: _F, _B: _F, _C: _F, _F: _F},
    WorkerNews.STATUS_BLOCKED: {None: _B, _R: _B, _B: _B, _C: _B, _F: _B},
}

_WORD_OF_STATUS: Final = {
    WorkerDoing.RUNNING: WorkerNews.STATUS_RUNNING,
    WorkerDoing.COMPLETE: WorkerNews.STATUS_COMPLETE,
    WorkerDoing.FAILED: WorkerNews.STATUS_FAILED,
    WorkerDoing.BLOCKED: WorkerNews.STATUS_BLOCKED,
}


def word_of(type_: BusType) -> WorkerNews:
    match type_:
        case BusType.PROGRESS:
            return WorkerNews.PROGRESS
        case BusType.TASK_COMPLETE:
            return WorkerNews.COMPLETE
        case BusType.TASK_FAILED:
            return WorkerNews.FAILED
        case BusType.FILE_LOCK:
            return WorkerNews.LOCK
        case BusType.FILE_UNLOCK:
            return WorkerNews.UNLOCK
        case BusType.BLOCKED:
            return WorkerNews.BLOCKED
        case BusType.BOARD_ASSESS | BusType.BOARD_DISCUSS | BusType.BOARD_VOTE | BusType.BOARD_RESOLVE:
            return WorkerNews.BOARD
        case BusType.BUS_INIT | BusType.WORKER_DISPATCHED | BusType.TASK_BLOCKED | BusType.DEADLOCK_RESOLVED:
            return WorkerNews.NOTICE
        case _:
            assert_never(type_)


# --- the values -------------------------------------------------------------------------------------------------------
@value
class BusWorker:
    """``since``: when it began its present state; ``heard``: its last line or heartbeat. Wall seconds.

    ``waits``: the names that it still waits for, from its BLOCKED; empty unless it is blocked, and also if its BLOCKED
    names nothing.
    """

    name: str
    doing: WorkerDoing
    since: float
    heard: float
    task: str | None = None
    progress: float | None = None
    waits: tuple[str, ...] = ()
    resource: str | None = None

    @property
    def at_work(self) -> bool:
        return self.doing in (WorkerDoing.RUNNING, WorkerDoing.BLOCKED)


@value
class BusTask:
    """``holder``: the worker that spoke of it last. ``ended``: COMPLETE or FAILED, None while it is open."""

    name: str
    holder: str
    since: float
    ended: WorkerDoing | None = None


@value
class Woken:
    """A worker that need not wait any longer. ``by``: the name that it waited for, or was unblocked under."""

    worker: str
    by: str
    ended: WorkerDoing | None


@value
class Taken:
    """The effects of a line beside the view. ``woken``: each worker once, in the order of their names on the line."""

    woken: tuple[Woken, ...] = ()


class TrackView:
    def __init__(self) -> None:
        self.workers: dict[str, BusWorker] = {}
        self.tasks: dict[str, BusTask] = {}
        self.last_word = 0.0

    # --- lines --------------------------------------------------------------------------------------------------------
    def take(self, line: BusLine) -> Taken:
        self.last_word = max(self.last_word, line.at)
        task = _text(line.payload.get("task_id"))
        if line.is_its_own:
            self._hear(line.source, word_of(line.type), line.at, task, line.payload)
        match line.type:
            case BusType.TASK_COMPLETE | BusType.TASK_FAILED:
                ended = WorkerDoing.COMPLETE if line.type is BusType.TASK_COMPLETE else WorkerDoing.FAILED
                self._keep_task(task or "", line.source, line.at, ended)
                named = _names(line.payload.get("unblocks"))
                return Taken(_each_once([*self._freed({task or "", line.source}, ended), *self._named(named, ended)]))
            case BusType.FILE_UNLOCK:
                return Taken(tuple(self._unlocked(line.source, str(line.payload.get("filepath")))))
            case BusType.FILE_LOCK if not line.is_its_own:
                self._given(line.source, str(line.payload.get("filepath")))
                return Taken()
            case BusType.BLOCKED:
                self._open_task(task, line)
                return Taken(_each_once(self._freed_already(line.source)))
            case BusType.PROGRESS:
                self._open_task(task, line)
                return Taken()
            case _:
                return Taken()

    def _hear(self, name: str, word: WorkerNews, at: float, task: str | None, payload: Mapping[str, object]) -> None:
        before = self.workers.get(name)
        doing = DOING[word][before.doing if before else None]
        if doing is None:
            return
        news = before is None or before.doing is not doing or word is WorkerNews.BLOCKED
        blocked = word is WorkerNews.BLOCKED
        progress = payload.get("progress_pct")
        worker = BusWorker(
            name=name,
            doing=doing,
            since=at if news or before is None else before.since,
            heard=max(at, before.heard if before else 0.0),
            task=task or (before.task if before else None),
            progress=float(progress) if isinstance(progress, int | float) else before.progress if before else None,
            waits=_waits(payload) if blocked else before.waits if before and doing is WorkerDoing.BLOCKED else (),
            resource=_text(payload.get("resource")) if blocked else None if news or before is None else before.resource,
        )
        _keep(self.workers, name, worker)

    def _open_task(self, task: str | None, line: BusLine) -> None:
        known = self.tasks.get(task or "")
        if task and (known is None or known.ended is not None or known.holder != line.source):
            self._keep_task(task, line.source, line.at, None)

    def _keep_task(self, name: str, holder: str, at: float, ended: WorkerDoing | None) -> None:
        _keep(self.tasks, name, BusTask(name, holder, at, ended))

    # --- waits that are over ------------------------------------------------------------------------------------------
    def _freed(self, ended_names: set[str], how: WorkerDoing) -> Iterator[Woken]:
        """Wake the workers that waited for a task or a worker that has just ended."""
        for worker in self._blocked():
            over = [name for name in worker.waits if name in ended_names and name != worker.name]
            if over:
                self._waits_no_more(worker, over)
                yield Woken(worker.name, over[0], how)

    def _unlocked(self, by: str, path: str) -> Iterator[Woken]:
        """Wake the workers that wait for a file, also those that name its holder; waits for a task are not touched."""
        for worker in self._blocked():
            over = [name for name in worker.waits if name == path or (worker.resource == path and name == by)]
            if over and worker.name != by:
                self._waits_no_more(worker, over)
                yield Woken(worker.name, path, None)

    def _given(self, name: str, path: str) -> None:
        """End a worker's wait for a file that it was given; whoever gave it tells the worker."""
        worker = self.workers.get(name)
        if worker is not None and worker.doing is WorkerDoing.BLOCKED and path in (worker.resource, *worker.waits):
            self._waits_no_more(worker, worker.waits)

    def _freed_already(self, name: str) -> Iterator[Woken]:
        """End a wait for something that had ended before the worker said so: nobody will say it again."""
        worker = self.workers[name]
        for waited in worker.waits:
            ended = self._ended(waited)
            if ended is not None and waited not in (worker.task, name):
                self._waits_no_more(self.workers[name], [waited])
                yield Woken(name, waited, ended)

    def _ended(self, name: str) -> WorkerDoing | None:
        if name in self.tasks:
            return self.tasks[name].ended
        worker = self.workers.get(name)
        return None if worker is None or worker.at_work else worker.doing

    def _named(self, names: Iterable[str], how: WorkerDoing) -> Iterator[Woken]:
        """The workers that ``unblocks`` names: a worker, a task's holder, or whoever is blocked with that task in
        hand."""
        for name in names:
            task = self.tasks.get(name)
            holders = [worker.name for worker in self._blocked() if worker.task == name]
            if name in self.workers:
                yield self._let_go(name, name, how)
            elif holders:
                yield from (self._let_go(holder, name, how) for holder in holders)
            elif task is not None and task.ended is None:
                yield self._let_go(task.holder, name, how)
            else:  # nobody has spoken of it yet: it may be an agent's name, or be polled for later
                yield Woken(name, name, how)

    def _let_go(self, worker: str, by: str, how: WorkerDoing) -> Woken:
        known = self.workers.get(worker)
        if known is not None and known.doing is WorkerDoing.BLOCKED:
            self._waits_no_more(known, known.waits)
        return Woken(worker, by, how)

    def _waits_no_more(self, worker: BusWorker, over: Iterable[str]) -> None:
        gone = set(over)
        left = tuple(name for name in worker.waits if name not in gone)
        doing = worker.doing if left else DOING[WorkerNews.FREED][worker.doing]
        assert doing is not None
        self.workers[worker.name] = replace(worker, waits=left, doing=doing)

    # --- worker-status.json -------------------------------------------------------------------------------------------
    def status_said_at(
        self, status: WorkerStatus, before: WorkerStatus | None, written_at: float, wall: float
    ) -> float:
        """Return the time of an entry's words: its heartbeat, or, without one, the time at which the file was written.

        A worker that changes its status and leaves its heartbeat as it was has spoken all the same, when the file was
        written. ``before`` is the worker's entry as it was read last. Without one, only the end of the worker's present
        task counts like this, and only in a file that is newer than its last word. An entry with an older heartbeat
        than ``before`` was put back by somebody else, and says nothing new.
        """
        written = min(written_at, wall)
        at = written if status.heartbeat is None else min(status.heartbeat, wall)
        known = self.workers.get(status.worker)
        if known is None or at > known.heard or written < known.heard - _TICK_S:
            return at
        if before is not None:
            same_beat = (status.heartbeat or 0.0) >= (before.heartbeat or 0.0)
            counts = status.doing is not before.doing and same_beat
        else:
            counts = (
                known.at_work
                and status.doing in (WorkerDoing.COMPLETE, WorkerDoing.FAILED)
                and status.task == known.task
            )
        return max(written, known.heard + _TICK_S) if counts else at

    def hear_status(self, status: WorkerStatus, heartbeat: float) -> bool:
        """Take in an entry of worker-status.json. True if it is news: later than everything heard of the worker.
        ``heartbeat``: as ``status_said_at``."""
        before = self.workers.get(status.worker)
        if before is not None and heartbeat <= before.heard:
            return False
        said: dict[str, object] = {"progress_pct": status.progress, "waiting_for": list(status.waiting_for)}
        word = _WORD_OF_STATUS[status.doing]
        self._hear(status.worker, word, heartbeat, status.task, said)
        if word is WorkerNews.STATUS_BLOCKED and status.waiting_for:
            self.workers[status.worker] = replace(self.workers[status.worker], waits=status.waiting_for)
        if status.task:
            self._hear_of_task(status.task, status, heartbeat)
        return True

    def _hear_of_task(self, task: str, status: WorkerStatus, at: float) -> None:
        """Take in what a status says of a task. A task that a line has ended stays ended: a status is written by
        habit."""
        known = self.tasks.get(task)
        ended = None if status.doing in (WorkerDoing.RUNNING, WorkerDoing.BLOCKED) else status.doing
        if known is None or (known.ended is None and (ended is None) != (known.holder == status.worker)):
            self._keep_task(task, status.worker, at, ended)

    # --- clocks -------------------------------------------------------------------------------------------------------
    def move(self, by_s: float) -> None:
        """Shift all times, because the wall clock was set or the machine slept: everything was heard as long ago as
        before (core/clock_frames)."""
        self.last_word += by_s
        for name, worker in self.workers.items():
            self.workers[name] = replace(worker, since=worker.since + by_s, heard=worker.heard + by_s)
        for name, task in self.tasks.items():
            self.tasks[name] = replace(task, since=task.since + by_s)

    def heard_as_in(self, earlier: TrackView, but: Collection[str] = ()) -> None:
        """Take over the times at which workers were heard, from the view before the same lines were read again.
        ``but``: not of these workers."""
        for name in self.workers.keys() & earlier.workers.keys() - set(but):
            known = earlier.workers[name]
            self.workers[name] = replace(self.workers[name], since=known.since, heard=known.heard)

    # --- asking -------------------------------------------------------------------------------------------------------
    def blocked(self) -> list[WorkerWait]:
        """Every wait of one worker for another now. A wait for something that nobody holds is in vain, but no part of a
        circle."""
        return [
            WorkerWait(worker.name, holder, name, worker.since)
            for worker in self._blocked()
            for name in worker.waits
            if (holder := self.holder_of(name)) is not None and holder != worker.name
        ]

    def blocked_by_files(self) -> list[FileWait]:
        """Every wait for a name that is unknown here, or for a worker that is not there, because of a file."""
        found = []
        for worker in self._blocked():
            unknown = [name for name in worker.waits if self.holder_of(name) is None]
            if worker.resource is not None and len(unknown) == len(worker.waits):
                unknown.append(worker.resource)
            found += [FileWait(worker.name, name, worker.since) for name in dict.fromkeys(unknown)]
        return found

    def holder_of(self, name: str) -> str | None:
        """The worker behind a name, if it is still at work."""
        task = self.tasks.get(name)
        if task is not None and task.ended is None:
            name = task.holder
        worker = self.workers.get(name)
        return worker.name if worker is not None and worker.at_work else None

    def quiet(self, before: float) -> list[BusWorker]:
        """Workers that should be at work and were last heard before that time."""
        return [worker for worker in self.workers.values() if worker.at_work and worker.heard < before]

    def finished(self) -> bool:
        return all(task.ended is not None for task in self.tasks.values())

    def _blocked(self) -> list[BusWorker]:
        return [worker for worker in self.workers.values() if worker.doing is WorkerDoing.BLOCKED]


def _waits(payload: Mapping[str, object]) -> tuple[str, ...]:
    named = _names(payload.get("waiting_for"))
    resource = _text(payload.get("resource"))
    return named or ((resource,) if resource else ())


def _names(said: object) -> tuple[str, ...]:
    several = said if isinstance(said, list | tuple) else [said]
    return tuple(dict.fromkeys(name for one in several if (name := _text(one))))


def _text(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def _each_once(woken: Iterable[Woken]) -> tuple[Woken, ...]:
    first: dict[str, Woken] = {}
    for one in woken:
        first.setdefault(one.worker, one)
    return tuple(first.values())


def _keep(entries: dict[str, _Entry], name: str, entry: _Entry) -> None:
    """Put the newest last, so that the oldest go first: a bus that invents names must not fill the memory."""
    entries.pop(name, None)
    entries[name] = entry
    if len(entries) > MAX_NAMES:
        del entries[next(iter(entries))]
