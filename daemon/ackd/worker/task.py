"""One task, as the function that works on it sees it.

Owns where the work stands: how many steps are done, the checkpoint, the files; and when it may be handed over: between
steps, never within one, so that no step runs twice and none is skipped. Refuses to know pipes and signals: what it has
to say goes to ``Voice``. Fails with ValueError for what makes no sense, and raises ``HandOver`` where work must stop.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Step = TypeVar("Step")

#: Where the assign says nothing else (worker-protocol, "Context Threshold Handling").
CONTEXT_THRESHOLD: Final = 0.70
#: A checkpoint is flushed to disk by its reader; many small steps share one.
_KEEP_EVERY_S: Final = 1.0


class HandOver(BaseException):
    """Stop here: where the work stands is written down, and someone fresh goes on with it.

    Nothing that ``except Exception`` should catch; who catches it all the same is told again before the next step.
    """


class Refuse(Exception):  # noqa: N818 - an answer, not an error
    """This task will never be done: do not try again."""


class Voice(Protocol):
    def say(self, kind: str, payload: dict[str, object], **fields: object) -> None: ...


class Task:
    """``checkpoint`` is the work's own: whatever JSON can say, given back to whoever goes on. So are the files' lists.

    ``spec_path`` is the message's file, or what its body named; ``worktree_path`` where to work. What was verified, and
    how it went, is told by ``complete``: work that verifies nothing has passed by returning.
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
        self.step = _whole(given.get("current_step"))  # so many are done
        self.checkpoint: dict[str, Any] = _mapping(given.get("data"))
        self.files_created: list[str] = _texts(given.get("files_created"))
        self.files_modified: list[str] = _texts(given.get("files_modified"))
        self.verification_passed = True
        self.verification_output = ""
        self.context_usage = 0.0
        self.current_step: str | None = None
        self.state: str | None = None  # in line: whoever assigned it knows that
        self.touched_at = time.monotonic()  # when the work last showed that it goes on
        self.handed_on: dict[str, object] = {}  # what was said when it was handed over
        self._threshold: float = self.payload.get("context_threshold") or CONTEXT_THRESHOLD
        self._voice = voice
        self._announced = 0
        self._within_a_step = False
        self._to_hand_over = False
        self._to_stop = False
        self._began_with = self._place()
        self._kept, self._kept_at = self._began_with, 0.0

    # --- for the work -------------------------------------------------------------------------------------------------
    @property
    def body(self) -> str:
        """The message without its header; or, where the message names another file, all of that."""
        text = self.spec_path.read_text(encoding="utf-8")
        return text.partition("\n\n")[2] if self.spec_path.suffix == ".mime" else text

    def steps(self, names: Iterable[Step]) -> Iterator[Step]:
        """Those that are not done yet, one after the other; each is done when the next is asked for.

        The same steps must come in the same order when the work is gone on with. Before each the work may be handed
        over; never before it has done one, so that hand-overs come to an end.
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
        """Say how it goes. Work without ``steps()`` counts for itself (``step``: so many are done), and may be handed
        over here."""
        if self._within_a_step:
            self._report(description)
            return
        self.step = self.step if step is None else _count(step)
        self._announced = max(self._announced, self.step, _count(total_steps or 0))
        self._stop_if_asked()
        self._keep(description)

    def context(self, usage: float) -> None:
        """How full the context is, 0.0 to 1.0. At the threshold the work is handed over before its next step."""
        if not 0 <= usage <= 1:
            raise ValueError(f"{usage!r} is no share of a context: 0.0 to 1.0")
        self.context_usage, self.touched_at = float(usage), time.monotonic()
        if usage >= self._threshold:
            self.ask_to_hand_over()
        self.beat()

    def blocked(self, reason: str, by: str | None = None) -> None:
        """Say that the work cannot go on by itself: who can help is told. ``by``: a task's id or an agent's name. It is
        over when the work says anything else."""
        self._at_work("blocked")
        self._say("blocked", reason=reason, blocking_task_id=by)

    def verifying(self) -> None:
        """Say that the work is done and being checked."""
        self._at_work("verifying")
        self.beat()

    def verified(self, *, passed: bool, output: str = "") -> None:
        """What ``complete`` will say. Not passed is a failure, whatever the work returns, and the next try begins with
        the first step; to go on from where it failed, raise instead."""
        self.verification_passed, self.verification_output = bool(passed), output
        self._at_work("self_review")

    # --- for who runs the work ----------------------------------------------------------------------------------------
    @property
    def key(self) -> str:
        return self.message_id or self.task_id

    def ask_to_hand_over(self) -> None:
        """Its context is full, or ackd asks: before the next step, once one is done."""
        self._to_hand_over = True

    def ask_to_stop(self) -> None:
        """This process ends: before the next step, whether one is done or not."""
        self._to_stop = True

    def begin_anew(self) -> None:
        """What was done does not hold: whoever tries again shall not go on from it."""
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
        """None where there is nothing to go on from, or nothing that can be written down."""
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
        if self.handed_on:
            raise HandOver
        moved = self._place() != self._began_with
        if self._to_stop or (self._to_hand_over and moved):
            self.state = "waiting"
            usage = {"checkpoint_ready": True, "context_usage": self.context_usage}
            self.handed_on = {**self.where_it_stands(), **self.echo(), **usage}
            self._voice.say("context_threshold", self.handed_on)
            raise HandOver

    def _keep(self, description: str) -> None:
        """Report, and bring along where to go on if that has changed: it is for whoever comes after a crash."""
        place, now = self._place(), time.monotonic()
        if place == self._kept or now < self._kept_at + _KEEP_EVERY_S:
            self._report(description)
            return
        self._kept, self._kept_at = place, now
        self._report(description, checkpoint=self.where_it_stands())

    def _report(self, description: str, **payload: object) -> None:
        self._at_work("executing")
        total = max(self._announced, self.step) or None
        self._say("progress", payload, step=self.step, total_steps=total, description=description)

    def _say(self, kind: str, payload: dict[str, object] | None = None, **fields: object) -> None:
        said = {**self.echo(), **self._said_state(), "context_usage": self.context_usage, **(payload or {})}
        self._voice.say(kind, said, task_id=self.task_id, **fields)

    def _said_state(self) -> dict[str, object]:
        """Who is to hand over waits for that, as far as others are concerned."""
        state = "waiting" if self._to_hand_over else self.state
        return {} if state is None else {"state": state}

    def _at_work(self, state: str) -> None:
        self.state, self.touched_at = state, time.monotonic()

    def _place(self) -> str:
        """TypeError or ValueError for a checkpoint that JSON cannot say: here, in the work that made it."""
        return json.dumps(self.where_it_stands(), sort_keys=True, allow_nan=False)


# --- a checkpoint may be someone else's: what makes no sense in it counts as absent -----------------------------------
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
