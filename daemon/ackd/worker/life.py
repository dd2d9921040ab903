"""The life of a worker process: reads lines from ackd, does the work, and answers while the work runs.

The main thread does the work, one task after the other; a second thread reads and answers, a third sends heartbeats.
This module keeps the tasks in hand and ends the process: after ``shutdown`` between two steps, at the end of stdin at
once. A repeated assign is answered and never begun twice. ``pipes`` writes lines, and ``task`` keeps the state of the
work. Of everything that the work may raise, only SystemExit ends the process. A line that cannot be understood is noted
on stderr.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ackd.worker import pipes
from ackd.worker.interrupts import EndedByOthers, Interrupts
from ackd.worker.task import KEEP_EVERY_S, Cancelled, HandOver, Refuse, Task

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ackd.worker.async_runner import AsyncRunner

    #: A plain or an ``async`` function. Its result is ignored.
    Work: TypeAlias = Callable[[Task], object]
    #: The last line about a task: the task's key, the attempt, and the arguments of ``Pipes.say``.
    LastWord: TypeAlias = tuple[str, int | None, tuple[str, dict[str, object], dict[str, object]]]

#: Time for the work's ``finally`` blocks after ackd has gone.
_GRACE_S: Final = 5.0
_MAX_ERROR: Final = 2_000


def run(
    work: Work, *, heartbeat_s: float = 5.0, idle_heartbeat_s: float = 60.0, patience_s: float | None = None
) -> None:
    """Call ``work`` for every task; return when ackd sends ``shutdown`` or has gone.

    ``patience_s``: how long a step may run without ``progress`` or ``context`` before heartbeats for it stop, so that
    ackd notices that it hangs. None: heartbeats never stop, and only the task's own time limit ends it.
    """
    lines = pipes.take_over(os.environ.get("ACKD_AGENT", "worker"))
    Life(work, lines, heartbeat_s, idle_heartbeat_s, patience_s).run()


class Life:
    def __init__(
        self, work: Work, lines: pipes.Pipes, heartbeat_s: float, idle_heartbeat_s: float, patience_s: float | None
    ) -> None:
        self._work = work
        self._lines = lines
        self._heartbeat_s = heartbeat_s
        self._idle_heartbeat_s = idle_heartbeat_s
        self._patience_s = patience_s
        self._interrupts = Interrupts(by_hand=lines.at_a_terminal)
        self._inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._hands = threading.RLock()  # guards the next two, and the lines written about them
        self._in_hand: dict[str, Task] = {}
        self._last: LastWord | None = None
        self._leaving = False
        self._alone = False
        self._began = threading.Event()  # set when work begins: heartbeats come sooner
        self._runner: AsyncRunner | None = None

    def run(self) -> None:
        self._lines.when_gone = self._ackd_is_gone
        for target in (self._read, self._beat):
            threading.Thread(target=target, name=f"ackd{target.__name__}", daemon=True).start()
        try:
            while (task := self._inbox.get()) is not None and not self._leaving:
                self._do(task)
        finally:
            if self._runner is not None:
                self._runner.close()

    # --- lines that a task sends (task.Voice) -------------------------------------------------------------------------
    def say(self, kind: str, payload: dict[str, object], **fields: object) -> None:
        with self._interrupts.held(), self._hands:  # no heartbeat with an older state is written after this line
            self._lines.say(kind, payload, **fields)

    # --- working: the main thread -------------------------------------------------------------------------------------
    def _do(self, task: Task) -> None:
        self._interrupts.forget()
        task.state, task.touched_at = "executing", time.monotonic()
        self._began.set()
        try:
            with self._interrupts.allowed():
                if task.is_cancelled:  # while it waited for its turn
                    raise Cancelled
                self._call(task)
        except Cancelled:
            self._failed(task, "cancelled", recoverable=False)
        except HandOver:
            self._end(task, "context_threshold", {})
        except EndedByOthers:  # no last line: whoever ended the process knows, or has gone
            raise
        except Refuse as refusal:
            self._failed(task, str(refusal) or "refused", recoverable=False)
        except KeyboardInterrupt:
            self._failed(task, "interrupted")
        except SystemExit as end:
            self._failed(task, f"its worker ended itself: exit {end.code or 0}")
            raise
        except Exception as error:  # noqa: BLE001 - whatever the work raises is its failure
            _print_traceback(error)
            self._failed(task, f"{type(error).__name__}: {error}"[:_MAX_ERROR])
        else:
            self._complete(task)
        finally:
            self._let_go(task)

    def _call(self, task: Task) -> None:
        answer: Any = self._work(task)
        if not hasattr(answer, "__await__"):
            return
        from ackd.worker.async_runner import make_runner  # noqa: PLC0415 - 70 ms that plain functions do not pay

        self._runner = self._runner or make_runner()
        with self._interrupts.left_to_asyncio():
            self._runner.run(answer)

    def _complete(self, task: Task) -> None:
        if not task.verification_passed:
            task.begin_anew()
        self._end(
            task,
            "complete",
            {},
            task_id=task.task_id,
            files_created=[*map(str, task.files_created)],
            files_modified=[*map(str, task.files_modified)],
            verification_passed=bool(task.verification_passed),
            verification_output=str(task.verification_output),
        )

    def _failed(self, task: Task, error: str, *, recoverable: bool = True) -> None:
        checkpoint = task.checkpoint_for_a_retry()
        payload: dict[str, object] = {"checkpoint": checkpoint} if checkpoint is not None else {}
        fields = {"task_id": task.task_id, "error": error, "recoverable": recoverable, "checkpoint_path": None}
        self._end(task, "failed", payload, **fields)

    def _end(self, task: Task, kind: str, payload: dict[str, object], **fields: object) -> None:
        """Send the last line about a task and remember it: if the same assign comes again, the line is repeated.

        A task that was handed over has had its last line already, so a result of the work after that is dropped.
        """
        task.drop_held_back()
        with self._hands:
            if task.handed_on:
                self._last = _last_word(task)
            else:
                payload = {**task.echo(), **payload}
                self._last = (task.key, task.attempt, (kind, payload, fields))
                self._lines.say(kind, payload, **fields)
            self._let_go(task)

    def _let_go(self, task: Task) -> None:
        with self._hands:
            if self._in_hand.get(task.key) is task:  # otherwise the task was assigned again meanwhile
                del self._in_hand[task.key]

    # --- reading: a thread of its own ---------------------------------------------------------------------------------
    def _read(self) -> None:
        for line in self._lines.lines():
            try:
                self._hear(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                _note(f"cannot understand {line[:200]!r}: {type(error).__name__}: {error}")
        self._ackd_is_gone()

    def _hear(self, line: dict[str, Any]) -> None:
        kind = line["type"]  # no match statement: the SDK runs on Python 3.9, too
        if kind == "assign":
            self._assigned(Task(line, self))
        elif kind == "status_check":
            self._answer()
        elif kind == "checkpoint_request":
            payload = line.get("payload", {})
            for task in self._held():
                if payload.get("task_id") in (None, task.task_id):
                    task.ask_to_stop() if payload.get("stopping") is True else task.ask_to_hand_over()
        elif kind == "cancel":
            payload = line.get("payload", {})
            for task in self._held():
                if payload.get("message_id") in (None, task.message_id) and payload.get("task_id") in (
                    None,
                    task.task_id,
                ):
                    task.cancel()
        elif kind == "shutdown":
            self._leaving = True
            for task in self._held():
                task.ask_to_stop()
            self._inbox.put(None)
        elif kind == "error":
            _note(f"ackd could not read a line: {line.get('payload')}")
        elif kind != "ack":
            _note(f"ackd says {kind!r}, which is not known here")

    def _assigned(self, task: Task) -> None:
        with self._hands:
            held = self._in_hand.get(task.key)
            if held is not None and not held.handed_on:
                # ackd repeats the assign because it does not know whether it arrived. Later lines about the task must
                # echo the newest attempt and generation, or ackd takes them for late ones.
                held.attempt, held.generation = task.attempt, task.generation
                held.beat()
                return
            last = _last_word(held) if held is not None else self._last
            if last is not None and last[:2] == (task.key, task.attempt) and task.attempt is not None:
                kind, payload, fields = last[2]
                self._lines.say(kind, payload, **fields)
                return
            self._in_hand[task.key] = task
            task.beat()
        self._inbox.put(task)

    def _held(self) -> list[Task]:
        with self._hands:
            return list(self._in_hand.values())

    def _ackd_is_gone(self) -> None:
        """Interrupt the work, since nobody would receive its result; after ``_GRACE_S`` the process ends by force."""
        if self._alone:
            return
        self._alone = self._leaving = True
        self._inbox.put(None)
        if self._held():
            last_resort = threading.Timer(_GRACE_S, os._exit, [0])
            last_resort.daemon = True
            last_resort.start()
            self._interrupts.end(0)

    # --- heartbeats: a thread of its own ------------------------------------------------------------------------------
    def _beat(self) -> None:
        """Send heartbeats. The first is sent at once and says that the worker is up."""
        while not self._alone:
            self._answer()
            self._wait_for_the_next_beat()

    def _wait_for_the_next_beat(self) -> None:
        """Wait until it is time, or work begins. Positions that were held back are sent meanwhile: the step that
        follows may take long, and a crash in it must not cost the steps before it."""
        held = self._held()
        due = time.monotonic() + (self._heartbeat_s if held else self._idle_heartbeat_s)
        while (left_s := due - time.monotonic()) > 0:
            if self._began.wait(min(left_s, KEEP_EVERY_S) if held else left_s):
                break
            for task in held:
                task.catch_up()
        self._began.clear()

    def _answer(self) -> None:
        with self._hands:  # no heartbeat for a task is written after its last line
            held = self._held()
            if not held:
                self._lines.say("heartbeat", {"state": "idle"}, context_usage=0.0, current_step=None)
            for task in held:
                if self._patience_s is None or time.monotonic() < task.touched_at + self._patience_s:
                    task.beat()


def _last_word(task: Task) -> LastWord:
    """The last line about a task that was handed over: its context_threshold."""
    return task.key, task.attempt, ("context_threshold", task.handed_on, {})


def _note(text: str) -> None:
    print(f"ackd.worker: {text}", file=sys.stderr, flush=True)


def _print_traceback(error: Exception) -> None:
    import traceback  # noqa: PLC0415 - for who fails

    traceback.print_exception(type(error), error, error.__traceback__)  # Python 3.9 wants all three
