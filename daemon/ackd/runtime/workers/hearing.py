"""From what a worker said to what that means for the work in its hands.

Owns the meaning of each word: who hears of it, and what is kept before. Late words, about work that is no longer in
hand, are written down, and are a sign of life like every line. Lines that say nothing are written down and answered, a
few at a time: a flood of them fills neither the log nor the pipe. Refuses to know processes. Never fails: a disk that
does not take a checkpoint is reported, and the checkpoint asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from ackd.adapters.checkpoints import CheckpointTooLarge
from ackd.core import events
from ackd.core.events import Outcome, RunEnded, SignOfLife, WorkerSaid
from ackd.core.message import Progress
from ackd.core.worker import WorkerState
from ackd.dialects.worker_json import (
    Blocked,
    Completed,
    ContextThreshold,
    Failed,
    Heartbeat,
    Progressed,
)
from ackd.processes import last_lines, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.dialects.worker_json import Checkpoint, Said
    from ackd.ports import Post
    from ackd.runtime.workers.checkpoints import Checkpoints
    from ackd.runtime.workers.hand import Hand, Work

_TEXT_CHARS: Final = 300
#: Of words that mean nothing, so many in so long are written down; of the others, how many there were.
_FEW: Final = 5
_IN_S: Final = 10.0


@dataclass(eq=False)
class Few:
    """Lets the first few of a kind through, and counts the rest."""

    _since: float = field(default=-_IN_S, init=False)
    _count: int = field(default=0, init=False)
    _passed_over: int = field(default=0, init=False)

    def let_through(self, now: float) -> int | None:
        """How many were held back since the last that was let through; None: this one is held back, too."""
        if now - self._since >= _IN_S:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > _FEW:
            self._passed_over += 1
            return None
        held, self._passed_over = self._passed_over, 0
        return held


@dataclass(kw_only=True, eq=False)
class Hearing:
    """``acked``: what was said is kept, and the worker may hear so. ``leaving``: it has been asked to end."""

    agent: str
    hand: Hand
    checkpoints: Checkpoints
    post: Post
    record: Callable[[str, dict[str, object]], None]
    context_threshold: float
    acked: Callable[[str, Work], None]
    clock_rings: Callable[[Work], None]
    leaving: Callable[[], bool]
    _late: Few = field(default_factory=Few, init=False)

    async def hear(self, said: Said, line: bytes, generation: int, now: float) -> None:
        work = self.hand.about(said, generation)
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
        """For whoever comes after a crash. It hands nothing over: nobody hears of it."""
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
        if self.hand.get(work.key) is not work:
            return  # its time was up meanwhile
        error = last_lines(said.error.encode(errors="replace"), _TEXT_CHARS) or "failed"
        self._end(work, Outcome.FAILED if said.recoverable else Outcome.REFUSED, error)
        self.acked("failed", work)

    def _block(self, said: Blocked, work: Work | None) -> None:
        assert work is not None
        work.halt_clock()  # it waits for someone else: that is not its time
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
        if self.hand.get(work.key) is not work:
            return  # its time was up meanwhile
        if not kept:  # or the next would do again what is done: the engine waits for one that can be kept
            self.post(WorkerSaid(self.agent, work.key, context_usage=usage, attempt=work.attempt))
            return
        if usage >= self.context_threshold or self.leaving():  # else it only notes where it stands, and goes on
            work.handed_over = True
            work.halt_clock()
        # One that was asked to end hands over for that reason, whatever its context.
        self.post(events.CheckpointCame(work.key, work.attempt, None if self.leaving() else usage))
        self.acked("context_threshold", work)

    async def _keep(self, work: Work, checkpoint: Checkpoint) -> bool:
        """Durable before anyone hears of it."""
        try:
            await self.checkpoints.keep(work.message.message_id, checkpoint)
        except (OSError, CheckpointTooLarge) as error:
            self.record("io_error", {"what": f"checkpoint of {work.message.message_id}", "error": str(error)})
            return False
        return True

    def _end(self, work: Work, outcome: Outcome, detail: str) -> None:
        self.hand.drop(work.key)
        self.post(RunEnded(work.key, outcome, detail, work.attempt))

    def _see(self, work: Work, said: Said) -> None:
        if not work.seen:
            work.seen = True
            self.post(events.Seen(work.key, f"its worker spoke of it ({type(said).__name__.lower()})"))

    def _write_late(self, line: bytes, now: float) -> None:
        held = self._late.let_through(now)
        if held is not None:
            facts: dict[str, object] = {"agent": self.agent, "text": shown(line)}
            self.record("late_word", facts | ({"held_back": held} if held else {}))


def shown(line: bytes) -> str:
    return printable(line[:_TEXT_CHARS].decode("utf-8", "replace"))


def _is_about_nothing(said: Said) -> bool:
    """It lives, and says no more: true of a heartbeat only."""
    return isinstance(said, Heartbeat) and (said.task_id, said.message_id, said.attempt) == (None, None, None)


def _speaks_of_it(said: Said) -> bool:
    """A heartbeat that names no task may come from a worker that has not read its assign yet."""
    if not isinstance(said, Heartbeat) or said.task_id is not None or said.message_id is not None:
        return True
    return said.current_step is not None or said.state not in (None, WorkerState.IDLE)


def _step(said: Progressed) -> str | None:
    if said.step is None:
        return None
    return f"{said.step} of {said.total_steps}" if said.total_steps is not None else str(said.step)


def _progress(said: Progressed) -> Progress:
    return Progress(stage=_step(said), percent=said.percent, message=said.description)
