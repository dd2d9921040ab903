"""Telling a worker, reading its lines, waking it, replacing it: with real children."""

from __future__ import annotations

import os
import signal
import time

import anyio
import pytest

from ackd.core.effects import AskCheckpoint, NudgeAgent, ProbeAgent, RenewAgent
from ackd.core.errors import BadMessage
from ackd.core.events import (
    AgentDied,
    AgentStarted,
    CheckpointCame,
    EndpointAway,
    NotTold,
    Outcome,
    RunEnded,
    Seen,
    SignOfLife,
    Told,
    WorkBlocked,
    WorkerSaid,
)
from ackd.core.message import Folder, Place, Progress
from ackd.core.ports import Inhabited
from ackd.core.restarts import RestartPolicy
from ackd.core.worker import WorkerState
from ackd.runtime.supervisor import KeptStanding
from tests.endpoints.process.child.real_children import assert_no_child_left, descriptors
from tests.endpoints.process.process_agent import ProcessAgent, message, tell
from tests.live_config import live_config
from tests.living import is_gone, process_state
from tests.waiting import until

PLACE = tell().place


# --- the good way -----------------------------------------------------------------------------------------------------
async def test_a_task_is_assigned_seen_and_completed(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    say("heartbeat", current_step="reading", payload={"task_id": a["task_id"]})
    done(a, files_created=["a.py"])
"""
    async with process_agent.worker(script) as work:
        told = await work.tell()
        assert told == Told(1, f"assign written to pid {work.pid}", attempt=1)
        assert await work.outcome() == RunEnded(1, Outcome.DONE, "complete: 1 files created, 0 modified", 1)
        kinds = [type(event) for event in process_agent.events]
        assert kinds == [WorkerSaid, AgentStarted, Told, Seen, WorkerSaid, RunEnded]
        assert isinstance(work.endpoint, Inhabited)
    (assign,) = process_agent.heard_of("assign")
    assert assign["spec_path"] == str(process_agent.tmp / "queue/worker/processed/task_assignment_1.mime")
    assert assign["worktree_path"] == str(process_agent.work)
    assert (assign["task_id"], assign["timeout_seconds"]) == ("T-1", 600)
    assert assign["payload"] | {"context_threshold": 0} == {
        "message_id": "m1@ignite.local",
        "from": "leader",
        "message_type": "task_assignment",
        "priority": "high",
        "attempt": 1,
        "generation": 1,
        "context_threshold": 0,
    }
    assert_no_child_left()


async def test_the_body_may_name_the_spec_the_worktree_and_the_time(process_agent: ProcessAgent) -> None:
    process_agent.body = {"spec_path": "specs/x.md", "worktree_path": "/srv/tree", "timeout_seconds": 42}
    async with process_agent.worker() as work:
        await work.tell()
        await work.outcome()
    (assign,) = process_agent.heard_of("assign")
    assert assign["spec_path"] == str(process_agent.work / "specs/x.md")
    assert (assign["worktree_path"], assign["timeout_seconds"]) == ("/srv/tree", 42)


async def test_a_completion_is_acknowledged_when_it_is_committed(process_agent: ProcessAgent) -> None:
    async with process_agent.worker() as work:
        await work.tell()
        await work.outcome()
        assert process_agent.heard_of("ack") == []
        work.endpoint.let_go(1)
        await until(lambda: process_agent.heard_of("ack"))
    assert process_agent.heard_of("ack")[0]["payload"] == {"of": "complete", "task_id": "T-1"}


@pytest.mark.parametrize(
    ("said", "outcome", "detail"),
    [
        (
            "'complete', verification_passed=False, verification_output='2 failed'",
            "failed",
            "verification failed: 2 failed",
        ),
        ("'failed', error='no\\nnetwork', recoverable=True", "failed", "no | network"),
        ("'failed', error='no such file', recoverable=False", "refused", "no such file"),
    ],
)
async def test_every_end_of_a_task_has_its_outcome(
    process_agent: ProcessAgent, said: str, outcome: str, detail: str
) -> None:
    async with process_agent.worker(f"def assign(a): say({said}, task_id=a['task_id'])") as work:
        await work.tell()
        assert await work.outcome() == RunEnded(1, Outcome(outcome), detail, 1)


async def test_progress_and_heartbeats_say_how_it_goes(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    say("progress", task_id=a["task_id"], step=1, total_steps=4, description="parsing", payload={"state": "executing"})
    say("heartbeat", context_usage=0.4, current_step="verify", payload={"state": "verifying"})
    say("heartbeat", payload={"state": "idle"})
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        await until(lambda: len(process_agent.all(WorkerSaid)) == 4)
        assert process_agent.all(WorkerSaid)[1:] == [
            WorkerSaid(
                "worker",
                1,
                state=WorkerState.EXECUTING,
                step="1 of 4",
                progress=Progress("1 of 4", 25, "parsing"),
                attempt=1,
            ),
            WorkerSaid("worker", 1, state=WorkerState.VERIFYING, context_usage=0.4, step="verify", attempt=1),
            WorkerSaid("worker", 1, attempt=1),
        ]


async def test_progress_and_blocked_in_the_seeds_own_form_are_understood(process_agent: ProcessAgent) -> None:
    """The seed's base message has no fields but its payload, so everything stands there."""
    script = """
def seed(type, **payload): say(type, worker_id="w1", timestamp="2026-11-16T12:00:00", payload=payload)
def assign(a):
    seed("progress", task_id=a["task_id"], step=1, total_steps=4, description="parsing")
    seed("progress", task_id=a["task_id"], current_step="testing")
    seed("blocked", task_id=a["task_id"], reason="needs the schema", blocking_task_id="leader")
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert await process_agent.comes(WorkBlocked) == WorkBlocked(1, "needs the schema", "leader", 1)
        assert process_agent.all(WorkerSaid)[1:] == [
            WorkerSaid("worker", 1, step="1 of 4", progress=Progress("1 of 4", 25, "parsing"), attempt=1),
            WorkerSaid("worker", 1, progress=Progress(None, None, "testing"), attempt=1),
        ]
        assert len(process_agent.all(Seen)) == 1
        assert process_agent.recorded("bad_line") == []


@pytest.mark.parametrize(
    "said", ["print('Loading the model', flush=True)", "say('dance')", "say('progress', task_id='T-0', step=1)"]
)
async def test_any_line_is_a_sign_of_life_a_bad_or_late_one_too(process_agent: ProcessAgent, said: str) -> None:
    async with process_agent.worker(f"def assign(a): {said}") as work:
        await work.tell()
        assert (await process_agent.comes(SignOfLife)).agent == "worker"
        assert process_agent.all(Seen) == []


async def test_a_heartbeat_that_says_nothing_does_not_prove_that_the_task_was_read(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): say('heartbeat', context_usage=0.1)") as work:
        await work.tell()
        await until(lambda: len(process_agent.all(WorkerSaid)) == 2)
        assert process_agent.all(WorkerSaid)[1] == WorkerSaid("worker")
        assert process_agent.all(Seen) == []


async def test_a_blocked_worker_says_by_whom_and_its_clock_stands_still(process_agent: ProcessAgent) -> None:
    script = """
def assign(a): say("blocked", task_id=a["task_id"], reason="needs the schema", blocking_task_id="leader")
def status_check(m): say("progress", task_id="T-1", step=1)
"""
    async with process_agent.worker(script, timeout_s=600) as work:
        await work.tell()
        assert await process_agent.comes(WorkBlocked) == WorkBlocked(1, "needs the schema", "leader", 1)
        (held,) = work.endpoint._assignments
        assert held._clock is None
        await work.endpoint.probe(ProbeAgent("worker", 1, message(), PLACE, "Status check: …", 1))
        await process_agent.comes(WorkerSaid, 2)
        assert held._clock is not None


async def test_two_messages_of_one_task_are_told_apart(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): a['payload']['attempt'] == 2 and done(a)") as work:
        await work.tell(1)
        await work.tell(2, attempt=2)
        assert (await work.outcome()).key == 2
    assert [line["task_id"] for line in process_agent.heard_of("assign")] == ["T-1", "m2@ignite.local"]


# --- nobody to tell ---------------------------------------------------------------------------------------------------
async def test_a_program_that_is_missing_is_an_absence(process_agent: ProcessAgent) -> None:
    async with process_agent.worker(child=process_agent.child("./missing")) as work:
        answer = await work.tell()
        assert isinstance(answer, EndpointAway)
        assert answer.reason.startswith("no program ./missing")


async def test_a_message_that_cannot_be_read_is_not_told(process_agent: ProcessAgent) -> None:
    async with process_agent.worker() as work:
        gone = Place("worker", Folder.PROCESSED, "gone")
        order = tell()
        answer = await work.endpoint.tell(type(order)("worker", 1, order.message, gone, 1))
        assert isinstance(answer, NotTold)
        assert "No such file" in answer.reason


async def test_a_message_that_is_another_by_now_is_not_told(
    process_agent: ProcessAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> dict[str, object]:
        raise BadMessage("bad_id", "another message lies there now")

    async with process_agent.worker() as work:
        monkeypatch.setattr(work.endpoint, "read", other)
        assert isinstance(await work.tell(), NotTold)


async def test_a_worker_that_crashes_at_its_start_takes_no_message_with_it(process_agent: ProcessAgent) -> None:
    script = "sys.exit('ImportError: no module named x')"
    async with process_agent.worker(script) as work:
        answer = await work.tell()
        assert isinstance(answer, EndpointAway)
        assert "it ended before it could be told: exit 1: ImportError: no module named x" in answer.reason
        await until(lambda: work.supervisor.standing("worker") is KeptStanding.GIVEN_UP)
        assert process_agent.all(RunEnded) == []
        assert process_agent.all(AgentDied)[-1].again_in_s is None
    assert len(process_agent.recorded("child_started")) >= 6


async def test_a_worker_without_a_first_word_can_be_told_after_a_while(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def begin(): pass", ready_after_s=0.05) as work:
        assert isinstance(await work.tell(), Told)
        await work.outcome()


async def test_a_worker_that_does_not_read_is_an_absence_and_nothing_grows(process_agent: ProcessAgent) -> None:
    process_agent.body = {"spec_path": "x" * 4000}
    async with process_agent.worker("def hear(): time.sleep(600)") as work:
        answers = [await work.tell(key) for key in range(1, 60)]
    assert isinstance(answers[0], Told)
    away = answers[-1]
    assert isinstance(away, EndpointAway)
    assert "it does not read" in away.reason


async def test_a_worker_that_closed_its_stdin_is_not_dead_and_is_replaced_when_it_is_told(
    process_agent: ProcessAgent,
) -> None:
    script = """
def begin():
    if not os.path.exists("first"):
        touch("first")
        os.close(0)
        say("heartbeat")
        time.sleep(600)
    say("heartbeat")
"""
    async with process_agent.worker(script) as work:
        await process_agent.comes(AgentStarted)
        first = work.pid
        assert not is_gone(first)
        assert isinstance(await work.tell(), Told)
        assert work.pid != first
        await work.outcome()
        assert process_agent.all(AgentDied) == []


async def test_a_worker_that_closed_its_stdout_is_replaced_when_it_is_told(process_agent: ProcessAgent) -> None:
    script = """
def begin():
    say("heartbeat")
    if not os.path.exists("first"):
        touch("first")
        os.close(1)
        time.sleep(600)
"""
    async with process_agent.worker(script) as work:
        await process_agent.comes(AgentStarted)
        assert work.endpoint.worker.life is not None
        life = work.endpoint.worker.life
        await until(lambda: not life.can_speak)
        assert life.alive
        assert isinstance(await work.tell(), Told)
        assert (await work.outcome()).outcome is Outcome.DONE


# --- deaths -----------------------------------------------------------------------------------------------------------
async def test_a_worker_that_dies_gives_back_what_it_had_and_is_started_again(process_agent: ProcessAgent) -> None:
    """FAILURES: a task stuck in_progress on a dead worker blocks everything behind it."""
    async with process_agent.worker("def assign(a): sys.exit('out of memory')") as work:
        await work.tell()
        assert await work.outcome() == RunEnded(1, Outcome.FAILED, "its worker died: exit 1: out of memory", 1)
        died = await process_agent.comes(AgentDied)
        assert died.again_in_s is not None
        await process_agent.comes(AgentStarted, 2)
        assert process_agent.events.index(process_agent.all(RunEnded)[0]) < process_agent.events.index(died)
    started, ended = process_agent.recorded("child_started"), process_agent.recorded("child_ended")
    assert [one["generation"] for one in started] == [1, 2]
    assert (ended[0]["exit"], ended[0]["why"]) == (1, "exit 1: out of memory")
    assert ended[0]["pid"] == started[0]["pid"]


async def test_a_worker_that_crashes_after_its_work_has_done_it(process_agent: ProcessAgent) -> None:
    """FAILURES: complete, then reported failed."""
    async with process_agent.worker("def assign(a): done(a); os.kill(os.getpid(), signal.SIGKILL)") as work:
        await work.tell()
        await process_agent.comes(AgentDied)
        assert process_agent.all(RunEnded) == [RunEnded(1, Outcome.DONE, "complete: 0 files created, 0 modified", 1)]


async def test_a_worker_that_exits_0_between_tasks_is_started_again_when_it_is_told(
    process_agent: ProcessAgent,
) -> None:
    async with process_agent.worker("def assign(a): done(a); sys.exit(0)") as work:
        for key in (1, 2, 3):
            assert isinstance(await work.tell(key), Told)
            assert (await work.outcome(key)).outcome is Outcome.DONE
            await until(lambda: work.supervisor.standing("worker") is KeptStanding.RESTING)
        assert process_agent.all(AgentDied) == []
    assert len(process_agent.recorded("child_started")) == 3


async def test_a_worker_that_exits_0_with_work_in_hand_has_failed_it(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): sys.exit(0)") as work:
        await work.tell()
        ended = await work.outcome()
        assert ended == RunEnded(1, Outcome.FAILED, "its worker ended (exit 0) before it was through", 1)


async def test_a_grandchild_that_holds_stdout_hides_no_death(process_agent: ProcessAgent) -> None:
    """FAILURES: cpython gh-119710; a heartbeat writer outlives its worker and hides its death."""
    script = """
def assign(a):
    beat = "while :; do echo '{\\"type\\": \\"heartbeat\\", \\"payload\\": {\\"task_id\\": \\"T-1\\"}}'; sleep 0.01; done"
    child = subprocess.Popen(["sh", "-c", beat])
    touch("pid", str(child.pid))
    os._exit(1)
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert (await work.outcome()).detail == "its worker died: exit 1"
        assert work.endpoint.pulse() is None or work.endpoint.worker.generation == 2
        await process_agent.comes(AgentStarted, 2)
        assert is_gone(await process_agent.pid_in("pid"))


# --- bad words --------------------------------------------------------------------------------------------------------
async def test_a_bad_line_is_logged_answered_and_survived(process_agent: ProcessAgent) -> None:
    script = r"""
def begin():
    sys.stdout.write("Traceback: \x1b[31mnot json\x1b[0m\n")
    sys.stdout.write('{"type": "complete"}\n')
    sys.stdout.flush()
"""
    async with process_agent.worker(script) as work:
        await until(lambda: len(process_agent.heard_of("error")) == 2)
        await work.tell()
        assert (await work.outcome()).outcome is Outcome.DONE
    first, second = process_agent.recorded("bad_line")
    assert first["text"] == "Traceback:  [31mnot json [0m"
    assert first["agent"] == "worker"
    assert "not JSON" in str(first["error"])
    assert "task_id" in str(second["error"])
    assert process_agent.heard_of("error")[0]["payload"]["code"] == "not_json"
    assert process_agent.all(AgentDied) == []


async def test_a_line_that_is_too_long_is_one_bad_line(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): print('x' * 2_000_000); done(a)") as work:
        await work.tell()
        assert (await work.outcome()).outcome is Outcome.DONE
    (bad,) = process_agent.recorded("bad_line")
    assert bad["text"] == "x" * 300


async def test_half_a_line_at_the_end_is_a_bad_line_and_no_loss(process_agent: ProcessAgent) -> None:
    script = 'def assign(a): sys.stdout.write(\'{"type": "compl\'); sys.stdout.flush(); os._exit(1)'
    async with process_agent.worker(script) as work:
        await work.tell()
        assert (await work.outcome()).outcome is Outcome.FAILED
    assert process_agent.recorded("bad_line")[0]["text"] == '{"type": "compl'


async def test_a_line_in_two_halves_is_one_line(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    line = json.dumps({"type": "complete", "task_id": a["task_id"], "verification_passed": True})
    sys.stdout.write(line[:20]); sys.stdout.flush(); time.sleep(0.05)
    sys.stdout.write(line[20:] + "\\n"); sys.stdout.flush()
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert (await work.outcome()).outcome is Outcome.DONE


async def test_a_flood_of_words_fills_neither_the_log_nor_the_pipe(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    import threading
    def flood():
        while True: os.write(1, b"garbage\\n" * 100)
    threading.Thread(target=flood, daemon=True).start()
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert work.endpoint.worker.life is not None
        life = work.endpoint.worker.life
        await until(lambda: life.heard_bytes > 100)
        before, since = life.heard_bytes, time.monotonic()
        await anyio.sleep(0.5)  # what is measured is a rate
        per_s = (life.heard_bytes - before) / (time.monotonic() - since)
        assert per_s < 500_000
        assert len(process_agent.recorded("bad_line")) <= 6
        assert life.alive


async def test_a_worker_that_floods_delays_nobody(process_agent: ProcessAgent) -> None:
    """FAILURES: dispatch of one slow agent blocks the loop for all."""
    other = ProcessAgent(process_agent.tmp / "other")
    async with process_agent.worker(
        "def assign(a):\n while True: os.write(1, b'{}' * 30_000); os.write(2, b'x' * 60_000)"
    ) as work:
        await work.tell()
        async with other.worker() as neighbour:
            for key in range(1, 11):
                await neighbour.tell(key)
                assert (await neighbour.outcome(key)).outcome is Outcome.DONE


async def test_late_words_are_written_down_and_nothing_else(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    say("complete", task_id="T-0", verification_passed=True)
    say("complete", task_id=a["task_id"], verification_passed=True, payload={"attempt": 1})
    say("failed", task_id=a["task_id"], error="x", recoverable=True, payload={"generation": 7})
    done(a)
"""
    async with process_agent.worker(script) as work:
        await work.tell(attempt=2)
        await work.outcome()
        assert len(process_agent.all(RunEnded)) == 1
    assert len(process_agent.recorded("late_word")) == 3
    assert '"T-0"' in str(process_agent.recorded("late_word")[0]["text"])


async def test_a_time_without_a_zone_is_logged_once(process_agent: ProcessAgent) -> None:
    script = "def begin():\n for _ in range(3): say('heartbeat', timestamp='2026-11-16T12:00:00')"
    async with process_agent.worker(script) as work:
        await until(lambda: len(process_agent.all(WorkerSaid)) == 3)
        await work.tell()
    assert len(process_agent.recorded("naive_time")) == 1


# --- time -------------------------------------------------------------------------------------------------------------
async def test_a_task_whose_time_is_up_has_failed_and_its_worker_is_replaced(process_agent: ProcessAgent) -> None:
    process_agent.body = {"timeout_seconds": 0.2}
    async with process_agent.worker("def assign(a): a['payload']['attempt'] > 1 and done(a)") as work:
        await work.tell()
        first = work.pid
        assert await work.outcome() == RunEnded(1, Outcome.FAILED, "timed out after 0.2 s", 1)
        await process_agent.comes(AgentStarted, 2)
        assert is_gone(first)
        assert len(process_agent.all(RunEnded)) == 1
        await work.tell(attempt=2)
        assert (await work.outcome(2)).outcome is Outcome.DONE


# --- waking -----------------------------------------------------------------------------------------------------------
def nudge(rung: int, key: int = 1) -> NudgeAgent:
    return NudgeAgent("worker", key, message(key), PLACE, rung=rung, attempt=1)


async def test_rung_1_asks_and_tells_again(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): len(open('heard').readlines()) > 2 and done(a)") as work:
        await work.tell()
        told = await work.endpoint.nudge(nudge(1))
        assert told == Told(1, f"status_check and assign written to pid {work.pid}", attempt=1)
        await work.outcome()
    assert [line["type"] for line in process_agent.heard][:3] == ["assign", "status_check", "assign"]


async def test_rung_2_interrupts_first(process_agent: ProcessAgent) -> None:
    script = """
def hang(*_):
    while True: time.sleep(1)
def assign(a):
    if len(open("heard").readlines()) > 1: return done(a)
    try: touch("hangs"); hang()
    except KeyboardInterrupt: pass
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        await until((process_agent.work / "hangs").exists)
        assert isinstance(await work.endpoint.nudge(nudge(2)), Told)
        assert (await work.outcome()).outcome is Outcome.DONE
        assert process_agent.all(AgentDied) == []


async def test_rung_3_begins_anew_with_the_same_work(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if a["payload"]["generation"] == 1: touch("hangs"); time.sleep(600)
    done(a)
"""
    async with process_agent.worker(script, stop_timeout_s=5) as work:
        work.supervisor.config = live_config(stop_timeout_s=0.1)
        await work.tell()
        await until((process_agent.work / "hangs").exists)
        assert isinstance(await work.endpoint.nudge(nudge(3)), Told)
        assert (await work.outcome()).outcome is Outcome.DONE
        assert process_agent.all(AgentDied) == []
        assert len(process_agent.all(RunEnded)) == 1
    assert [line["payload"]["generation"] for line in process_agent.heard_of("assign")] == [1, 2]


async def test_what_is_not_in_hand_is_not_nudged(process_agent: ProcessAgent) -> None:
    async with process_agent.worker() as work:
        await process_agent.comes(AgentStarted)
        assert isinstance(await work.endpoint.nudge(nudge(1, key=9)), NotTold)


async def test_a_probe_is_a_status_check_in_its_own_words(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): pass\ndef status_check(m): done({'task_id': 'T-1'})") as work:
        await work.tell()
        text = "Status check: are you still working on T-1?"
        assert isinstance(await work.endpoint.probe(ProbeAgent("worker", 1, message(), PLACE, text, 1)), Told)
        await work.outcome()
    assert process_agent.heard_of("status_check")[0]["payload"] == {"text": text, "task_id": "T-1"}


async def test_a_hanging_worker_is_restarted_and_its_work_given_back(process_agent: ProcessAgent) -> None:
    """FAILURES: silent hang."""
    async with process_agent.worker("def assign(a): touch('hangs'); time.sleep(600)") as work:
        await work.tell()
        await until((process_agent.work / "hangs").exists)
        await work.endpoint.restart("no sign of life in 180 s")
        why = "its worker was restarted: no sign of life in 180 s"
        assert process_agent.all(RunEnded) == [RunEnded(1, Outcome.FAILED, why, 1)]
        assert process_agent.all(AgentDied) == [AgentDied("worker", "no sign of life in 180 s", again_in_s=0.0)]
        assert len(process_agent.all(AgentStarted)) == 2


async def test_stopped_by_hand_its_work_is_given_back_uncounted(process_agent: ProcessAgent) -> None:
    async with process_agent.worker("def assign(a): touch('hangs'); time.sleep(600)") as work:
        await work.tell()
        await until((process_agent.work / "hangs").exists)
        await work.supervisor.stop("worker")
        assert process_agent.all(RunEnded) == [RunEnded(1, Outcome.STOPPED, "its worker was stopped", 1)]
        assert isinstance(await work.tell(), EndpointAway)


# --- checkpoints ------------------------------------------------------------------------------------------------------
HANDS_OVER = """
def assign(a):
    checkpoint = a["payload"].get("checkpoint")
    if checkpoint: return done(a)
    say("context_threshold", payload={"task_id": a["task_id"], "current_step": 3, "context_usage": 0.8, "note": "hé"})
"""


async def test_a_checkpoint_is_durable_before_it_is_told_of_and_handed_to_the_next(process_agent: ProcessAgent) -> None:
    async with process_agent.worker(HANDS_OVER) as work:
        await work.tell()
        assert await process_agent.comes(CheckpointCame) == CheckpointCame(1, 1, 0.8)
        (kept,) = process_agent.checkpoints.iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
        assert kept.name.startswith("worker--")
        await work.endpoint.renew(RenewAgent("worker", "80% of its context used"))
        assert [line["payload"]["of"] for line in process_agent.heard_of("ack")] == ["context_threshold"]
        assert process_agent.all(AgentDied) == []
        await work.tell(attempt=2)
        ended = process_agent.all(RunEnded)
        await until(lambda: process_agent.all(RunEnded)[len(ended) :])
        assert process_agent.all(RunEnded)[-1] == RunEnded(1, Outcome.DONE, "complete: 0 files created, 0 modified", 2)
        assert all(one.outcome is Outcome.STOPPED for one in ended)
    second = process_agent.heard_of("assign")[1]
    assert second["payload"]["checkpoint"]["current_step"] == 3
    assert second["payload"]["checkpoint"]["note"] == "hé"
    assert second["payload"]["generation"] == 2


async def test_a_checkpoint_outlives_the_daemon(process_agent: ProcessAgent) -> None:
    async with process_agent.worker(HANDS_OVER) as work:
        await work.tell()
        await process_agent.comes(CheckpointCame)
    async with process_agent.worker(HANDS_OVER) as work:
        await work.tell(attempt=5)
        await until(lambda: any(one.outcome is Outcome.DONE for one in process_agent.all(RunEnded)))
    assert [line["payload"]["checkpoint"]["current_step"] for line in process_agent.heard_of("assign")[1:]] == [3]


async def test_a_worker_that_hands_over_and_leaves_has_not_failed(process_agent: ProcessAgent) -> None:
    async with process_agent.worker(HANDS_OVER + "    sys.exit(0)") as work:
        await work.tell()
        ended = await work.outcome()
        assert ended == RunEnded(1, Outcome.STOPPED, "its worker handed over, and ended", 1)
        assert process_agent.events.index(process_agent.all(CheckpointCame)[0]) < process_agent.events.index(ended)


async def test_a_worker_that_notes_where_it_stands_and_goes_on_has_not_handed_over(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    say("context_threshold", payload={"task_id": "T-1", "current_step": 1, "context_usage": 0.2})
    os._exit(0)
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert (await work.outcome()).outcome is Outcome.FAILED
        assert process_agent.all(CheckpointCame) == [CheckpointCame(1, 1, 0.2)]


async def test_the_checkpoint_of_a_failure_is_handed_to_the_retry(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    if "checkpoint" in a["payload"]: return done(a)
    say("failed", task_id=a["task_id"], error="flaky", recoverable=True, checkpoint_path="/srv/c.json")
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        await work.outcome()
        await work.tell(attempt=2)
        assert (await work.outcome(2)).outcome is Outcome.DONE
    assert process_agent.heard_of("assign")[1]["payload"]["checkpoint"]["checkpoint_path"] == "/srv/c.json"


async def test_a_checkpoint_is_asked_for(process_agent: ProcessAgent) -> None:
    script = """
def assign(a): say("progress", task_id="T-1", step=1)
def checkpoint_request(m): say("context_threshold", payload={"task_id": m["payload"]["task_id"], "current_step": 1})
"""
    async with process_agent.worker(script, context_threshold=0.66) as work:
        await work.tell()
        assert isinstance(await work.endpoint.ask_checkpoint(AskCheckpoint("worker", 1, message(), PLACE, 1)), Told)
        assert await process_agent.comes(CheckpointCame) == CheckpointCame(1, 1, 0.66)  # said is that it is full


async def test_a_threshold_without_a_checkpoint_is_only_said(process_agent: ProcessAgent) -> None:
    script = """
def assign(a):
    say("context_threshold", payload={"task_id": "T-1", "current_step": 1, "checkpoint_ready": False, "context_usage": 0.9})
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        assert await process_agent.comes(WorkerSaid, 2) == WorkerSaid("worker", 1, context_usage=0.9, attempt=1)
        assert process_agent.all(CheckpointCame) == []


# --- signs of life ----------------------------------------------------------------------------------------------------
async def test_cpu_time_and_output_are_signs_of_life_and_silence_is_none(process_agent: ProcessAgent) -> None:
    """FAILURES: a worker that never wrote a heartbeat counts as healthy."""
    script = """
def assign(a):
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    touch("spun")
"""
    async with process_agent.worker(script) as work:
        await process_agent.comes(AgentStarted)
        work.endpoint.pulse()
        assert work.endpoint.pulse() is None
        await work.tell()
        await until((process_agent.work / "spun").exists)
        pulse = work.endpoint.pulse()
        assert pulse is not None
        assert pulse.endswith("s of CPU time")
        assert work.endpoint.pulse() is None
        os.kill(work.pid, signal.SIGSTOP)
        await until(lambda: process_state(work.pid) == "T")
        assert work.endpoint.pulse() is None


async def test_a_worker_that_is_gone_has_no_pulse(process_agent: ProcessAgent) -> None:
    async with process_agent.worker() as work:
        await process_agent.comes(AgentStarted)
        await work.supervisor.stop("worker")
        assert work.endpoint.pulse() is None


# --- the end ----------------------------------------------------------------------------------------------------------
async def test_at_the_end_a_worker_may_finish(process_agent: ProcessAgent) -> None:
    script = """
def assign(a): touch("at-it"); done_later.append(a)
def shutdown(m): done(done_later[0]); sys.exit(0)
done_later = []
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        await until((process_agent.work / "at-it").exists)
        await work.endpoint.stop(20)
        assert [one.outcome for one in process_agent.all(RunEnded)] == [Outcome.DONE]
        assert isinstance(await work.tell(2), EndpointAway)
        assert process_agent.all(AgentDied) == []
    assert_no_child_left()


async def test_at_the_end_a_worker_may_hand_over(process_agent: ProcessAgent) -> None:
    script = """
def assign(a): touch("at-it")
def shutdown(m): say("context_threshold", payload={"task_id": "T-1", "current_step": 1}); sys.exit(0)
"""
    async with process_agent.worker(script) as work:
        await work.tell()
        await until((process_agent.work / "at-it").exists)
        await work.endpoint.stop(20)
        assert process_agent.all(CheckpointCame) == [CheckpointCame(1, 1, None)]  # not full: asked to end
        assert [one.outcome for one in process_agent.all(RunEnded)] == [Outcome.STOPPED]


async def test_at_the_end_a_worker_is_asked_for_a_checkpoint_before_it_is_asked_to_leave(
    process_agent: ProcessAgent,
) -> None:
    script = """
def assign(a): touch("at-it")
def checkpoint_request(m):
    say("context_threshold", payload={"task_id": m["payload"]["task_id"], "current_step": 4})
"""
    async with process_agent.worker(script) as work:
        assert not work.endpoint.is_asked_at_stop()
        await work.tell()
        await until((process_agent.work / "at-it").exists)
        assert work.endpoint.is_asked_at_stop()
        await work.endpoint.stop(20)
        assert process_agent.all(CheckpointCame) == [CheckpointCame(1, 1, None)]
        assert [one.outcome for one in process_agent.all(RunEnded)] == [Outcome.STOPPED]
    asked, *_ = process_agent.heard_of("checkpoint_request")
    assert asked["payload"] == {"reason": "ackd is stopping", "stopping": True, "ends_in_s": 20, "task_id": "T-1"}
    heard = [line["type"] for line in process_agent.heard]
    assert "shutdown" not in heard[: heard.index("checkpoint_request")]


async def test_a_worker_without_work_is_not_asked_for_a_checkpoint_at_the_end(process_agent: ProcessAgent) -> None:
    async with process_agent.worker() as work:
        await work.tell()
        await work.outcome()
        await work.endpoint.stop(20)
    assert process_agent.heard_of("checkpoint_request") == []


@pytest.mark.parametrize("leaves", ["sys.exit(0)", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGTERM)"])
async def test_at_the_end_it_is_nobodys_failure_how_a_worker_leaves(process_agent: ProcessAgent, leaves: str) -> None:
    """The service manager may end it, too, and a worker with several tasks leaves all but the first."""
    script = f"def assign(a): touch('at-it')\ndef shutdown(m): {leaves}"
    async with process_agent.worker(script) as work:
        await work.tell()
        await until((process_agent.work / "at-it").exists)
        await work.endpoint.stop(20)
        assert [one.outcome for one in process_agent.all(RunEnded)] == [Outcome.STOPPED]


async def test_at_the_end_who_does_not_finish_is_ended_and_offered_again(process_agent: ProcessAgent) -> None:
    """FAILURES: TERM is ignored, stdin is not read."""
    script = "def assign(a): signal.signal(signal.SIGTERM, signal.SIG_IGN); touch('hangs'); time.sleep(600)"
    async with process_agent.worker(script) as work:
        work.supervisor.config = live_config(stop_timeout_s=0.2)
        await work.tell()
        await until((process_agent.work / "hangs").exists)
        pid = work.pid
        await work.endpoint.stop(0.1)
        assert process_agent.all(RunEnded) == [RunEnded(1, Outcome.STOPPED, "ackd was stopped", 1)]
        assert is_gone(pid)


async def test_thirty_restarts_leave_no_zombie_and_no_descriptor(process_agent: ProcessAgent) -> None:
    async with process_agent.worker(policy=RestartPolicy(base_s=0.01, cap_s=0.01, limit=100)) as work:
        await process_agent.comes(AgentStarted)
        before = descriptors()
        for number in range(30):
            if number % 2:
                os.kill(work.pid, signal.SIGKILL)
                await process_agent.comes(AgentStarted, number + 2)
            else:
                await work.endpoint.restart("again")
        assert descriptors() <= before
        assert work.supervisor.standing("worker") is KeptStanding.UP
    assert_no_child_left()
    assert len(process_agent.recorded("child_ended")) == 31
