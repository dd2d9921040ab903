"""How a pool's messages reach its members, and come back: sentences of behaviour in a world without a disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.message import MONITOR, USER, Folder, Priority
from ackd.core.policy import AgentPolicy, OnDeadline
from tests.core.engine_world import EXEC, HANDLER, INBOX, PANE, PROCESS, World, make_message

ONE = replace(EXEC, max_in_flight=1, retry_limit=2)
TEAM = {
    USER: (INBOX, "inbox"),
    "leader": (INBOX, "inbox"),
    "w1": (ONE, "exec"),
    "w2": (ONE, "exec"),
    "w3": (ONE, "exec"),
    "pane": (PANE, "tmux"),
    "child": (PROCESS, "process"),
    MONITOR: (HANDLER, "handler"),
}
GPU = frozenset({"gpu"})


def make_world(*members: str, labels: dict[str, frozenset[str]] | None = None) -> World:
    return World(TEAM, pools={"crew": members}, labels=labels)


def held_by(world: World, message_id: str) -> str:
    return world.delivery(message_id).agent


def test_a_message_goes_to_one_member_by_a_move_into_its_processed() -> None:
    world = make_world("w1", "w2")
    world.send(make_message("m", "crew"))
    place = world.place_of("m")
    assert (place.box, place.folder) == ("w1", Folder.PROCESSED)
    assert world.fact("message_queued")["agent"] == "crew"
    for line in ("message_claimed", "message_told"):
        assert (world.fact(line)["agent"], world.fact(line)["pool"]) == ("w1", "crew")
    world.ends("m", ev.Outcome.DONE, "exit 0")
    assert world.fact("message_completed")["agent"] == "w1"
    assert world.fact("message_completed")["pool"] == "crew"
    assert world.folder_of("m") is Folder.ARCHIVE


def test_each_member_is_given_one_and_the_next_goes_to_whoever_is_free_first() -> None:
    world = make_world("w1", "w2")
    for name in ("a", "b", "c"):
        world.send(make_message(name, "crew"))
    assert [held_by(world, name) for name in "abc"] == ["w1", "w2", "crew"]
    world.ends("b", ev.Outcome.DONE)
    assert held_by(world, "c") == "w2"


def test_of_two_who_are_free_the_one_that_was_without_work_for_longest_is_given_it() -> None:
    world = make_world("w1", "w2")
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    world.ends("b", ev.Outcome.DONE)
    world.wait(1)
    world.ends("a", ev.Outcome.DONE)
    world.wait(1)
    world.send(make_message("c", "crew"))
    assert held_by(world, "c") == "w2"


def test_one_that_is_paused_is_given_nothing_until_it_is_resumed() -> None:
    world = make_world("w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    assert world.folder_of("m") is Folder.QUEUE
    world.tell(ev.AgentResumed("w1"))
    assert held_by(world, "m") == "w1"


def test_a_members_own_mail_comes_first() -> None:
    world = make_world("w1")
    for name, to in (("a", "crew"), ("b", "crew"), ("own", "w1")):
        world.send(make_message(name, to))
    world.ends("a", ev.Outcome.DONE)
    assert world.told("w1") == ["a", "own"]


def test_the_more_urgent_goes_first_and_what_nobody_can_take_holds_up_nobody() -> None:
    world = make_world("w1", labels={"w2": GPU})
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("needy", "crew", needs=GPU, priority=Priority.CRITICAL))
    world.send(make_message("plain", "crew"))
    world.send(make_message("urgent", "crew", priority=Priority.HIGH))
    world.tell(ev.AgentResumed("w1"))
    assert world.told("w1") == ["urgent"]
    world.ends("urgent", ev.Outcome.DONE)
    assert world.told("w1") == ["urgent", "plain"]
    assert held_by(world, "needy") == "crew"


def test_needs_and_prefers_are_labels_of_members() -> None:
    world = make_world("w1", "w2", labels={"w2": GPU})
    world.send(make_message("a", "crew", prefers=GPU))
    assert held_by(world, "a") == "w2"
    world.send(make_message("b", "crew", needs=GPU))
    assert held_by(world, "b") == "crew"
    world.send(make_message("c", "crew", prefers=GPU))
    assert held_by(world, "c") == "w1"


# --- back -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", [ev.Outcome.FAILED, ev.Outcome.DEFERRED])
def test_what_a_member_failed_or_deferred_goes_back_counted_and_to_another_member(how: ev.Outcome) -> None:
    world = make_world("w1", "w2")
    world.send(make_message("m", "crew"))
    world.ends("m", how, "exit 1")
    assert world.place_of("m").box == "crew"
    assert world.folder_of("m") is Folder.QUEUE
    back = world.fact("message_handed_back")
    assert (back["agent"], back["pool"], back["reason"]) == ("w1", "crew", "exit 1")
    assert world.fact("message_retry")["retry_count"] == 1
    world.wait(60)
    assert held_by(world, "m") == "w2"
    assert world.told("w2") == ["m"]
    world.ends("m", ev.Outcome.DONE)
    assert world.fact("message_completed")["agent"] == "w2"


def test_the_failures_are_counted_on_the_message_and_too_many_are_its_death_for_the_pool() -> None:
    world = make_world("w1", "w2", "w3")
    world.send(make_message("m", "crew"))
    for _ in range(3):
        world.ends("m", ev.Outcome.FAILED, "exit 1")
        world.wait(600)
    assert [one["agent"] for one in world.facts("message_retry")] == ["w1", "w2"]
    dead = world.fact("message_dead")
    assert (dead["agent"], dead["pool"]) == ("w3", "crew")
    assert world.folder_of("m") is Folder.DEAD
    assert world.files[world.place_of("m")].headers["X-IGNITE-Recipient"] == "crew"
    (notice,) = world.mail("escalation", "leader")
    assert notice.draft.body["dead_letter"]["to"] == "crew"  # type: ignore[index]


def test_a_dead_one_that_is_requeued_goes_to_the_pool_again() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew"))
    world.ends("m", ev.Outcome.REFUSED, "cannot be done")
    assert world.folder_of("m") is Folder.DEAD
    world.dig_up("requeue", "m", "crew")
    assert world.told("w1") == ["m", "m"]
    assert world.facts("message_handed_back") == []
    (over,) = world.facts("escalation_closed")
    assert over["agent"] == "crew"


def test_what_nobody_there_could_be_told_goes_back_uncounted_and_to_another_at_once() -> None:
    world = make_world("w1", "w2")
    world.on_tell["w1"] = lambda order: [ev.EndpointAway(order.key, "pane gone")]
    world.send(make_message("m", "crew"))
    assert held_by(world, "m") == "w2"
    assert world.fact("message_retry")["counted"] is False
    assert world.delivery("m").retries == 0


def test_what_a_silent_member_never_saw_goes_to_another() -> None:
    world = make_world("pane", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    assert held_by(world, "m") == "pane"
    world.tell(ev.AgentResumed("w1"))
    world.wait(60 * 5)
    assert world.agent("pane").state.value == "down"
    assert held_by(world, "m") == "w1"
    assert world.delivery("m").retries == 1


def test_what_a_silent_member_had_taken_is_dead_and_never_anothers() -> None:
    team = {**TEAM, "pane": (replace(PANE, heartbeat_timeout_s=120), "tmux")}
    world = World(team, pools={"crew": ("pane", "w1")})
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.says("ack", "m", "pane")
    world.tell(ev.AgentResumed("w1"))
    world.wait(3600)
    assert world.told("w1") == []
    assert world.folder_of("m") is Folder.DEAD


def test_what_died_with_its_holder_goes_to_another() -> None:
    world = make_world("child", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.tell(ev.Seen(world.delivery("m").key, "its worker speaks of it"))
    world.tell(ev.AgentResumed("w1"))
    world.tell(ev.AgentDied("child", "killed by signal 9", again_in_s=30))
    world.wait(20)
    assert held_by(world, "m") == "w1"
    assert world.delivery("m").retries == 1


def test_one_that_goes_on_by_itself_after_its_death_keeps_it() -> None:
    team = {**TEAM, "child": (replace(PROCESS, resumes=True), "process")}
    world = World(team, pools={"crew": ("child", "w1")})
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.tell(ev.Seen(world.delivery("m").key, "its worker speaks of it"))
    world.tell(ev.AgentResumed("w1"))
    world.tell(ev.AgentDied("child", "killed by signal 9", again_in_s=1))
    world.tell(ev.AgentStarted("child", "pid 7"))
    world.wait(60)
    assert held_by(world, "m") == "child"
    assert world.told("child") == ["m", "m"]


def test_a_member_that_is_paused_while_it_waits_to_be_told_again_gives_it_back() -> None:
    world = make_world("child", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.tell(ev.Seen(world.delivery("m").key, "its worker speaks of it"))
    world.handle(ev.AgentPaused("child"))
    world.tell(ev.AgentDied("child", "by hand", wanted=True, again_in_s=1))
    world.tell(ev.AgentResumed("w1"))
    assert held_by(world, "m") == "w1"
    assert world.delivery("m").retries == 0


# --- what is said ---------------------------------------------------------------------------------------------------
def test_receipts_are_those_of_the_holder() -> None:
    world = make_world("pane")
    world.send(make_message("m", "crew"))
    world.says("ack", "m", "pane")
    assert world.state_of("m") == "acked"
    world.says("done", "m", "pane")
    assert world.fact("message_completed")["agent"] == "pane"
    assert world.receipts == {}


def test_another_members_word_is_none() -> None:
    world = make_world("pane", "w1")
    world.send(make_message("m", "crew"))
    other = "w1" if held_by(world, "m") == "pane" else "pane"
    world.says("done", "m", other)
    assert len(world.engine.state.deliveries) == 1
    assert "not open here" in str(world.fact("message_warning")["warning"])
    assert world.receipts == {}


@pytest.mark.parametrize("taken_by_another", [False, True])
def test_one_that_gave_it_back_may_still_complete_it(taken_by_another: bool) -> None:
    world = make_world("pane", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.wait(60 * 5)
    assert held_by(world, "m") == "crew"
    if taken_by_another:
        world.tell(ev.AgentResumed("w1"))
        assert held_by(world, "m") == "w1"
    world.says("done", "m", "pane")
    assert world.folder_of("m") is Folder.ARCHIVE
    assert len(world.engine.state.deliveries) == 0
    assert world.receipts == {}


def test_its_sender_may_cancel_it_in_line_and_in_hand() -> None:
    world = make_world("w1")
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    for name in ("b", "a"):
        world.cancels(name, "crew")
    assert world.folder_of("b") is Folder.ARCHIVE
    assert world.fact("message_withdrawn", "b")["agent"] == "crew"
    assert world.fact("message_dead", "a")["end"] == "cancelled"
    assert world.agent("w1").window == set()
    assert world.receipts == {}


def test_a_message_sent_twice_is_one_while_a_member_holds_it_and_after_its_end() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew"))
    world.send(make_message("m", "crew"))
    assert len(world.facts("message_duplicate")) == 1
    world.ends("m", ev.Outcome.DONE)
    world.send(make_message("m", "crew"))
    assert len(world.facts("message_duplicate")) == 2
    assert world.told("w1") == ["m"]


def test_what_expires_in_the_pools_queue_is_given_to_nobody() -> None:
    world = make_world("w1")
    world.send(make_message("a", "crew"))
    world.send(make_message("b", "crew", expires_at=world.wall + 30))
    world.wait(31)
    world.ends("a", ev.Outcome.DONE)
    assert world.told("w1") == ["a"]
    assert world.fact("message_dead", "b")["end"] == "expired"


# --- nobody ---------------------------------------------------------------------------------------------------------
def test_a_pool_that_nobody_serves_is_told_of_once_and_is_over_when_somebody_does() -> None:
    world = make_world("w1", "w2")
    for name in ("w1", "w2"):
        world.tell(ev.AgentPaused(name))
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    world.wait(899)
    assert world.mail("escalation") == []
    world.wait(10_000)
    (sent,) = world.mail("escalation", "leader")
    assert sent.draft.body["cause"] == "unserved"
    assert "2 messages wait in queue/crew/" in str(sent.draft.body["summary"])
    assert "w1 paused, w2 paused" in str(sent.draft.body["summary"])
    world.tell(ev.AgentResumed("w2"))
    assert world.fact("escalation_closed")["cause"] == "unserved"
    assert world.told("w2") == ["a"]


def test_an_empty_pool_is_told_of() -> None:
    world = make_world()
    world.send(make_message("m", "crew"))
    world.wait(901)
    (sent,) = world.mail("escalation", "leader")
    assert "it has no members" in str(sent.draft.body["summary"])


def test_a_pool_whose_members_are_busy_is_served() -> None:
    world = make_world("w1")
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    world.wait(5_000)
    assert world.mail("escalation") == []


def test_what_no_member_has_the_label_for_is_told_of() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew", needs=GPU))
    world.send(make_message("n", "crew"))
    world.wait(901)
    (sent,) = world.mail("escalation", "leader")
    assert "1 message waits in queue/crew/" in str(sent.draft.body["summary"])


# --- a restart ------------------------------------------------------------------------------------------------------
def test_a_restart_finds_each_message_where_it_was_and_goes_on_counting() -> None:
    world = make_world("w1", "pane")
    world.tell(ev.AgentPaused("w1"))
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    world.says("ack", "a", "pane")
    world.says("defer", "a", "pane")
    world.tell(ev.AgentPaused("pane"))
    assert held_by(world, "a") == "crew"
    world.restart(away_s=120)
    world.wait(1)
    assert held_by(world, "a") == "w1"
    assert held_by(world, "b") == "pane"
    assert world.delivery("a").had_by == ("pane",)
    assert world.delivery("a").retries == 1


def test_a_holder_keeps_what_it_has_across_a_restart() -> None:
    world = make_world("pane", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.says("ack", "m", "pane")
    world.restart(away_s=10)
    assert held_by(world, "m") == "pane"
    assert world.told("w1") == []
    world.says("done", "m", "pane")
    assert world.fact("message_completed")["pool"] == "crew"


def test_a_claim_that_the_disk_refuses_leaves_it_in_the_pools_queue() -> None:
    world = make_world("w1")
    world.refused = {fx.ClaimMessage}
    world.send(make_message("m", "crew"))
    assert held_by(world, "m") == "crew"
    world.refused = set()
    world.wait(6)
    assert held_by(world, "m") == "w1"


def test_a_return_that_the_disk_refuses_is_asked_for_again() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew"))
    world.refused = {fx.ReturnMessage}
    world.ends("m", ev.Outcome.FAILED)
    assert world.state_of("m") == "returning"
    world.refused = set()
    world.wait(6)
    assert world.place_of("m").box == "crew" or held_by(world, "m") == "w1"
    world.wait(60)
    assert world.told("w1") == ["m", "m"]


def test_an_unlimited_member_is_given_its_share() -> None:
    team = {**TEAM, "w1": (replace(EXEC, max_in_flight=10), "exec"), "w2": (replace(EXEC, max_in_flight=10), "exec")}
    world = World(team, pools={"crew": ("w1", "w2")})
    for number in range(6):
        world.send(make_message(f"m{number}", "crew"))
    assert len(world.told("w1")) == len(world.told("w2")) == 3


def test_a_pool_may_be_whom_escalations_go_to() -> None:
    world = World(TEAM, pools={"crew": ("w1",)}, policy=replace(World().policy, escalate_to="crew"))
    world.send(make_message("m", "w2"))
    world.ends("m", ev.Outcome.REFUSED, "no")
    (sent,) = world.mail("escalation")
    assert sent.draft.recipient == "crew"
    assert world.told("w1") == [sent.draft.message_id]


def test_a_policy_of_a_pool_is_that_of_any_agent() -> None:
    assert make_world("w1").agent("crew").policy == AgentPolicy()


# --- found by reading: what was said names the member that had it -----------------------------------------------------
def stop(world: World, *, away_s: float = 0) -> None:
    """End in order, and start again: a message that was to be told again stays with its holder meanwhile."""
    world.handle(ev.StopRequested())
    world.settle()
    world.restart(away_s=away_s)
    world.wait(1)


@pytest.mark.parametrize("kind", ["cancel", "done"])
def test_what_is_said_of_its_holder_while_no_daemon_runs_is_heard_before_it_goes_back(kind: str) -> None:
    world = make_world("w1", "w2")
    world.send(make_message("m", "crew"))
    world.handle(ev.StopRequested())
    world.tell(ev.RunEnded(world.delivery("m").key, ev.Outcome.STOPPED, "ackd stops"))
    assert world.place_of("m").box == "w1"
    receipt = replace(world.receipt(kind, "m", "w1"), by="leader")
    world.receipts[receipt.name] = receipt
    stop(world)
    assert world.folder_of("m") is (Folder.DEAD if kind == "cancel" else Folder.ARCHIVE)
    assert world.told("w2") == []
    assert world.receipts == {}


def test_a_cancellation_that_names_the_member_that_had_it_counts_when_it_is_back() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew"))
    world.ends("m", ev.Outcome.FAILED)
    world.cancels("m", "w1")
    assert world.folder_of("m") is Folder.ARCHIVE
    assert world.fact("message_withdrawn")["agent"] == "crew"
    assert world.receipts == {}


def test_what_was_escalated_about_its_holder_is_over_when_it_gives_the_message_back() -> None:
    world = make_world("child", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.tell(ev.WorkBlocked(world.delivery("m").key, "no schema", None, 1))
    assert [one.cause for one in world.engine.state.escalations.all()] == ["blocked"]
    world.says("defer", "m", "child")
    assert world.engine.state.escalations.all() == []
    assert world.fact("escalation_closed")["agent"] == "child"


@pytest.mark.parametrize("status", ["delivered", "acked", "retrying", "processing"])
def test_what_lies_in_a_pools_own_processed_goes_into_its_queue(status: str) -> None:
    world = make_world("w1")
    place = world.drop(make_message("m", "crew"), Folder.PROCESSED)
    world.files[place].headers.update({"X-IGNITE-Status": status, "X-IGNITE-Seen": "yes"})
    world.restart()
    world.wait(1)
    assert world.told("w1") == ["m"]
    assert world.place_of("m").box == "w1"


def test_an_ack_in_the_pools_name_takes_nothing_out_of_its_queue() -> None:
    world = make_world("w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.says("ack", "m", "crew")
    assert "no member of the pool has it" in str(world.fact("message_warning")["warning"])
    assert world.receipts == {}
    world.tell(ev.AgentResumed("w1"))
    assert world.told("w1") == ["m"]


def test_a_loop_through_a_pool_is_counted_and_held() -> None:
    world = World(TEAM, policy=replace(World().policy, loop_limit=2), pools={"crew": ("w1", "w2")})
    last = None
    for number in range(100):
        world.send(make_message(f"out{number}", "crew", sender="leader", in_reply_to=last, thread_id="t"))
        found = [d for d in world.engine.state.deliveries if d.message.message_id == f"out{number}"]
        if not found or found[0].held:
            break
        member = found[0].agent
        last = f"back{number}"
        world.send(make_message(last, "leader", sender=member, in_reply_to=f"out{number}", thread_id="t"))
        world.ends(f"out{number}", ev.Outcome.DONE)
    assert world.facts("loop_detected")
    assert world.facts("message_held")
    assert set(world.facts("loop_detected")[0]["members"]) == {"crew", "leader"}  # type: ignore[call-overload]


def test_an_agent_in_two_pools_starves_neither() -> None:
    world = World(TEAM, pools={"slow": ("w1",), "fast": ("w1",)})
    world.tell(ev.AgentPaused("w1"))
    for number in range(4):
        world.send(make_message(f"low{number}", "slow", priority=Priority.LOW))
    world.send(make_message("critical", "fast", priority=Priority.CRITICAL))
    world.tell(ev.AgentResumed("w1"))
    assert world.told("w1") == ["critical"]


@pytest.mark.parametrize("first", ["crew", "w1"])
def test_a_message_to_a_pool_and_to_one_of_its_members_is_two(first: str) -> None:
    team = {**TEAM, "w1": (replace(ONE, max_in_flight=5), "exec")}
    world = World(team, pools={"crew": ("w1",)})
    for to in (first, "w1" if first == "crew" else "crew"):
        world.send(make_message("m", to))
    assert world.facts("message_duplicate") == []
    assert world.told("w1") == ["m", "m"]


def test_a_claim_that_was_refused_leaves_nothing_with_the_member() -> None:
    world = make_world("w1", "w2")
    world.refused = {fx.ClaimMessage}
    world.send(make_message("m", "crew"))
    forgotten = [one for one in world.done if isinstance(one, fx.ForgetMessage)]
    assert [(one.lane, one.end.value) for one in forgotten] == [("w1", "handed back")]
    assert {world.agent(name).state.value for name in ("w1", "w2")} == {"available"}
    assert world.agent("crew").state.value == "available"


def test_a_disk_that_refuses_one_after_the_other_parks_the_pool_and_not_its_members() -> None:
    world = make_world("w1", "w2")
    world.refused = {fx.ClaimMessage}
    for name in ("a", "b"):
        world.send(make_message(name, "crew"))
    assert world.agent("crew").state.value == "parked"
    assert {world.agent(name).state.value for name in ("w1", "w2")} == {"available"}
    world.refused = set()
    world.wait(400)
    assert sorted([*world.told("w1"), *world.told("w2")]) == ["a", "b"]


def test_who_gave_it_back_is_known_after_a_restart_with_another_member() -> None:
    world = make_world("w1", "pane")
    world.tell(ev.AgentPaused("pane"))
    world.send(make_message("m", "crew"))
    world.tell(ev.AgentResumed("pane"))
    world.ends("m", ev.Outcome.FAILED)
    world.wait(60)
    assert held_by(world, "m") == "pane"
    world.says("ack", "m", "pane")
    world.restart()
    world.wait(1)
    world.says("done", "m", "w1")
    assert world.folder_of("m") is Folder.ARCHIVE


def test_a_member_that_had_a_dead_letter_may_complete_it_after_all() -> None:
    world = make_world("w1")
    world.send(make_message("m", "crew"))
    world.ends("m", ev.Outcome.REFUSED)
    letter = world.place_of("m")
    assert world.files[letter].headers["X-ACKD-Had-By"] == "w1"
    world.handle(world.arrival(letter))
    world.says("done", "m", "w1")
    assert world.folder_of("m") is Folder.ARCHIVE
    assert world.facts("message_completed")[-1]["late"] is True


def test_the_notice_about_parts_goes_to_whoever_has_the_message_now() -> None:
    world = make_world("w1", "leader")
    world.tell(ev.AgentPaused("leader"))
    world.send(make_message("goal", "crew"))
    world.send(make_message("part", "w2", sender="w1", part_of="goal", notify=True))
    world.tell(ev.AgentResumed("leader"))
    world.ends("goal", ev.Outcome.DEFERRED)
    world.ends("part", ev.Outcome.DONE)
    world.wait(60)
    assert held_by(world, "goal") == "leader"
    assert world.fact("parts_ended")["agent"] == "leader"


def test_an_escalation_to_a_pool_whose_first_member_is_away_bothers_nobody_else() -> None:
    world = World(TEAM, pools={"crew": ("w1", "w2")}, policy=replace(World().policy, escalate_to="crew"))
    world.on_tell["w1"] = lambda order: [ev.EndpointAway(order.key, "pane gone")]
    world.send(make_message("m", "w3"))
    world.ends("m", ev.Outcome.REFUSED, "no")
    assert len(world.told("w2")) == 1
    assert [one for one in world.mail("escalation", USER) if one.draft.body["cause"] == "escalation_undelivered"] == []


def test_one_event_gives_away_a_bounded_number() -> None:
    team = {**TEAM, "w1": (replace(EXEC, max_in_flight=1000), "exec")}
    world = World(team, pools={"crew": ("w1",)})
    world.tell(ev.AgentPaused("w1"))
    for number in range(200):
        world.handle(world.arrival(world.drop(make_message(f"m{number}", "crew"))))
    world.settle()
    claims = [one for one in world.handle(ev.AgentResumed("w1")) if isinstance(one, fx.ClaimMessage)]
    assert len(claims) == 64
    world.settle()
    world.wait(1)
    assert len(world.told("w1")) == 200


def test_what_is_past_its_deadline_is_not_begun_by_one_whose_work_is_cancelled_then() -> None:
    team = {**TEAM, "w1": (replace(ONE, on_deadline=OnDeadline.CANCEL), "exec")}
    world = World(team, pools={"crew": ("w1",)})
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew", deadline_at=world.wall + 30))
    world.wait(60)
    assert held_by(world, "m") == "crew"
    world.tell(ev.AgentResumed("w1"))
    assert world.told("w1") == []
    assert world.fact("message_dead")["end"] == "expired"


def test_a_fresh_message_past_its_deadline_is_not_begun_either() -> None:
    world = World({**TEAM, "w1": (replace(ONE, on_deadline=OnDeadline.CANCEL), "exec")})
    world.send(make_message("m", "w1", deadline_at=world.wall - 30), age_s=60)
    assert world.told("w1") == []
    assert world.fact("message_dead")["end"] == "expired"


def test_what_a_member_was_told_and_never_saw_goes_back_when_it_is_paused() -> None:
    world = make_world("pane", "w1")
    world.tell(ev.AgentPaused("w1"))
    world.send(make_message("m", "crew"))
    world.tell(ev.AgentPaused("pane"), ev.AgentResumed("w1"))
    world.wait(61)
    assert held_by(world, "m") == "w1"
    assert world.delivery("m").retries == 0
