"""Agents whose screens say what they do: idle with work in hand, waiting for others, busy without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.coordination.ensemble.rules import plain_words
from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.availability import AgentState
from ackd.core.idleness import Doing
from ackd.core.message import MONITOR, Folder
from ackd.core.waits import Wait
from tests.core.engine_world import EXEC, INBOX, TEAM, WATCHED_PANE, World, make_message

TWO = replace(WATCHED_PANE, max_in_flight=2)


def panes() -> World:
    return World({**TEAM, "worker": (WATCHED_PANE, "tmux")})


def shows(world: World, doing: Doing, agent: str = "worker") -> None:
    world.tell(ev.AgentShowed(agent, doing))


def take(world: World, message_id: str = "m1", *, acked: bool = False, **differs: str) -> None:
    """Send a message, which is told and taken; its agent has gone busy on it, and is back at its prompt."""
    agent = differs.setdefault("to", "worker")
    world.send(make_message(message_id, **differs))  # type: ignore[arg-type]
    world.tell(ev.Seen(world.delivery(message_id).key, "the pane went busy"))
    shows(world, Doing.BUSY, agent)
    if acked:
        world.says("ack", message_id, agent)
    shows(world, Doing.IDLE, agent)


def reminders(world: World) -> list[str]:
    return [effect.message.message_id for effect in world.done if isinstance(effect, fx.RemindAgent)]


def done(world: World, kind: type[fx.Effect]) -> list[fx.Effect]:
    return [effect for effect in world.done if isinstance(effect, kind)]


# --- seen, never finished ---------------------------------------------------------------------------------------------
def test_seen_and_never_finished_is_reminded_of_twice_then_told_of_and_mail_behind_it_flows() -> None:
    world = panes()
    take(world)
    world.send(make_message("m2"))
    world.wait(59)
    assert reminders(world) == []
    world.wait(1)
    assert reminders(world) == ["m1"]
    world.wait(60)
    assert (reminders(world), world.facts("escalation")) == (["m1", "m1"], [])
    world.wait(60)
    assert world.fact("escalation")["cause"] == "idle"
    assert world.told("worker") == ["m1", "m2"]
    assert (done(world, fx.NudgeAgent), done(world, fx.ProbeAgent)) == ([], [])


def test_it_is_dead_as_unfinished_after_its_idle_time_without_a_rung_and_a_late_completion_counts() -> None:
    world = panes()
    take(world)
    world.wait(1799)
    assert world.state_of("m1") == "delivered"
    world.wait(1)
    assert world.folder_of("m1") is Folder.DEAD
    reason = str(world.fact("message_dead")["reason"])
    assert reason == "unfinished: its agent was idle for 1800 s in all since it saw it; it may have been done"
    assert (world.agent("worker").state, done(world, fx.NudgeAgent)) == (AgentState.AVAILABLE, [])
    assert [d["cause"] for d in world.facts("escalation")] == ["idle", "unfinished"]
    assert reminders(world) == ["m1", "m1"]
    world.dig_up("done", "m1", "worker")
    assert world.fact("message_completed")["late"] is True


def test_a_message_that_was_dug_up_and_lies_idle_again_is_another_escalation() -> None:
    world = panes()
    take(world)
    world.wait(1800)
    world.dig_up("requeue", "m1", "worker")
    world.tell(ev.Seen(world.delivery("m1").key, "the pane went busy"))
    shows(world, Doing.IDLE)
    world.wait(180)
    ids = [one.draft.message_id for one in world.mail("escalation") if one.draft.body["cause"] == "idle"]
    assert (len(ids), len(set(ids))) == (2, 2)


def test_who_acknowledged_it_has_twice_the_time_since_the_ack() -> None:
    world = panes()
    take(world)
    world.wait(50)
    world.says("ack", "m1")
    world.wait(3599)
    assert world.state_of("m1") == "acked"
    world.wait(1)
    assert world.folder_of("m1") is Folder.DEAD


def test_an_answer_restarts_the_idle_clock_and_there_are_still_two_reminders_in_all() -> None:
    world = panes()
    take(world)
    world.wait(60)
    for number in range(3):  # a message of its own, twice; then a checkpoint
        world.wait(50)
        if number < 2:
            world.send(make_message(f"note{number}", "leader", sender="worker", type="progress_update"))
        else:
            world.tell(ev.CheckpointCame(world.delivery("m1").key))
    assert (len(reminders(world)), world.facts("escalation")) == (1, [])
    world.wait(60)
    assert len(reminders(world)) == 2
    world.wait(59)
    world.says("ack", "m1")
    world.wait(59)
    assert world.facts("escalation") == []
    world.wait(1)
    assert (len(reminders(world)), [d["cause"] for d in world.facts("escalation")]) == (2, ["idle"])


def test_going_busy_alone_is_no_answer() -> None:
    """Each reminder costs a model's turn: there is not one more because the agent took one."""
    world = panes()
    take(world)
    for _ in range(4):
        world.wait(61)
        shows(world, Doing.BUSY)
        world.wait(10)
        shows(world, Doing.IDLE)
    assert (len(reminders(world)), [d["cause"] for d in world.facts("escalation")]) == (2, ["idle"])


def test_who_shows_signs_of_life_or_uses_processor_time_is_not_idle() -> None:
    world = panes()
    take(world)
    for _ in range(100):
        world.wait(50)
        world.tell(ev.SignOfLife("worker", "2.10 s of CPU time"))
    assert (reminders(world), world.facts("escalation")) == ([], [])
    assert world.delivery("m1").idled.idle_s == 0


def test_who_is_at_work_is_not_idle() -> None:
    world = panes()
    take(world)
    shows(world, Doing.BUSY)
    world.wait(800)
    assert (reminders(world), world.facts("escalation"), world.facts("notice")) == ([], [], [])


def test_a_message_that_is_not_taken_is_the_ladders() -> None:
    world = panes()
    world.send(make_message("m1"))
    shows(world, Doing.IDLE)
    world.wait(61)
    assert (reminders(world), [d["rung"] for d in world.facts("nudge")]) == ([], [1])


@pytest.mark.parametrize("made_at_last", [False, True])
def test_a_reminder_that_could_not_be_typed_is_none_and_one_that_never_can_be_is_told_of(made_at_last: bool) -> None:
    world = panes()
    made = world.on_remind
    world.on_remind = lambda order: ev.Reminded(order.key, made=False, detail="text stood there", attempt=order.attempt)
    take(world)
    world.wait(120)
    assert (len(reminders(world)), world.delivery("m1").idled.reminders) == (2, 0)
    if made_at_last:
        world.on_remind = made
    world.wait(60)
    assert [d["cause"] for d in world.facts("escalation")] == ([] if made_at_last else ["idle"])
    assert world.delivery("m1").idled.reminders == int(made_at_last)


def test_a_reminder_whose_message_went_meanwhile_keeps_its_agent_from_no_other() -> None:
    world = World({**TEAM, "worker": (TWO, "tmux")})
    take(world, "m1")
    take(world, "m2")
    world.on_remind = lambda order: ev.AgentShowed("worker", Doing.IDLE)  # still being typed
    world.wait(60)
    (order,) = (effect for effect in world.done if isinstance(effect, fx.RemindAgent))
    world.deletes("m1")
    world.on_remind = World().on_remind
    world.tell(ev.Reminded(order.key, made=True, detail="typed", attempt=order.attempt))
    shows(world, Doing.IDLE)
    world.wait(180)
    assert reminders(world) == ["m1", "m2", "m2"]
    assert world.fact("escalation")["cause"] == "idle"


def test_the_counts_are_on_disk_and_a_restart_does_not_begin_anew() -> None:
    world = panes()
    take(world)
    world.wait(60)
    assert world.files[world.place_of("m1")].headers["X-IGNITE-Idle"] == "reminders=1 seconds=60"
    world.restart(away_s=5)
    shows(world, Doing.IDLE)
    world.wait(60)
    assert len(reminders(world)) == 2
    world.restart(away_s=5)
    shows(world, Doing.IDLE)
    world.wait(60)
    assert [d["cause"] for d in world.facts("escalation")] == ["idle"]
    world.restart(away_s=5)  # it is out of the window, and stays so
    shows(world, Doing.IDLE)
    world.send(make_message("m2"))
    world.wait(200)
    assert (world.told("worker"), len(reminders(world))) == (["m1", "m2"], 2)
    assert len(world.facts("escalation")) == 1


def test_the_idle_time_is_summed_over_restarts() -> None:
    world = panes()
    take(world)
    for _ in range(6):
        world.wait(299)
        world.tell(ev.StopRequested())
        world.restart(away_s=1000)
        shows(world, Doing.IDLE)
    assert world.state_of("m1") == "delivered"
    world.wait(70)
    assert world.folder_of("m1") is Folder.DEAD


def test_a_crash_costs_a_share_of_the_sum() -> None:
    world = panes()
    take(world)
    world.wait(1200)
    before = world.delivery("m1").idled
    world.restart(away_s=10)
    after = world.delivery("m1").idled
    assert (after.told, after.reminders, before.told) == (True, 2, True)
    assert after.idle_s >= 1200 - 1800 / 4 - 60


def test_a_new_telling_begins_anew() -> None:
    world = panes()
    take(world)
    world.wait(120)
    world.says("defer", "m1")
    assert "X-IGNITE-Idle" not in world.files[world.place_of("m1")].headers
    world.wait(10)
    assert world.delivery("m1").idled.reminders == 0


def test_who_has_two_messages_is_reminded_of_one_at_a_time() -> None:
    world = World({**TEAM, "worker": (TWO, "tmux")})
    take(world, "m1")
    take(world, "m2")
    world.wait(60)
    assert reminders(world) == ["m1"]
    world.wait(60 * 5)
    assert reminders(world) == ["m1", "m1", "m2", "m2"]
    assert [d["message_id"] for d in world.facts("escalation")] == ["m1", "m2"]


def test_a_ladder_that_waits_for_acknowledged_work_and_that_work_do_not_wait_for_each_other() -> None:
    """Found by the simulation: no rung 2 for one that holds acked work, no reminder for one that stands on a ladder."""
    world = World({**TEAM, "worker": (TWO, "tmux")})
    take(world, acked=True)
    world.send(make_message("m2"))
    shows(world, Doing.IDLE)
    world.wait(3 * 3600)
    assert reminders(world) == ["m1", "m1"]
    assert "unfinished" in str(world.facts("message_dead")[0]["reason"])
    assert (world.folder_of("m1"), world.folder_of("m2")) == (Folder.DEAD, Folder.DEAD)


def test_a_paused_or_stuck_agent_is_not_reminded_and_the_time_does_not_count() -> None:
    world = panes()
    take(world)
    world.tell(ev.AgentPaused("worker"))
    world.wait(5000)
    world.tell(ev.AgentResumed("worker"))
    world.wait(59)
    assert reminders(world) == []
    world.tell(ev.AgentStuck("worker", "permission prompt"))
    shows(world, Doing.UNCLEAR)
    world.wait(5000)
    assert (reminders(world), world.state_of("m1")) == ([], "delivered")


def test_a_screen_that_cannot_be_read_for_long_is_told_of_once() -> None:
    world = panes()
    take(world)
    shows(world, Doing.UNCLEAR)
    world.wait(899)
    assert world.facts("notice") == []
    world.wait(5000)
    assert [d["cause"] for d in world.facts("notice")] == ["busy"]


def test_a_prompt_that_was_answered_while_nobody_looked_does_not_silence_the_same_one_later() -> None:
    world = panes()
    take(world)
    world.wait(1)
    world.tell(ev.AgentStuck("worker", "a permission prompt: Bash: make"))
    (asked,) = world.engine.state.escalations.all()
    world.restart(away_s=1)
    world.engine.state.escalations.open(asked)  # as state/ has it
    shows(world, Doing.BUSY)
    assert world.fact("escalation_closed")["escalation_id"] == asked.escalation_id
    world.wait(2)
    world.tell(ev.AgentStuck("worker", "a permission prompt: Bash: make"))
    assert len(world.mail("escalation")) == 2
    shows(world, Doing.BUSY)  # what flickers beside a prompt
    assert len(world.facts("escalation_closed")) == 1


def test_mail_of_ours_that_is_not_finished_breeds_no_escalation() -> None:
    world = World({**TEAM, "worker": (replace(WATCHED_PANE), "tmux")})
    take(world, "n1", sender=MONITOR, type="board_request")
    world.wait(5000)
    assert (world.facts("escalation"), world.folder_of("n1")) == ([], Folder.DEAD)


# --- busy is neither life nor silence ---------------------------------------------------------------------------------
def test_twenty_minutes_of_nothing_but_a_spinner_get_one_notice_and_no_key() -> None:
    world = panes()
    take(world)
    shows(world, Doing.BUSY)
    world.wait(1200)
    assert [d["cause"] for d in world.facts("notice")] == ["busy"]
    assert done(world, fx.NudgeAgent) == done(world, fx.ProbeAgent) == done(world, fx.RemindAgent) == []


def test_a_hung_one_gets_rungs_two_and_three_once_each_and_then_the_end_of_its_ladder() -> None:
    world = panes()
    take(world)
    shows(world, Doing.BUSY)
    world.wait(1799)
    assert world.facts("nudge") == []
    world.wait(1)
    assert [d["rung"] for d in world.facts("nudge")] == [2]
    world.wait(60)
    assert [d["rung"] for d in world.facts("nudge")] == [2, 3]
    world.wait(60)
    assert (world.folder_of("m1"), world.agent("worker").state) == (Folder.DEAD, AgentState.DOWN)
    assert world.fact("escalation")["cause"] == "silent"


def test_what_a_hung_one_was_told_and_did_not_take_is_told_of_by_the_same_rule() -> None:
    world = panes()
    world.send(make_message("m1"))
    shows(world, Doing.BUSY)
    world.wait(1799)
    assert world.facts("nudge") == []
    world.wait(200)
    assert [d["rung"] for d in world.facts("nudge")] == [2, 3]


def test_an_interrupt_that_brings_it_back_ends_the_ladder_and_the_idle_rules_follow() -> None:
    world = panes()
    take(world)
    shows(world, Doing.BUSY)
    world.wait(1800)
    shows(world, Doing.IDLE)
    world.wait(61)
    assert ([d["rung"] for d in world.facts("nudge")], reminders(world)) == ([2], ["m1"])


def test_a_child_at_work_or_new_rows_put_hanging_off() -> None:
    world = panes()
    take(world)
    shows(world, Doing.BUSY)
    for _ in range(20):
        world.wait(600)
        world.tell(ev.SignOfLife("worker", "a child is at work"))
    assert (world.facts("nudge"), world.facts("notice")) == ([], [])


def test_zero_means_that_nobody_is_ever_taken_for_hung() -> None:
    world = World({**TEAM, "worker": (replace(WATCHED_PANE, hung_after_s=0), "tmux")})
    take(world)
    shows(world, Doing.BUSY)
    world.wait(100_000)
    assert (world.facts("nudge"), len(world.facts("notice"))) == ([], 1)


def test_a_busy_pane_gets_no_rung_for_what_it_has_not_taken() -> None:
    world = panes()
    world.send(make_message("m1"))
    shows(world, Doing.BUSY)
    world.wait(899)
    assert (world.facts("nudge"), world.facts("notice")) == ([], [])
    world.wait(200)
    assert (world.facts("nudge"), {d["cause"] for d in world.facts("notice")}) == ([], {"busy"})


# --- who waits for others ---------------------------------------------------------------------------------------------
def team() -> World:
    """Return a world with a leader and two workers in panes."""
    return World({**TEAM, **dict.fromkeys(("leader", "coder", "tester"), (WATCHED_PANE, "tmux"))})


def delegate(world: World) -> None:
    take(world, "goal", to="leader", sender="user", type="user_goal", acked=True)
    world.send(make_message("t1", "coder", type="task_assignment"))
    world.tell(ev.Seen(world.delivery("t1").key, "the pane went busy"))
    shows(world, Doing.BUSY, "coder")
    shows(world, Doing.IDLE, "leader")


def test_who_waits_for_others_is_not_idle() -> None:
    world = team()
    delegate(world)
    for _ in range(100):
        world.wait(50)
        world.tell(ev.SignOfLife("coder", "its pane changed"))
    assert (reminders(world), world.told("leader")) == ([], ["goal"])
    assert [str(each) for each in world.delivery("goal").waits_for] == ["coder"]
    assert world.fact("message_waits")["waits_for"] == ["coder"]


def test_the_idle_clock_begins_when_the_wait_is_over() -> None:
    world = team()
    delegate(world)
    world.wait(300)
    world.says("done", "t1", "coder")
    world.wait(119)
    assert "goal" not in reminders(world)
    world.wait(61)
    assert "goal" in reminders(world)


def test_mail_that_wants_nothing_is_waited_for_by_nobody() -> None:
    world = team()
    take(world, "goal", to="leader", sender="user", type="user_goal", acked=True)
    world.send(make_message("p1", "coder", type="progress_update"))
    world.send(make_message("p2", "coder", type="task_completed"))
    shows(world, Doing.IDLE, "leader")
    world.wait(61)
    assert "goal" in reminders(world)


def test_mail_from_before_it_was_told_counts_only_in_the_same_thread() -> None:
    world = team()
    world.send(make_message("old", "user"))
    world.send(make_message("same", "user", thread_id="T"))
    take(world, "goal", to="leader", sender="tester", acked=True)
    world.wait(61)
    assert reminders(world) == ["goal"]
    world = team()
    world.send(make_message("same", "user", thread_id="T"))
    take(world, "goal", to="leader", sender="tester", thread_id="T", acked=True)
    world.wait(61)
    assert reminders(world) == []


@pytest.mark.parametrize(
    ("source", "wait"),
    [
        ("leases", Wait(None, "the lease on a.py")),
        ("board", Wait(None, "board meeting b1")),
        ("pipeline", Wait(None, "story A-1")),
    ],
)
def test_a_lease_a_board_or_a_story_is_waited_for_as_well(source: str, wait: Wait) -> None:
    world = team()
    take(world, "goal", to="leader", sender="user", acked=True)
    world.tell(ev.AgentWaits("leader", source, (wait,)))
    world.wait(300)
    assert (reminders(world), [str(w) for w in world.delivery("goal").waits_for]) == ([], [wait.what])
    world.tell(ev.AgentWaits("leader", source, ()))
    world.wait(61)
    assert reminders(world) == ["goal"]


def test_a_story_that_comes_on_moves_and_one_that_stands_still_is_told_of() -> None:
    world = team()
    take(world, "goal", to="leader", sender="user", acked=True)
    shows(world, Doing.IDLE, "leader")
    for stage in range(4):
        world.tell(ev.AgentWaits("leader", "pipeline", (Wait(None, "story A-1", f"stage_{stage}"),)))
        world.wait(1000)
    assert world.facts("notice") == []
    world.wait(862)
    assert [data["cause"] for data in world.facts("notice")] == ["waiting"]
    assert len(world.facts("message_waits")) == 1  # that it comes on is no news


def test_a_wait_in_which_nothing_moves_is_told_of_once_and_mail_behind_it_flows() -> None:
    world = team()
    take(world, "goal", to="leader", sender="user", acked=True)
    world.send(make_message("q1", "user", sender="leader"))
    shows(world, Doing.IDLE, "leader")
    world.send(make_message("next", "leader", sender="tester"))
    world.wait(1799)
    assert (world.facts("notice"), world.told("leader")) == ([], ["goal"])
    world.wait(62)
    assert ([d["cause"] for d in world.facts("notice")], world.told("leader")) == (["waiting"], ["goal", "next"])
    world.says("done", "next", "leader")
    world.restart(away_s=1)
    shows(world, Doing.IDLE, "leader")
    world.wait(10_000)
    assert (len(world.facts("notice")), reminders(world), world.state_of("goal")) == (1, [], "acked")


def test_a_wait_that_ended_while_nobody_looked_does_not_use_up_the_notice_of_the_next() -> None:
    world = team()
    take(world, "goal", to="leader", sender="user", acked=True)
    world.send(make_message("q1", "user", sender="leader"))
    shows(world, Doing.IDLE, "leader")
    world.wait(1861)
    assert len(world.facts("notice")) == 1
    world.receipt("done", "q1", "user")
    world.restart(away_s=1)
    shows(world, Doing.IDLE, "leader")
    world.wait(1)
    world.send(make_message("q2", "user", sender="leader"))
    shows(world, Doing.IDLE, "leader")
    world.wait(1861)
    assert [d["cause"] for d in world.facts("notice")] == ["waiting", "waiting"]


def test_a_circle_of_idle_ones_is_told_of_and_the_idle_rules_apply_again() -> None:
    world = team()
    for one, other in (("coder", "tester"), ("tester", "coder")):
        take(world, f"job-{one}", to=one, sender="leader", acked=True)
        world.send(make_message(f"ask-{other}", other, sender=one))
        shows(world, Doing.IDLE, one)
    world.wait(30)
    assert (world.facts("notice"), reminders(world)) == ([], [])
    world.wait(31)
    assert [d["cause"] for d in world.facts("notice")] == ["waiting", "waiting"]
    assert "coder → tester → coder" in str(world.facts("notice")[0]["summary"])
    assert {"ask-coder", "ask-tester"} <= {*world.told("coder"), *world.told("tester")}  # mail flows again
    for each in ("ask-coder", "ask-tester"):
        delivery = world.delivery(each)
        world.tell(ev.Seen(delivery.key, "the pane went busy"))
        shows(world, Doing.IDLE, delivery.agent)
    world.wait(300)
    assert {"job-coder", "job-tester"} <= set(reminders(world))


def test_every_notice_passes_our_own_ban_on_vague_words() -> None:
    world = team()
    take(world, "goal", to="leader", sender="coder", acked=True)
    world.send(make_message("q1", "user", sender="leader"))
    shows(world, Doing.IDLE, "leader")
    world.wait(2000)
    take(world, "m1", to="tester")
    shows(world, Doing.BUSY, "tester")
    world.wait(950)
    notices = world.mail("notification")
    assert {one.draft.body["cause"] for one in notices} == {"waiting", "busy"}
    for one in notices:
        summary = str(one.draft.body["summary"])
        assert plain_words.vague_words(summary) == [], summary
        assert not {*plain_words.missing_facts(summary, {*TEAM, "coder", "tester"})} - {plain_words.WHAT_SHARE}, summary
        assert "100%" not in summary


# --- what passes a full window ----------------------------------------------------------------------------------------
def test_the_answer_to_a_message_of_its_own_passes_a_full_window() -> None:
    world = team()
    delegate(world)
    world.send(make_message("r1", "leader", sender="coder", type="message", in_reply_to="t1"))
    assert world.told("leader") == ["goal", "r1"]
    assert world.agent("leader").state is AgentState.BUSY


@pytest.mark.parametrize("type_", ["task_completed", "escalation", "permission_request"])
def test_so_do_reports_escalations_and_permission_requests(type_: str) -> None:
    world = team()
    delegate(world)
    world.send(make_message("other", "leader", sender="tester"))
    world.send(make_message("r1", "leader", sender="coder", type=type_))
    assert world.told("leader") == ["goal", "r1"]


def test_answers_pass_one_by_one_as_each_is_taken() -> None:
    world = team()
    delegate(world)
    for number in range(3):
        world.send(make_message(f"r{number}", "leader", sender="coder", type="task_completed"))
    assert world.told("leader") == ["goal", "r0"]
    for number in range(3):
        world.tell(ev.Seen(world.delivery(f"r{number}").key, "the pane went busy"))
        assert len(world.told("leader")) == number + 2  # nothing is typed into one at work
        shows(world, Doing.BUSY, "leader")
        shows(world, Doing.IDLE, "leader")
    assert world.told("leader") == ["goal", "r0", "r1", "r2"]


@pytest.mark.parametrize("doing", [Doing.BUSY, Doing.UNCLEAR, None])
def test_nothing_passes_while_it_is_not_seen_to_be_ready_and_empty(doing: Doing | None) -> None:
    world = team()
    delegate(world)
    if doing is not None:
        shows(world, doing, "leader")
    else:
        world.tell(ev.AgentStarted("leader", "pane %2"))
    world.send(make_message("r1", "leader", sender="coder", type="task_completed"))
    assert world.told("leader") == ["goal"]
    shows(world, Doing.IDLE, "leader")
    assert world.told("leader") == ["goal", "r1"]


def test_nothing_passes_the_window_of_a_command_or_an_inbox_or_a_child() -> None:
    world = World({**TEAM, "runner": (EXEC, "exec"), "box": (replace(INBOX, max_in_flight=1), "inbox")})
    for agent in ("runner", "box"):
        world.send(make_message(f"{agent}1", agent))
        world.send(make_message(f"{agent}2", agent, type="task_completed"))
        assert world.told(agent) == [f"{agent}1"]


def test_an_ordinary_message_and_the_answer_to_someone_elses_wait_for_their_turn() -> None:
    world = team()
    delegate(world)
    world.send(make_message("t2", "coder", sender="tester"))
    world.send(make_message("m2", "leader", sender="tester"))
    world.send(make_message("cc", "leader", sender="coder", in_reply_to="t2"))
    assert world.told("leader") == ["goal"]


def test_what_passed_fills_no_place_after_a_restart_either() -> None:
    world = team()
    delegate(world)
    world.send(make_message("r1", "leader", sender="coder", type="task_completed"))
    world.tell(ev.Seen(world.delivery("r1").key, "the pane went busy"))
    world.wait(1)
    world.restart(away_s=5)
    world.wait(1)
    world.says("done", "goal", "leader")
    world.send(make_message("m2", "leader", sender="tester"))
    assert world.told("leader")[-1] == "m2"
