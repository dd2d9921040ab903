"""Lines from a worker: carries out what each line means for the work that the worker has in hand.

Late lines, about work that is no longer in hand, are logged, and are a sign of life like every line. Of those, and of
lines that cannot be read, only a few at a time are logged and answered, so that a flood of them fills neither the log
nor the pipe. Nothing here fails: a checkpoint that the disk does not take is reported, and asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never

from ackd.core import events
from ackd.core.daemon_facts import io_error
from ackd.core.events import Outcome, RunEnded, SignOfLife, WorkerSaid
from ackd.core.message import Progress
from ackd.core.worker import WorkerState
from ackd.endpoints.process.facts import late_word
from ackd.endpoints.process.wire import Blocked, Completed, ContextThreshold, Failed, Heartbeat, Progressed
from ackd.storage.checkpoints import CheckpointTooLarge
from ackd.system.processes import last_lines, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.ports import Post, Record
    from ackd.endpoints.process.assignments import AgentCheckpoints, Assignments, Work
    from ackd.endpoints.process.wire import Checkpoint, Said

_TEXT_CHARS: Final = 300
#: At most ``_FEW`` lines without a meaning are logged within ``_IN_S``; the others are only counted.
_FEW: Final = 5
_IN_S: Final = 10.0


@dataclass(eq=False)
class RateLimit:
    """Lets the first few of a kind through, and counts the rest."""

    _since: float = field(default=-_IN_S, init=False)
    _count: int = field(default=0, init=False)
    _passed_over: int = field(default=0, init=False)

    def let_through(self, now: float) -> int | None:
        """The number that was held back since the last one that was let through; None: this one is held back, too."""
        if now - self._since >= _IN_S:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > _FEW:
            self._passed_over += 1
            return None
        held, self._passed_over = self._passed_over, 0
        return held


@dataclass(kw_only=True, eq=False)
class InboundLines:
    """``acked`` is called when what was said is kept, and may be acknowledged. ``leaving`` tells whether the worker has
    been asked to end."""

    agent: str
    assignments: Assignments
    checkpoints: AgentCheckpoints
    post: Post
    record: Record
    context_threshold: float
    acked: Callable[[str, Work], None]
    clock_rings: Callable[[Work], None]
    leaving: Callable[[], bool]
    _late: RateLimit = field(default_factory=RateLimit, init=False)

    async def hear(self, said: Said, line: bytes, generation: int, now: float) -> None:
        work = self.assignments.about(said, generation)
        if work is None and not _is_about_nothing(said):
            self.post(SignOfLife(self.agent, "a late word"))
            self._write_late(line, now)
            return
        if work is not None and _speaks_of_it(said):
            self._see(work, said)
        match said:
            case Heartbeat():
                self._lives(said, work)
            case Progressed():
                self._lives(said, work)
                await self._keep_on_the_way(said, work)
            case Completed():
                self._complete(said, work)
            case Failed():
                await self._fail(said, work)
            case Blocked():
                self._block(said, work)
            case ContextThreshold():
                await self._hand_over(said, work)
            case _:
                assert_never(said)

    # --- each word
    def _lives(self, said: Heartbeat | Progressed, work: Work | None) -> None:
        if work is None or not work.seen:
            self.post(WorkerSaid(self.agent))
            return
        if said.state is not WorkerState.BLOCKED and not work.handed_over:
            work.run_clock(self.clock_rings)
        self.post(
            WorkerSaid(
                self.agent,
                work.key,
                state=None if said.state is WorkerState.IDLE else said.state,  # said before it had read its task
                context_usage=said.context_usage,
                step=said.current_step if isinstance(said, Heartbeat) else _step(said),
                progress=_progress(said) if isinstance(said, Progressed) else None,
                attempt=work.attempt,
            )
        )

    async def _keep_on_the_way(self, said: Progressed, work: Work | None) -> None:
        """Keep a checkpoint on the way, for the worker after a crash. Nothing is handed over, so the engine need not
        know."""
        if said.checkpoint is not None and work is not None and not work.handed_over:
            await self._keep(work, said.checkpoint)

    def _complete(self, said: Completed, work: Work | None) -> None:
        assert work is not None
        output = last_lines((said.verification_output or "").encode(errors="replace"), _TEXT_CHARS)
        if said.verification_passed:
            files = f"{len(said.files_created)} files created, {len(said.files_modified)} modified"
            self._end(work, Outcome.DONE, f"complete: {files}")
        else:
            self._end(work, Outcome.FAILED, f"verification failed: {output}" if output else "verification failed")
        self.acked("complete", work)

    async def _fail(self, said: Failed, work: Work | None) -> None:
        assert work is not None
        if said.checkpoint is not None:
            await self._keep(work, said.checkpoint)
        if self.assignments.get(work.key) is not work:
            return  # its time was up meanwhile
        error = last_lines(said.error.encode(errors="replace"), _TEXT_CHARS) or "failed"
        self._end(work, Outcome.FAILED if said.recoverable else Outcome.REFUSED, error)
        self.acked("failed", work)

    def _block(self, said: Blocked, work: Work | None) -> None:
        assert work is not None
        work.halt_clock()  # time spent waiting for somebody else does not count
        reason = last_lines(said.reason.encode(errors="replace"), _TEXT_CHARS) or "blocked"
        self.post(events.WorkBlocked(work.key, reason, said.blocker, work.attempt))
        self.acked("blocked", work)

    async def _hand_over(self, said: ContextThreshold, work: Work | None) -> None:
        assert work is not None
        usage = said.context_usage if said.context_usage is not None else self.context_threshold
        if said.checkpoint is None:
            self.post(WorkerSaid(self.agent, work.key, context_usage=usage, attempt=work.attempt))
            return
        kept = await self._keep(work, said.checkpoint)
        if self.assignments.get(work.key) is not work:
            return  # its time was up meanwhile
        if not kept:  # without it the next worker would repeat finished steps: the engine waits for one that is kept
            self.post(WorkerSaid(self.agent, work.key, context_usage=usage, attempt=work.attempt))
            return
        if usage >= self.context_threshold or self.leaving():  # else it only notes where it stands, and goes on
            work.handed_over = True
            work.halt_clock()
        # A worker that was asked to end hands over for that reason, however full its context is.
        self.post(events.CheckpointCame(work.key, work.attempt, None if self.leaving() else usage))
        self.acked("context_threshold", work)

    async def _keep(self, work: Work, checkpoint: Checkpoint) -> bool:
        """Make the checkpoint durable, before anything else learns of it; False if the disk refused."""
        try:
            await self.checkpoints.keep(work.message.message_id, checkpoint)
        except (OSError, CheckpointTooLarge) as error:
            self.record(io_error(what=f"checkpoint of {work.message.message_id}", error=str(error)))
            return False
        return True

    def _end(self, work: Work, outcome: Outcome, detail: str) -> None:
        self.assignments.drop(work.key)
        self.post(RunEnded(work.key, outcome, detail, work.attempt))

    def _see(self, work: Work, said: Said) -> None:
        if not work.seen:
            work.seen = True
            self.post(events.Seen(work.key, f"its worker spoke of it ({type(said).__name__.lower()})"))

    def _write_late(self, line: bytes, now: float) -> None:
        held = self._late.let_through(now)
        if held is not None:
            facts: dict[str, Any] = {"agent": self.agent, "text": shown(line)}
            self.record(late_word(**(facts | ({"held_back": held} if held else {}))))


def shown(line: bytes) -> str:
    return printable(line[:_TEXT_CHARS].decode("utf-8", "replace"))


def _is_about_nothing(said: Said) -> bool:
    """True of a heartbeat that names no work: it only says that the worker is alive."""
    return isinstance(said, Heartbeat) and (said.task_id, said.message_id, said.attempt) == (None, None, None)


def _speaks_of_it(said: Said) -> bool:
    """False for a heartbeat that names no task: it may come from a worker that has not read its assign yet."""
    if not isinstance(said, Heartbeat) or said.task_id is not None or said.message_id is not None:
        return True
    return said.current_step is not None or said.state not in (None, WorkerState.IDLE)


def _step(said: Progressed) -> str | None:
    if said.step is None:
        return None
    return f"{said.step} of {said.total_steps}" if said.total_steps is not None else str(said.step)


def _progress(said: Progressed) -> Progress:
    return Progress(stage=_step(said), percent=said.percent, message=said.description)
