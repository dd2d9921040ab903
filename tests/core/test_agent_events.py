"""Children and panes: they start, die, wait for people, fall quiet, and hand over when their context is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.liveness import Vital
from ackd.core.message import Folder, Progress
from tests.core.engine_world import PROCESS, TEAM, WATCHED_PANE, World, make_message


def panes() -> World:
    return World({**TEAM, "worker": (WATCHED_PANE, "tmux")})


def processes() -> World:
    return World({**TEAM, "worker": (PROCESS, "process")})


def done(world: World, kind: type[fx.Effect]) -> list[fx.Effect]:
    return [effect for effect in world.done if isinstance(effect, kind)]


def take(world: World, message_id: str = "m1") -> int:
    """Send a message, which is told and taken."""
    world.send(make_message(message_id))
    key = world.delivery(message_id).key
    world.tell(ev.Seen(key, "the pane went busy"))
    return key


# --- beginning and end ------------------------------------------------------------------------------------------------
def test_one_that_died_is_parked_until_it_is_started_again() -> None:
    world = processes()
    world.tell(ev.AgentDied("worker", "exit 1", again_in_s=2))
    world.send(make_message("m1"))
    agent = world.agent("worker")
    assert (agent.state.value, agent.reason, world.told("worker")) == ("parked", "exit 1", [])
    world.tell(ev.AgentStarted("worker", "pid 7"))
    assert (agent.state.value, agent.detail, world.told("worker")) == ("busy", "pid 7", ["m1"])
    assert world.facts("escalation") == []


def test_one_that_dies_too_often_is_down_and_one_escalation_and_its_mail_waits() -> None:
    """[agent-message-queue #427] A waker that died left 27 messages in silence."""
    world = processes()
    world.tell(ev.AgentDied("worker", "died 5 times in 60 s", again_in_s=None))
    for number in range(27):
        world.send(make_message(f"m{number}"))
    world.wait(10_000)
    assert (world.agent("worker").state.value, world.told("worker")) == ("down", [])
    assert world.fact("escalation")["cause"] == "died"
    world.tell(ev.AgentStarted("worker", "pid 7"))
    assert world.told("worker") == ["m0"]


def test_what_it_had_in_hand_is_offered_again_to_the_next_life() -> None:
    world = processes()
    take(world)
    world.ends("m1", ev.Outcome.FAILED, "its worker died: exit 1", attempt=1)
    world.tell(ev.AgentDied("worker", "exit 1", again_in_s=1))
    world.wait(10)
    world.tell(ev.AgentStarted("worker", "pid 7"))
    world.wait(15)
    assert world.told("worker") == ["m1", "m1"]
    assert world.delivery("m1").retries == 1


def test_what_it_was_told_dies_with_it_though_its_endpoint_saw_only_the_next_life() -> None:
    """A pane is started again within a second: nobody else would report that its work is lost."""
    world = panes()
    take(world)
    world.tell(ev.AgentDied("worker", "its pane was closed", again_in_s=1))
    world.tell(ev.AgentStarted("worker", "pane %2"))
    world.wait(15)
    assert (world.told("worker"), world.delivery("m1").retries) == (["m1", "m1"], 1)
    assert world.fact("message_retry")["reason"] == "its agent died: its pane was closed"


def test_one_that_was_at_work_on_something_else_and_died_is_told_when_it_is_started_again() -> None:
    world = panes()
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "it is busy", order.attempt, ev.Absence.BUSY)]
    world.send(make_message("m1"))
    del world.on_tell["worker"]
    world.tell(ev.AgentDied("worker", "its pane was closed", again_in_s=1))
    world.tell(ev.AgentStarted("worker", "pane %2"))
    assert world.told("worker") == ["m1", "m1"]


def test_what_a_person_took_from_it_is_not_counted() -> None:
    world = panes()
    take(world)
    world.tell(ev.AgentDied("worker", "stopped by hand", wanted=True))
    world.tell(ev.AgentStarted("worker", "pane %2"))
    assert (world.told("worker"), world.delivery("m1").retries) == (["m1", "m1"], 0)


def test_one_that_a_person_stopped_is_nobodys_escalation() -> None:
    world = processes()
    world.tell(ev.AgentDied("worker", "stopped by hand", wanted=True))
    assert (world.agent("worker").state.value, world.facts("escalation")) == ("down", [])


# --- waiting for a person, or for its own work ------------------------------------------------------------------------
def test_words_of_others_in_its_pane_are_no_escalation_and_it_is_told_when_they_are_gone() -> None:
    """The watcher of the pane sends a notice in time if the words stay there."""
    world = panes()
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "words", order.attempt, ev.Absence.TAKEN)]
    world.send(make_message("m1"))
    assert (world.agent("worker").state.value, world.agent("worker").reason) == ("parked", "words")
    world.wait(2_000)
    assert (world.facts("escalation"), world.delivery("m1").retries) == ([], 0)
    del world.on_tell["worker"]
    told = len(world.told("worker"))
    world.tell(ev.AgentReady("worker", "its pane shows that it waits for a line"))
    assert len(world.told("worker")) == told + 1


def test_a_prompt_parks_the_agent_and_someone_is_told_once() -> None:
    """[gastown #1378; gascity #534] Permission prompts and usage limits stalled agents and were never escalated."""
    world = panes()
    world.send(make_message("m1"))
    for _ in range(5):
        world.tell(ev.AgentStuck("worker", "permission prompt: Do you want to proceed?"))
        world.wait(400)
    assert len(world.mail("escalation")) == 1
    assert world.fact("escalation")["cause"] == "stuck"
    assert world.facts("nudge") == []


def test_a_limit_parks_it_until_its_time_and_a_changing_screen_does_not_end_that() -> None:
    world = panes()
    world.on_tell["worker"] = lambda order: [
        ev.EndpointAway(order.key, "usage limit", order.attempt, ev.Absence.STUCK, world.wall + 3600)
    ]
    world.send(make_message("m1"))
    world.tell(ev.SignOfLife("worker", "the pane changed"))
    agent = world.agent("worker")
    assert (agent.state.value, agent.reason, len(world.told("worker"))) == ("parked", "usage limit", 1)
    world.wait(3599)
    assert len(world.told("worker")) == 1
    del world.on_tell["worker"]
    world.wait(2)
    assert (len(world.told("worker")), world.delivery("m1").retries) == (2, 0)


def test_one_that_is_ready_again_is_told_at_once() -> None:
    world = panes()
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "a menu", order.attempt, ev.Absence.STUCK)]
    world.send(make_message("m1"))
    del world.on_tell["worker"]
    world.tell(ev.AgentReady("worker", "its prompt is there"))
    assert world.state_of("m1") == "delivered"


def test_a_busy_agent_is_waited_for_and_told_about_after_15_minutes_once() -> None:
    """[gascity #5317; agent-deck #387] A busy agent was never tried again, or a notifier interrupted its work."""
    world = panes()
    world.on_tell["worker"] = lambda order: [ev.EndpointAway(order.key, "it works", order.attempt, ev.Absence.BUSY)]
    world.send(make_message("m1"))
    world.wait(899)
    assert (world.facts("notice"), len(world.told("worker"))) == ([], 1)
    world.wait(4000)
    assert ([d["cause"] for d in world.facts("notice")], world.facts("escalation")) == (["busy"], [])
    del world.on_tell["worker"]
    world.tell(ev.AgentReady("worker", "its prompt is there"))
    assert (world.state_of("m1"), world.delivery("m1").retries) == ("delivered", 0)


# --- signs of life ----------------------------------------------------------------------------------------------------
def test_a_working_agent_that_shows_life_is_never_asked() -> None:
    """[agent-deck #2348] Heartbeats that cost the agent a turn, 221 million tokens in a day."""
    world = processes()
    take(world)
    for _ in range(100):
        world.tell(ev.SignOfLife("worker", "it printed"))
        world.wait(100)
    assert (done(world, fx.ProbeAgent), done(world, fx.NudgeAgent)) == ([], [])


def test_an_agent_without_work_owes_nobody_a_sign() -> None:
    world = processes()
    take(world)
    world.says("done", "m1")
    world.wait(10_000)
    assert done(world, fx.ProbeAgent) == []


def test_a_quiet_one_is_asked_and_an_answer_is_enough() -> None:
    world = processes()
    take(world)
    world.wait(119)
    assert world.facts("probe") == []
    world.wait(1)
    assert world.fact("probe")["text"] == "Status check: are you still working on m1?"
    assert world.agent("worker").vital is Vital.SUSPECT
    world.tell(ev.SignOfLife("worker", "it printed"))
    assert world.agent("worker").vital is Vital.ALIVE
    world.wait(119)
    assert len(world.facts("probe")) == 1
    world.wait(2)
    assert len(world.facts("probe")) == 2


def test_a_probe_that_could_not_be_made_is_no_probe() -> None:
    """The probe is made again. Only an agent that can never be asked, and shows no life, hangs after busy_timeout_s."""
    world = processes()
    take(world)
    world.wait(120)
    key = world.delivery("m1").key
    world.tell(ev.NotProbed(key, "its stdin is full", 1))
    world.wait(60)
    assert (len(world.facts("probe")), done(world, fx.RestartAgent)) == (2, [])
    world.tell(ev.SignOfLife("worker", "it printed"))
    world.wait(120)
    for _ in range(13):
        assert done(world, fx.RestartAgent) == []
        world.tell(ev.NotProbed(key, "its stdin is full", 1))
        world.wait(60)
    assert len(done(world, fx.RestartAgent)) == 1
    assert world.fact("message_retry")["reason"] == "no sign of life in 900 s, nor could it be asked"


def test_a_pane_is_never_asked() -> None:
    """A status check would cost a model's turn, and nobody would read the answer."""
    world = panes()
    take(world)
    world.wait(10_000)
    assert done(world, fx.ProbeAgent) == []


def test_a_pane_whose_telling_is_under_way_stands_on_no_ladder() -> None:
    """The message was seen before the telling was answered, and then the pane was quiet: the telling has a timer of its
    own."""
    world = panes()
    world.on_tell["worker"] = lambda _order: []
    world.send(make_message("m1"))
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"))
    world.wait(290)
    assert (world.state_of("m1"), world.agent("worker").ladder) == ("processing", None)
    assert world.facts("nudge") == world.facts("probe") == []
    world.wait(20)
    assert world.fact("message_retry")["reason"] == "could not be told within 300 s"


def test_a_child_that_hangs_is_restarted_and_its_work_offered_again_counted() -> None:
    world = processes()
    take(world)
    world.wait(180)
    assert len(done(world, fx.RestartAgent)) == 1
    assert world.delivery("m1").retries == 1
    world.wait(300)
    assert world.told("worker") == ["m1", "m1"]


def test_a_child_that_hangs_on_every_try_ends_in_a_dead_letter() -> None:
    world = processes()
    world.on_tell["worker"] = lambda order: [ev.Told(order.key, "assign written", seen=True, attempt=order.attempt)]
    world.send(make_message("m1"))
    world.wait(5000)
    assert (world.folder_of("m1"), len(done(world, fx.RestartAgent))) == (Folder.DEAD, 4)


def test_a_paused_agent_is_not_asked() -> None:
    world = processes()
    take(world)
    world.tell(ev.AgentPaused("worker"))
    world.wait(1000)
    assert done(world, fx.ProbeAgent) == []
    world.tell(ev.AgentResumed("worker"))
    world.wait(240)
    assert done(world, fx.ProbeAgent) != []


def test_a_restart_does_not_wake_who_has_taken_its_message() -> None:
    world = panes()
    world.send(make_message("m1"))
    world.wait(5)
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"))
    world.restart(away_s=1000)
    world.wait(600)
    assert (world.facts("nudge"), world.facts("probe")) == ([], [])


# --- words ------------------------------------------------------------------------------------------------------------
def test_the_first_word_about_a_task_is_proof_that_it_was_seen() -> None:
    world = processes()
    world.send(make_message("m1"))
    world.tell(ev.WorkerSaid("worker", world.delivery("m1").key, step="reading", attempt=1))
    assert (world.delivery("m1").seen, world.fact("message_seen")["evidence"]) == (True, "its worker speaks of it")


def test_progress_is_a_line() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, progress=Progress(stage="2/5", percent=40, message="tests")))
    said = world.fact("progress")
    assert (said["from"], said["percent"], said["message"]) == ("worker", 40, "tests")


def test_words_of_an_earlier_attempt_are_signs_of_life_and_no_more() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.99, attempt=7), ev.CheckpointCame(key, attempt=7))
    world.tell(ev.WorkBlocked(key, "no key", attempt=7))
    assert [world.facts(t) for t in ("context_threshold", "checkpoint", "work_blocked")] == [[], [], []]


@pytest.mark.parametrize(
    ("blocker", "to"), [("runner", "runner"), ("TASK-9", "leader"), (None, "leader"), ("worker", "leader")]
)
def test_a_blocked_worker_is_told_of_to_its_blocker_or_to_who_leads(blocker: str | None, to: str) -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkBlocked(key, "needs the schema", blocker))
    assert (world.fact("escalation")["cause"], world.fact("escalation")["to"]) == ("blocked", to)
    assert world.agent("worker").worker.value == "blocked"


# --- a full context ---------------------------------------------------------------------------------------------------
def test_a_full_context_is_handed_over_with_a_checkpoint_uncounted() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.69, attempt=1))
    assert world.facts("context_threshold") == []
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.70, attempt=1))
    assert world.fact("context_threshold")["usage"] == 0.7
    assert (len(done(world, fx.AskCheckpoint)), world.agent("worker").worker.value) == (1, "waiting")
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.75, attempt=1))
    world.tell(ev.CheckpointCame(key, attempt=1))
    order = [type(e).__name__ for e in world.done if isinstance(e, fx.RenewAgent | fx.TellAgent)]
    assert order == ["TellAgent", "RenewAgent", "TellAgent"]
    assert (world.delivery("m1").retries, world.delivery("m1").tells) == (0, 2)
    assert len(done(world, fx.AskCheckpoint)) == 1


def test_a_worker_that_hands_over_by_itself_is_not_asked() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.CheckpointCame(key, attempt=1, context_usage=0.8))
    assert (done(world, fx.AskCheckpoint), len(done(world, fx.RenewAgent))) == ([], 1)


def test_one_that_writes_nothing_down_is_replaced_all_the_same() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.9, attempt=1))
    world.wait(59)
    assert done(world, fx.RenewAgent) == []
    world.wait(1)
    assert (len(done(world, fx.RenewAgent)), world.delivery("m1").retries) == (1, 1)
    world.wait(30)
    assert len(world.told("worker")) == 2


def test_a_worker_that_never_gets_to_a_checkpoint_does_not_hand_over_for_ever() -> None:
    world = processes()

    def fills_up(order: fx.TellAgent) -> list[ev.Event]:
        told = ev.Told(order.key, "assign written", attempt=order.attempt)
        return [told, ev.WorkerSaid("worker", order.key, context_usage=0.9, attempt=order.attempt)]

    world.on_tell["worker"] = fills_up
    world.send(make_message("m1"))
    world.wait(5000)
    assert (world.folder_of("m1"), len(done(world, fx.RenewAgent))) == (Folder.DEAD, 4)


def test_a_checkpoint_that_nobody_asked_for_changes_nothing() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.CheckpointCame(key))
    assert (len(world.facts("checkpoint")), done(world, fx.RenewAgent), world.state_of("m1")) == (1, [], "delivered")


def test_work_that_is_finished_before_the_hand_over_is_finished_and_the_next_gets_a_fresh_worker() -> None:
    world = processes()
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.9, attempt=1))
    world.ends("m1", ev.Outcome.DONE, "complete", attempt=1)
    world.wait(60)
    assert (world.folder_of("m1"), len(done(world, fx.RenewAgent))) == (Folder.ARCHIVE, 1)


def test_a_screen_that_shows_a_full_context_is_about_what_was_taken_and_no_proof_of_it() -> None:
    world = panes()
    world.send(make_message("m1"))
    world.tell(ev.WorkerSaid("worker", context_usage=0.9))
    assert (world.delivery("m1").seen, world.facts("context_threshold")) == (False, [])
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"), ev.WorkerSaid("worker", context_usage=0.91))
    assert world.fact("context_threshold")["message_id"] == "m1"


def test_a_full_context_is_handed_over_after_a_restart_of_ours_too() -> None:
    world = panes()
    world.send(make_message("m1"))
    world.says("ack", "m1")
    world.wait(1)
    world.restart(away_s=5)
    world.tell(ev.WorkerSaid("worker", context_usage=0.9))
    assert len(done(world, fx.AskCheckpoint)) == 1


def test_a_threshold_of_its_own() -> None:
    world = World({**TEAM, "worker": (replace(PROCESS, context_threshold=0.5), "process")})
    key = take(world)
    world.tell(ev.WorkerSaid("worker", key, context_usage=0.5, attempt=1))
    assert world.fact("context_threshold")["threshold"] == 0.5
