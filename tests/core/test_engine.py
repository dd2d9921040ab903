"""The engine as a whole: sentences of behaviour, without disk, clock or sleep."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.delivery import State
from ackd.core.engine import OFFERS_AT_ONCE, Engine
from ackd.core.message import MONITOR, USER, Folder, Priority
from ackd.core.policy import EnginePolicy
from tests.core.engine_world import EXEC, PANE, TEAM, World, make_message


# --- the healthy and the silent -------------------------------------------------------------------------------------------
def test_a_healthy_agent_that_takes_40_minutes_and_acks_only_by_deleting_its_file_is_left_in_peace() -> None:
    """[relay #1339] A retry budget of 17 s against workers that are busy for minutes dropped messages
    silently."""
    world = World()
    world.send(make_message("m1", type="task_assignment"))
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"))
    world.wait(40 * 60)
    assert world.state_of("m1") == "delivered"
    world.deletes("m1")
    assert world.told("worker") == ["m1"]
    assert (world.facts("nudge"), world.facts("message_retry"), world.facts("message_dead")) == ([], [], [])
    assert (world.sent, world.facts("escalation")) == ([], [])
    done = world.fact("message_completed")
    assert (done["by"], done["seconds"]) == ("file deleted by its agent", 2400.0)
    assert len(world.facts("task_complete")) == 1


def test_sent_is_never_reported_for_received() -> None:
    world = World()
    world.on_tell["worker"] = lambda order: []
    world.send(make_message("m1"))
    assert world.lines_about("m1") == ["message_queued", "message_claimed"]


# --- retries --------------------------------------------------------------------------------------------------------------
def test_the_dead_letter_limit_is_reached_after_exactly_retry_limit_retries() -> None:
    """[IGNITE] The retry count was read from one place and written to another, so retries ran
    for ever."""
    world = World()
    world.on_tell["runner"] = lambda order: [ev.NotTold(order.key, "could not start")]
    world.send(make_message("m1", "runner"))
    world.wait(10_000)
    assert world.told("runner") == ["m1"] * 4
    assert [(d["retry_count"], d["delay_s"]) for d in world.facts("message_retry")] == [(1, 5), (2, 10), (3, 20)]
    assert world.fact("message_dead")["retry_count"] == 3


def test_the_limit_is_the_same_when_the_daemon_is_restarted_after_every_failure() -> None:
    world = World()
    world.on_tell["runner"] = lambda order: [ev.NotTold(order.key, "could not start")]
    world.send(make_message("m1", "runner"))
    for _ in range(6):
        world.restart(away_s=1)
        world.wait(400)
    assert (world.told("runner"), world.folder_of("m1")) == (["m1"] * 4, Folder.DEAD)
    assert [d["retry_count"] for d in world.facts("message_retry")] == [1, 2, 3]


def test_a_restart_for_every_failure_counts_failures_in_the_header_only() -> None:
    world = World()
    counts = []
    world.send(make_message("m1", "runner"))
    for _ in range(4):
        world.ends("m1", ev.Outcome.FAILED)
        if world.folder_of("m1") is Folder.DEAD:
            break
        counts.append(world.files[world.place_of("m1")].headers["X-IGNITE-Retry-Count"])
        world.restart(away_s=400)
        world.wait(1)
    assert (counts, world.folder_of("m1")) == (["1", "2", "3"], Folder.DEAD)


def test_a_failure_does_not_come_back_at_once() -> None:
    """[relay #1300] Requeueing without delay or cap made a hot loop."""
    world = World({**TEAM, "runner": (replace(EXEC, retry_limit=12), "exec")})
    world.on_tell["runner"] = lambda order: [ev.NotTold(order.key, "?")]
    world.send(make_message("m1", "runner"))
    world.wait(100_000)
    delays = [d["delay_s"] for d in world.facts("message_retry")]
    assert delays == [5, 10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300]


@pytest.mark.parametrize("late", [ev.Told, ev.NotTold, ev.EndpointAway])
def test_an_answer_that_comes_after_its_time_is_not_taken_for_the_next(
    late: type[ev.Told | ev.NotTold | ev.EndpointAway],
) -> None:
    """A telling hangs for longer than processing_timeout_s, and is answered while the message is told again."""
    world = World()
    orders: list[fx.TellAgent] = []

    def hang(order: fx.TellAgent) -> list[ev.Event]:
        orders.append(order)
        return []

    world.on_tell["runner"] = hang
    world.send(make_message("m1", "runner"))
    world.wait(300 + 300)
    first, second = orders[:2]
    delivery = world.delivery("m1")
    assert (delivery.state, delivery.tells) == (State.PROCESSING, second.attempt)
    retries = delivery.retries
    world.tell(late(first.key, "late", attempt=first.attempt))
    assert (delivery.state, delivery.retries) == (State.PROCESSING, retries)
    assert not world.facts("message_told", "agent_state")
    world.tell(ev.Told(second.key, "typed", attempt=second.attempt))
    assert delivery.state is State.DELIVERED


# --- order and window -------------------------------------------------------------------------------------------------------
def test_a_telling_that_waited_until_it_was_given_up_is_not_wanted_any_more() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1"))))
    world.work("worker")
    world.deliver()
    (first,) = [effect for effect in world.lanes["worker"] if isinstance(effect, fx.TellAgent)]
    assert world.engine.is_wanted(first)
    world.mono += 301
    world.handle(ev.Ticked())
    assert not world.engine.is_wanted(first)
    world.settle()
    world.wait(10)
    second = [effect for effect in world.done if isinstance(effect, fx.TellAgent)][-1]
    assert second.attempt == 2
    assert world.engine.is_wanted(second)
    assert not world.engine.is_wanted(first)
    world.says("done", "m1", "worker")
    assert not world.engine.is_wanted(second)


def test_critical_comes_first_and_low_becomes_as_urgent_as_high_in_time() -> None:
    """[IGNITE] Order by file name put type before time; priority was parsed and never used."""
    world = World()
    world.tell(ev.AgentPaused("worker"))
    for name, priority, age_s in (
        ("low", Priority.LOW, 0),
        ("normal", Priority.NORMAL, 0),
        ("high", Priority.HIGH, 0),
        ("old low", Priority.LOW, 601),
        ("critical", Priority.CRITICAL, 0),
    ):
        world.send(make_message(name, priority=priority), age_s=age_s)
    world.on_tell["worker"] = lambda order: [
        ev.Told(order.key, "typed"),
        ev.RunEnded(order.key, ev.Outcome.DONE, "done", order.attempt),
    ]
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["critical", "old low", "high", "normal", "low"]


def test_no_more_than_max_in_flight_are_in_an_agents_hands() -> None:
    world = World({**TEAM, "worker": (replace(PANE, max_in_flight=2), "tmux")})
    for number in range(5):
        world.send(make_message(f"m{number}"))
    assert world.told("worker") == ["m0", "m1"]
    world.says("ack", "m0")
    assert world.told("worker") == ["m0", "m1"]
    world.says("done", "m1")
    assert world.told("worker") == ["m0", "m1", "m2"]


def test_a_slow_agent_delays_nobody_else() -> None:
    """[IGNITE] Dispatch to one slow agent blocked the loop for all."""
    world = World({**TEAM, "other": (PANE, "tmux")})
    world.handle(world.arrival(world.drop(make_message("slow", "worker"))))
    world.handle(world.arrival(world.drop(make_message("quick", "other"))))
    while world.lanes["other"] or world.answers:
        if world.answers:
            world.deliver()
        else:
            world.work("other")
    assert (world.state_of("quick"), world.state_of("slow")) == ("delivered", "claiming")


def test_a_queue_of_ten_thousand_drops_nothing_and_is_offered_in_portions() -> None:
    """[gastown #4634] A queue bounded at 50 dropped older entries and hid a P0 for 24 h."""
    world = World()
    world.tell(ev.AgentPaused(USER))
    for number in range(1000):
        world.handle(world.arrival(world.drop(make_message(f"m{number}", USER))))
    asked = world.handle(ev.AgentResumed(USER))
    assert len([e for e in asked if isinstance(e, fx.ClaimMessage)]) == OFFERS_AT_ONCE
    assert world.engine.next_deadline() == world.mono
    world.settle()
    world.wait(0.04)
    assert len(world.told(USER)) == 1000


# --- runs -------------------------------------------------------------------------------------------------------------------
def test_exit_0_completes() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.DONE, "exit status 0", attempt=1)
    assert (world.folder_of("m1"), world.fact("message_completed")["by"]) == (Folder.ARCHIVE, "exit status 0")


def test_a_run_that_is_over_before_its_telling_was_answered_was_told() -> None:
    world = World()
    world.on_tell["runner"] = lambda order: [
        ev.RunEnded(order.key, ev.Outcome.DONE, "exit status 0", order.attempt),
        ev.Told(order.key, "it runs", seen=True),
    ]
    world.send(make_message("m1", "runner"))
    lines = [t for t in world.lines_about("m1") if t.startswith("message_")]
    assert lines == ["message_queued", "message_claimed", "message_told", "message_completed"]


def _answered_with(words: list[ev.Told | ev.RunEnded], order: fx.TellAgent) -> list[ev.Event]:
    return [replace(word, key=order.key) for word in words]


@pytest.mark.parametrize("outcome", list(ev.Outcome))
def test_an_end_that_says_that_it_was_told_stands_for_both(outcome: ev.Outcome) -> None:
    """The log is line by line the same as when the two events come apart."""
    stories = []
    for together in (True, False):
        world = World()
        end = ev.RunEnded(0, outcome, "its words", 1, told="called" if together else "")
        said: list[ev.Told] = [] if together else [ev.Told(0, "called", seen=True, attempt=1)]
        world.on_tell["runner"] = partial(_answered_with, [*said, end])
        world.send(make_message("m1", "runner"))
        stories.append([(line, world.facts(line, "m1")) for line in world.lines_about("m1")])
    assert stories[0] == stories[1]
    assert "message_seen" in [line for line, _ in stories[0]]


def test_an_ack_that_was_quicker_than_the_end_leaves_the_telling_written_down() -> None:
    world = World()
    world.on_tell["runner"] = lambda _order: []
    world.send(make_message("m1", "runner"))
    world.says("ack", "m1", "runner")
    world.tell(ev.RunEnded(world.delivery("m1").key, ev.Outcome.DONE, "returned", 1, told="called"))
    assert world.fact("message_told")["proof"] == "called"
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_a_script_that_defers_and_then_exits_0_has_deferred() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.says("defer", "m1", "runner")
    world.ends("m1", ev.Outcome.DONE, "exit status 0", attempt=1)
    assert (world.state_of("m1"), world.facts("message_completed")) == ("retrying", [])


def test_the_end_of_an_earlier_attempt_says_nothing_about_this_one() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.FAILED, attempt=1)
    world.wait(5)
    world.ends("m1", ev.Outcome.DONE, attempt=1)
    assert world.state_of("m1") == "delivered"
    world.ends("m1", ev.Outcome.DONE, attempt=2)
    assert world.folder_of("m1") is Folder.ARCHIVE


@pytest.mark.parametrize(
    ("outcome", "folder", "counted"),
    [
        (ev.Outcome.FAILED, Folder.PROCESSED, [True]),
        (ev.Outcome.DEFERRED, Folder.PROCESSED, [True]),
        (ev.Outcome.REFUSED, Folder.DEAD, []),
        (ev.Outcome.STOPPED, Folder.PROCESSED, [False]),
    ],
)
def test_what_each_outcome_of_a_run_means(outcome: ev.Outcome, folder: Folder, counted: list[bool]) -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", outcome, "its words", attempt=1)
    assert world.folder_of("m1") is folder
    assert [d["counted"] for d in world.facts("message_retry")] == counted


def test_complete_then_reported_failed_stays_complete() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.handle(ev.ReceiptCame(world.receipt("done", "m1", "runner")))
    world.handle(ev.RunEnded(world.delivery("m1").key, ev.Outcome.FAILED, "exit status 1", 1))
    world.settle()
    assert (world.folder_of("m1"), world.facts("message_retry")) == (Folder.ARCHIVE, [])


# --- stopping ---------------------------------------------------------------------------------------------------------------
def test_after_a_stop_is_asked_for_nothing_more_is_offered() -> None:
    world = World()
    world.tell(ev.StopRequested())
    world.send(make_message("m1"))
    world.wait(1000)
    assert (world.told("worker"), world.folder_of("m1")) == ([], Folder.QUEUE)


def test_what_was_told_a_moment_before_a_stop_is_written_down_and_not_told_again() -> None:
    world = World()
    world.send(make_message("m1"))
    world.tell(ev.StopRequested())
    assert world.files[world.place_of("m1")].headers["X-IGNITE-Status"] == "delivered"
    world.restart(away_s=10)
    world.wait(1)
    assert (world.told("worker"), world.state_of("m1")) == (["m1"], "delivered")


def test_an_endpoint_that_stops_with_us_is_not_away() -> None:
    world = World()
    world.handle(world.arrival(world.drop(make_message("m1", "runner"))))
    world.on_tell["runner"] = lambda order: [ev.EndpointAway(order.key, "stopping")]
    world.tell(ev.StopRequested())
    assert (world.facts("escalation"), world.facts("agent_state")) == ([], [])
    assert world.fact("message_retry")["counted"] is False


def test_what_a_stop_ends_is_offered_again_by_the_next_daemon_uncounted() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.tell(ev.StopRequested())
    world.ends("m1", ev.Outcome.STOPPED, "daemon stopped", attempt=1)
    assert world.files[world.place_of("m1")].headers["X-IGNITE-Status"] == "retrying"
    world.restart(away_s=10)
    world.wait(0.25)
    assert (world.told("runner"), world.delivery("m1").retries) == (["m1", "m1"], 0)


# --- the seeds' lines ---------------------------------------------------------------------------------------------------------
def test_a_task_is_assigned_started_completed_and_released() -> None:
    world = World()
    world.send(make_message("m1", type="task_assignment", task_id="t7"))
    world.says("ack", "m1")
    world.says("done", "m1")
    seeds = ("worker_assign", "worker_release", "task_start", "task_complete", "task_failed")
    assert [t for t in world.lines_about("m1") if t in seeds] == [
        "worker_assign",
        "task_start",
        "task_complete",
        "worker_release",
    ]
    assert {world.fact(t)["task_id"] for t in seeds[:4]} == {"t7"}


def test_a_task_that_is_refused_has_failed() -> None:
    world = World()
    world.send(make_message("m1", type="task_assignment"))
    world.says("refuse", "m1", reason="no")
    assert world.fact("task_failed")["reason"] == world.fact("worker_release")["reason"] == "ackd refuse: no"


def test_a_review_starts_when_it_is_told_and_its_result_is_the_report() -> None:
    world = World()
    world.send(make_message("m1", type="evaluation_request", task_id="t7"))
    assert world.fact("review_start")["message_id"] == "m1"
    world.send(make_message("r1", "leader", sender="worker", type="evaluation_result", in_reply_to="m1", task_id="t7"))
    result = world.fact("review_result")
    assert (result["message_id"], result["from"], result["task_id"]) == ("r1", "worker", "t7")
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_what_lies_in_an_inbox_is_nobodys_work_until_it_is_seen() -> None:
    world = World()
    world.send(make_message("m1", "leader"))
    assert "worker_assign" not in world.lines_about("m1")
    world.says("seen", "m1", "leader")
    world.says("ack", "m1", "leader")
    world.says("done", "m1", "leader")
    assert [t for t in world.lines_about("m1") if t.startswith("worker_")] == ["worker_assign", "worker_release"]


def test_a_retry_on_disk_lets_go_of_what_its_run_left_behind() -> None:
    """Otherwise a restart would find the failed run beside the counted failure, and count it again."""
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.FAILED)
    written = [e for e in world.done if isinstance(e, fx.WriteStatus) and ("X-IGNITE-Status", "retrying") in e.headers]
    assert [effect.ends_run for effect in written] == [True]


def test_recovery_is_over_when_it_is_said_to_be() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.restart()
    assert world.told("runner") == ["m1"]
    world.tell(ev.RecoveryEnded())
    assert world.told("runner") == ["m1", "m1"]


def test_a_plain_message_is_no_task_and_no_review() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("done", "m1")
    assert not {"task_start", "task_complete", "review_start"} & set(world.lines_about("m1"))


def test_no_line_carries_null() -> None:
    world = World()
    world.send(make_message("m1", type="task_assignment"))
    world.says("refuse", "m1")
    world.wait(10_000)
    assert not [(t, d) for t, d in world.log if None in d.values()]


# --- the engine itself --------------------------------------------------------------------------------------------------------
def test_an_answer_about_a_message_that_has_ended_is_dropped() -> None:
    world = World()
    world.send(make_message("m1"))
    key = world.delivery("m1").key
    world.says("done", "m1")
    for late in (ev.Told(key, "?"), ev.Seen(key, "?"), ev.Claimed(key, world.place_of("m1")), ev.MoveLost(key)):
        assert world.handle(late) == []


def test_the_same_events_give_the_same_effects() -> None:
    """The engine is pure: chance comes with the constructor, time with each event."""

    def run() -> list[fx.Effect]:
        engine, asked = Engine(EnginePolicy(), random.Random(7)), []
        world = World()
        for name, (policy, endpoint) in TEAM.items():
            asked += engine.handle(ev.AgentJoined(name, policy, endpoint), world.now)
        for number in range(20):
            place = world.drop(make_message(f"m{number}", sorted(TEAM)[number % 5]))
            asked += engine.handle(world.arrival(place), world.now)
        return asked

    assert run() == run()


def test_nothing_is_waited_for_when_there_is_nothing() -> None:
    assert World().engine.next_deadline() is None


def test_totals_count_every_end() -> None:
    world = World()
    for number in range(4):
        world.send(make_message(f"m{number}"))
    world.says("done", "m0")
    world.says("refuse", "m1")
    world.send(make_message("m2"))
    world.deletes("m3")
    totals = world.engine.state.totals
    assert (totals.completed, totals.dead, totals.duplicates, totals.withdrawn) == (1, 1, 1, 1)


def test_a_busy_team_leaves_nothing_behind() -> None:
    """Every message ends once, and the engine forgets all of them."""
    world = World()
    world.on_tell["runner"] = lambda order: [
        ev.Told(order.key, "it runs", seen=True),
        ev.RunEnded(order.key, ev.Outcome.DONE, "exit status 0", order.attempt),
    ]
    for number in range(200):
        world.send(make_message(f"m{number}", ("runner", MONITOR)[number % 2]))
    assert Counter(t for t, _ in world.log)["message_completed"] == 200
    assert (len(world.engine.state.deliveries), len(world.engine.state.timers)) == (0, 0)


# --- hardly any room ------------------------------------------------------------------------------------------------
def test_while_there_is_hardly_any_room_what_is_in_hand_goes_on_and_nothing_is_taken_up() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.tell(ev.RoomLow())
    for name, to in (("m2", "runner"), ("m3", "worker"), ("m4", "leader")):
        world.send(make_message(name, to))
    world.handle(ev.RunEnded(world.delivery("m1").key, ev.Outcome.DONE, "exit 0", 1))
    world.settle()
    world.wait(1000)
    assert world.folder_of("m1") == Folder.ARCHIVE
    assert [world.folder_of(name) for name in ("m2", "m3", "m4")] == [Folder.QUEUE] * 3
    world.tell(ev.RoomBack())
    world.settle()
    assert [world.folder_of(name) for name in ("m2", "m3", "m4")] == [Folder.PROCESSED] * 3
    assert world.told("runner") == ["m1", "m2"]
