"""Signals reach the work, and disturb nothing else in the worker."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from ackd.core.worker import WorkerState
from ackd.endpoints.process.wire import Completed, Failed, Heartbeat
from ackd.worker.interrupts import EndedByOthers, Interrupts
from tests.worker.children import HANGS, HANGS_ASYNC, child

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("script", [HANGS, HANGS_ASYNC], ids=["plain", "async"])
def test_sigint_interrupts_the_work_and_leaves_the_worker_alive(tmp_path: Path, script: str) -> None:
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.process.send_signal(signal.SIGINT)
        failed = worker.hear(Failed)
        assert (failed.error, failed.recoverable) == ("interrupted", True)
        assert worker.done() == ["begun", "left"]
        worker.process.send_signal(signal.SIGINT)  # nothing to interrupt: nothing happens
        worker.assign("task_2")
        worker.hear(Heartbeat, state=WorkerState.EXECUTING, task_id="task_2")
        worker.process.send_signal(signal.SIGINT)
        worker.hear(Failed, task_id="task_2")
        worker.shut_down()
        assert worker.ended() == 0


def test_sigint_tears_no_line(tmp_path: Path) -> None:
    script = """
def work(task):
    task.current_step = "x" * 100_000  # more than a pipe holds
    note("begun")
    while True:
        task.beat()
"""
    with child(tmp_path, script) as worker:
        for number in range(5):
            worker.assign(f"task_{number}")
            worker.hear(Heartbeat, current_step="x" * 4096, task_id=f"task_{number}")
            worker.process.send_signal(signal.SIGINT)
            worker.hear(Failed, task_id=f"task_{number}", error="interrupted")
        worker.shut_down()
        assert sum(isinstance(one, Failed) for one in worker.hear_out()) == 5  # and every line can be read
        assert worker.ended() == 0


@pytest.mark.parametrize("script", [HANGS, HANGS_ASYNC], ids=["plain", "async"])
def test_sigterm_ends_it_at_once_without_a_word_and_work_cleans_up(tmp_path: Path, script: str) -> None:
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 128 + signal.SIGTERM
        assert worker.done() == ["begun", "left"]
        assert not any(isinstance(one, Completed | Failed) for one in worker.hear_out())
        assert worker.stderr() == ""


def test_work_that_minds_an_interrupt_may_go_on(tmp_path: Path) -> None:
    script = """
def work(task):
    try:
        note("begun")
        until("never")
    except KeyboardInterrupt:
        note("minded")
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.process.send_signal(signal.SIGINT)
        worker.hear(Completed)
        assert worker.done() == ["begun", "minded"]


def test_outside_the_main_thread_there_are_no_signals_and_work_is_done_all_the_same(tmp_path: Path) -> None:
    run = "thread = threading.Thread(target=run, args=[work]); thread.start(); thread.join()"
    with child(tmp_path, "def work(task): note('done')", run=run) as worker:
        worker.assign()
        worker.hear(Completed)
        worker.shut_down()
        assert (worker.ended(), worker.stderr()) == (0, "")


def test_the_end_is_said_again_until_it_is_noticed_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes just before the main thread begins to wait does not end that wait, so it is repeated."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    told: list[int] = []

    def kill(_thread: int, number: int) -> None:
        told.append(number)
        if len(told) == 3:
            with pytest.raises(EndedByOthers) as end:
                interrupts._ended(number, None)
            assert end.value.code == 7
            interrupts._ended(number, None)  # one more, which was under way: whoever cleans up is not hurt

    monkeypatch.setattr(signal, "pthread_kill", kill)
    interrupts = Interrupts(by_hand=False)
    interrupts.end(7)
    assert told == [signal.SIGTERM] * 3
