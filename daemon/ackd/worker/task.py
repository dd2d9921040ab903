"""A task, as the function that works on it sees it.

A task keeps its state (how many steps are done, the checkpoint, the files) and decides when it may be handed over:
between steps, never within one, so that no step runs twice and none is skipped. Lines to ackd go through ``Voice``;
pipes and signals are dealt with elsewhere. Senseless arguments raise ValueError, and ``HandOver`` is raised where the
work must stop.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Step = TypeVar("Step")

#: The threshold when the assign gives none (worker-protocol, "Context Threshold Handling").
CONTEXT_THRESHOLD: Final = 0.70
#: ackd flushes every checkpoint to the disk, so a checkpoint is sent at most this often; many small steps share one.
KEEP_EVERY_S: Final = 1.0


class HandOver(BaseException):
    """Stops the work: its checkpoint is written, and a fresh worker continues from there.

    A BaseException, so that ``except Exception`` does not catch it. Work that catches it all the same gets it again
    before its next step.
    """


class Cancelled(BaseException):
    """Stops the work because its message was cancelled: nobody wants the result any more.

    A BaseException, like ``HandOver``; it is raised before the next step.
    """


class Refuse(Exception):  # noqa: N818 - an answer, not an error
    """Raised by the work to refuse the task for good: ackd does not try it again."""


class Voice(Protocol):
    def say(self, kind: str, payload: dict[str, object], **fields: object) -> None: ...


class Task:
    """A task, from its assign to its last line.

    ``checkpoint`` belongs to the work: any JSON object, given to the worker that continues the task. The same holds for
    ``files_created`` and ``files_modified``. ``spec_path`` is the message's file, or the file that its body names;
    ``worktree_path`` is the directory to work in. ``complete`` reports whether the result was verified, and what the
    verification printed. Work that verifies nothing has passed when it returns.
    """

    def __init__(self, line: dict[str, Any], voice: Voice) -> None:
        self.payload = _mapping(line.get("payload"))
        self.task_id: str = line["task_id"]
        self.spec_path = Path(line["spec_path"])
        self.worktree_path = Path(line["worktree_path"])
        self.timeout_seconds: int = line["timeout_seconds"]
        self.message_id: str | None = self.payload.get("message_id")
        self.sender: str | None = self.payload.get("from")
        self.message_type: str | None = self.payload.get("message_type")
        self.priority: str | None = self.payload.get("priority")
        self.attempt: int | None = self.payload.get("attempt")
        self.generation: int | None = self.payload.get("generation")
        given = _mapping(self.payload.get("checkpoint"))
        self.given: dict[str, Any] = given  # the checkpoint as it came, whoever wrote it
        self.step = _whole(given.get("current_step"))  # number of steps that are done
        self.checkpoint: dict[str, Any] = _mapping(given.get("data"))
        self.files_created: list[str] = _texts(given.get("files_created"))
        self.files_modified: list[str] = _texts(given.get("files_modified"))
        self.verification_passed = True
        self.verification_output = ""
        self.context_usage = 0.0
        self.current_step: str | None = None
        self.state: str | None = None  # None while it waits for its turn: ackd knows that it assigned it
        self.touched_at = time.monotonic()  # when the work last reported anything
        self.handed_on: dict[str, object] = {}  # payload of the context_threshold that handed it over; empty before
        self._threshold: float = self.payload.get("context_threshold") or CONTEXT_THRESHOLD
        self._voice = voice
        self._announced = 0
        self._within_a_step = False
        self._to_hand_over = False
        self._to_stop = False
        self._is_cancelled = False
        self._began_with = self._place()
        self._kept, self._kept_at = self._began_with, 0.0
        #: The position after the last step, as JSON, while it has not been sent. Whichever thread is first sends it.
        self._held_back: str | None = None
        self._keeping = threading.RLock()  # guards it, and the order in which positions are sent

    # --- for the work -------------------------------------------------------------------------------------------------
    @property
    def body(self) -> str:
        """The text of the message without its header, or the whole file if the message names another one."""
        text = self.spec_path.read_text(encoding="utf-8")
        return text.partition("\n\n")[2] if self.spec_path.suffix == ".mime" else text

    def steps(self, names: Iterable[Step]) -> Iterator[Step]:
        """Yield the steps that are not done yet. A step counts as done when the next one is requested.

        The work must pass the same steps in the same order when it is continued. It may be handed over before each
        step, but never before it has done at least one, so that a task is not handed over for ever.
        """
        planned = tuple(names)
        if self._within_a_step:
            raise ValueError("steps() within a step: whoever goes on could not tell which are done")
        first = self._announced
        self._announced += len(planned)
        for number, step in enumerate(planned, first):
            if number < self.step:
                continue
            self._take(str(step))
            yield step
            self._within_a_step = False
            self.step, self.current_step = number + 1, None
        self._keep(f"{self.step} of {self._announced} steps done")

    def progress(self, description: str = "", *, step: int | None = None, total_steps: int | None = None) -> None:
        """Report progress. Work that does not use ``steps()`` counts its steps itself (``step``: how many are done) and
        may be handed over here."""
        if self._within_a_step:
            self._report(description)
            return
        self.step = self.step if step is None else _count(step)
        self._announced = max(self._announced, self.step, _count(total_steps or 0))
        self._stop_if_asked()
        self._keep(description)

    def context(self, usage: float) -> None:
        """Report how full the context is, 0.0 to 1.0. At the threshold the work is handed over before its next step."""
        if not 0 <= usage <= 1:
            raise ValueError(f"{usage!r} is no share of a context: 0.0 to 1.0")
        self.context_usage, self.touched_at = float(usage), time.monotonic()
        if usage >= self._threshold:
            self.ask_to_hand_over()
        self.beat()

    def blocked(self, reason: str, by: str | None = None) -> None:
        """Report that the work cannot continue without help; ackd tells whoever can help. ``by``: a task's id or an
        agent's name. The task counts as blocked until the work reports anything else."""
        self._at_work("blocked")
        self._say("blocked", reason=reason, blocking_task_id=by)

    def verifying(self) -> None:
        """Report that the work is done and being verified."""
        self._at_work("verifying")
        self.beat()

    def verified(self, *, passed: bool, output: str = "") -> None:
        """Set the verification that ``complete`` will report. ``passed=False`` makes the task a failure, whatever the
        work returns, and the next attempt begins with the first step. To continue from the failed step, raise instead.
        """
        self.verification_passed, self.verification_output = bool(passed), output
        self._at_work("self_review")

    # --- for the caller of the work -----------------------------------------------------------------------------------
    @property
    def key(self) -> str:
        return self.message_id or self.task_id

    def ask_to_hand_over(self) -> None:
        """Hand the task over before its next step, but not before one step is done. Called when the context is full, or
        at ackd's request."""
        self._to_hand_over = True

    def ask_to_stop(self) -> None:
        """Hand the task over before its next step, even if none is done yet. Called when this process is to end.

        The steps that are done are reported at once: the one that runs now may outlast this process.
        """
        self._to_stop = True
        self.catch_up(at_once=True)

    def catch_up(self, *, at_once: bool = False) -> None:
        """Send the position that was held back because another one had just been sent. Called by other threads."""
        with self._keeping:
            place = self._held_back
            if place is None or not (at_once or self._may_be_sent(time.monotonic())):
                return
            self._held_back, self._kept, self._kept_at = None, place, time.monotonic()
            reached = json.loads(place)
            total = max(self._announced, reached["current_step"]) or None
            self._say(
                "progress",
                {"checkpoint": reached},
                step=reached["current_step"],
                total_steps=total,
                description=f"{reached['current_step']} of {total} steps done",
            )

    def drop_held_back(self) -> None:
        """Send no position any more. Called before the last line about the task."""
        with self._keeping:
            self._held_back = None

    def cancel(self) -> None:
        """Stop the work before its next step. Called when ackd says that its message was cancelled."""
        self._is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the message was cancelled. Work with long steps may look, and raise ``Cancelled``."""
        return self._is_cancelled

    def begin_anew(self) -> None:
        """Tell ackd to forget the checkpoint, so that the next attempt starts from the first step. Called when the
        verification failed: the steps done so far cannot be relied on."""
        if self.handed_on or self.checkpoint_for_a_retry() is None:
            return
        nothing = {"task_id": self.task_id, "current_step": 0}
        self._say(
            "progress", {"checkpoint": nothing}, step=0, total_steps=None, description="not verified: begins anew"
        )

    def beat(self) -> None:
        self._voice.say(
            "heartbeat",
            {**self.echo(), **self._said_state(), "task_id": self.task_id},
            context_usage=self.context_usage,
            current_step=self.current_step,
        )

    def echo(self) -> dict[str, object]:
        said = {"message_id": self.message_id, "attempt": self.attempt, "generation": self.generation}
        return {key: value for key, value in said.items() if value is not None}

    def checkpoint_for_a_retry(self) -> dict[str, object] | None:
        """The checkpoint for the next attempt; None if nothing was done yet, or if JSON cannot express it."""
        if not (self.step or self.checkpoint or self.files_created or self.files_modified):
            return None
        try:
            self._place()
        except (TypeError, ValueError):
            return None
        return self.where_it_stands()

    def where_it_stands(self) -> dict[str, object]:
        return {
            "task_id": self.task_id,
            "current_step": self.step,
            "files_created": [*map(str, self.files_created)],
            "files_modified": [*map(str, self.files_modified)],
            "data": self.checkpoint,
        }

    # --- inside -------------------------------------------------------------------------------------------------------
    def _take(self, name: str) -> None:
        self._stop_if_asked()
        self._within_a_step, self.current_step = True, name
        self._keep(name)

    def _stop_if_asked(self) -> None:
        if self._is_cancelled:
            raise Cancelled
        if self.handed_on:
            raise HandOver
        moved = self._place() != self._began_with
        if self._to_stop or (self._to_hand_over and moved):
            self.drop_held_back()
            self.state = "waiting"
            usage = {"checkpoint_ready": True, "context_usage": self.context_usage}
            self.handed_on = {**self.where_it_stands(), **self.echo(), **usage}
            self._voice.say("context_threshold", self.handed_on)
            raise HandOver

    def _keep(self, description: str) -> None:
        """Report progress, with a checkpoint if the position has changed, for the attempt that follows a crash."""
        place, now = self._place(), time.monotonic()
        with self._keeping:
            if place != self._kept and self._may_be_sent(now):
                self._held_back, self._kept, self._kept_at = None, place, now
                self._report(description, checkpoint=self.where_it_stands())
                return
            self._held_back = place if place != self._kept else None
        self._report(description)

    def _may_be_sent(self, now: float) -> bool:
        return self._to_stop or now >= self._kept_at + KEEP_EVERY_S

    def _report(self, description: str, **payload: object) -> None:
        self._at_work("executing")
        total = max(self._announced, self.step) or None
        self._say("progress", payload, step=self.step, total_steps=total, description=description)

    def _say(self, kind: str, payload: dict[str, object] | None = None, **fields: object) -> None:
        said = {**self.echo(), **self._said_state(), "context_usage": self.context_usage, **(payload or {})}
        self._voice.say(kind, said, task_id=self.task_id, **fields)

    def _said_state(self) -> dict[str, object]:
        """The state as ackd is told it: a task that is to be handed over reports itself as waiting."""
        state = "waiting" if self._to_hand_over else self.state
        return {} if state is None else {"state": state}

    def _at_work(self, state: str) -> None:
        self.state, self.touched_at = state, time.monotonic()

    def _place(self) -> str:
        """The position as JSON, to compare. Raises TypeError or ValueError for a checkpoint that JSON cannot express,
        so that the error appears in the work that made it."""
        return json.dumps(self.where_it_stands(), sort_keys=True, allow_nan=False)


# --- reading a checkpoint: another worker may have written it, so a senseless value counts as missing -----------------
def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _count(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} steps")
    return value
