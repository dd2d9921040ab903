"""Another config while messages are under way: numbers at once, another endpoint when nothing is in hand, and pools
whose members come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.availability import AgentState
from ackd.core.message import Folder
from ackd.core.policy import AgentPolicy, CompletesOn
from ackd.core.pools import PoolLineup
from tests.core.engine_world import EXEC, HANDLER, INBOX, PANE, PROCESS, TEAM, World, make_message

CREW = {"crew": ("worker", "runner")}


def replaced(world: World) -> list[str]:
    return [each.lane for each in world.done if isinstance(each, fx.ReplaceEndpoint)]


# --- numbers ----------------------------------------------------------------------------------------------------------
def test_a_wider_window_is_filled_at_once() -> None:
    world = World()
    for number in range(3):
        world.send(make_message(f"m{number}", "runner"))
    assert world.told("runner") == ["m0"]
    world.reload("runner", replace(EXEC, max_in_flight=3), "exec")
    world.settle()
    assert world.told("runner") == ["m0", "m1", "m2"]
    assert replaced(world) == []


def test_a_narrower_window_takes_nothing_back_and_offers_nothing_until_there_is_room() -> None:
    world = World(TEAM | {"runner": (replace(EXEC, max_in_flight=3), "exec")})
    for number in range(4):
        world.send(make_message(f"m{number}", "runner"))
    world.reload("runner", EXEC, "exec")
    for number in range(2):
        world.ends(f"m{number}", ev.Outcome.DONE)
        assert world.state_of("m3") == "queued"
    world.ends("m2", ev.Outcome.DONE)
    assert world.told("runner")[-1] == "m3"


def test_a_retry_that_is_due_later_keeps_its_time_and_the_next_goes_by_the_new_limit() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.FAILED)
    due = world.engine.next_deadline()
    world.reload("runner", replace(EXEC, retry_limit=1), "exec")
    assert world.engine.next_deadline() == due
    world.wait(400)
    world.ends("m1", ev.Outcome.FAILED)
    assert world.folder_of("m1") is Folder.DEAD


def test_other_team_numbers_hold_from_the_next_decision_on() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    world.ends("m1", ev.Outcome.DONE)
    world.tell(ev.TeamChanged(replace(world.policy, escalate_to="user", dedup_window_s=10)))
    world.wait(20)
    world.send(make_message("m1", "runner"))
    assert world.told("runner") == ["m1", "m1"], "it is remembered for 10 s only"
    world.tell(ev.AgentDied("worker", "exit 1"))
    assert world.mail("escalation", to="user")


# --- another endpoint -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((EXEC, "exec"), (PROCESS, "process")),
        ((EXEC, "exec"), (INBOX, "inbox")),
        ((PANE, "tmux"), (EXEC, "exec")),
        ((PROCESS, "process"), (PANE, "tmux")),
        ((PROCESS, "process"), (HANDLER, "handler")),
        ((PANE, "tmux"), (INBOX, "inbox")),
    ],
)
def test_what_is_in_hand_is_finished_first_and_what_waits_goes_to_the_new_endpoint(
    before: tuple[AgentPolicy, str], after: tuple[AgentPolicy, str]
) -> None:
    world = World(TEAM | {"worker": before})
    world.send(make_message("m1"))
    world.send(make_message("m2"))
    world.reload("worker", *after)
    world.send(make_message("m3"))
    assert (replaced(world), world.agent("worker").endpoint) == ([], before[1])
    assert (world.state_of("m2"), world.state_of("m3")) == ("queued", "queued"), "not even claimed"
    world.says("done", "m1")
    assert (replaced(world), world.agent("worker").endpoint) == (["worker"], after[1])
    assert world.told("worker")[:2] == ["m1", "m2"]
    assert world.fact("endpoint_replaced") == {"agent": "worker", "before": before[1], "endpoint": after[1]}
    order = [type(each) for each in world.done if getattr(each, "lane", None) == "worker"]
    assert order.index(fx.ReplaceEndpoint) < len(order) - 1 - order[::-1].index(fx.TellAgent)


def test_an_agent_with_nothing_in_hand_gets_it_at_once_whatever_waits() -> None:
    world = World()
    world.tell(ev.AgentPaused("worker"))
    world.send(make_message("m1"))
    world.reload("worker", EXEC, "exec")
    world.settle()
    assert replaced(world) == ["worker"]
    assert world.agent("worker").state is AgentState.PAUSED, "a pause is a person's"
    world.tell(ev.AgentResumed("worker"))
    assert world.told("worker") == ["m1"]


def test_what_lies_unread_in_an_inbox_is_taken_over_and_what_was_taken_is_finished_first() -> None:
    world = World()
    for name in ("read", "acked", "unread"):
        world.send(make_message(name, "user"))
    world.says("seen", "read", "user")
    world.says("ack", "acked", "user")
    world.reload("user", EXEC, "exec")
    world.settle()
    assert replaced(world) == []
    assert world.state_of("unread") == "retrying"
    assert world.fact("message_retry", "unread")["counted"] is False
    world.says("done", "read", "user")
    world.says("done", "acked", "user")
    assert replaced(world) == ["user"]
    assert world.told("user")[-1] == "unread"


def test_what_just_then_is_being_told_is_waited_for() -> None:
    world = World()
    world.on_tell["user"] = lambda _order: []
    world.send(make_message("m1", "user"))
    world.reload("user", EXEC, "exec")
    world.settle()
    assert replaced(world) == []
    world.tell(ev.Told(world.delivery("m1").key, "placed in the inbox"))
    assert replaced(world) == ["user"]
    del world.on_tell["user"]
    assert world.state_of("m1") in ("retrying", "processing", "delivered")


def test_the_old_absence_is_over_with_the_old_endpoint() -> None:
    world = World(TEAM | {"worker": (PROCESS, "process")})
    world.tell(ev.AgentDied("worker", "died 5 times in 60 s"))
    assert world.agent("worker").state is AgentState.DOWN
    world.send(make_message("m1"))
    world.reload("worker", EXEC, "exec")
    world.settle()
    assert world.told("worker") == ["m1"]
    assert world.agent("worker").deaths == 0
    assert world.facts("escalation_closed")[-1]["agent"] == "worker"


def test_of_two_changes_that_wait_the_later_one_counts() -> None:
    world = World()
    world.send(make_message("m1"))
    world.reload("worker", EXEC, "exec")
    world.reload("worker", INBOX, "inbox")
    world.handle(ev.AgentJoined("worker", replace(INBOX, completes_on=CompletesOn.SEEN), "inbox"))
    world.says("done", "m1")
    assert (replaced(world), world.agent("worker").endpoint) == (["worker"], "inbox")
    assert world.agent("worker").policy.completes_on is CompletesOn.SEEN


def test_an_answer_that_a_pane_may_be_told_beside_its_window_waits_for_the_new_endpoint() -> None:
    world = World()
    world.send(make_message("m1"))
    world.says("seen", "m1")
    world.reload("worker", EXEC, "exec")
    world.send(make_message("m2", type="task_completed"))
    assert world.state_of("m2") == "queued"


# --- pools ------------------------------------------------------------------------------------------------------------
def test_a_member_that_leaves_its_pool_finishes_what_it_has_and_gives_back_what_it_does_not() -> None:
    world = World(pools=CREW)
    for name in ("m1", "m2"):
        world.send(make_message(name, "crew"))
    held = {world.delivery(name).agent: name for name in ("m1", "m2")}
    world.reload_pool("crew", "runner")
    world.settle()
    assert world.state_of(held["worker"]) == "delivered"
    world.tell(ev.NotTold(world.delivery(held["worker"]).key, "late"))
    world.ends(held["worker"], ev.Outcome.STOPPED)
    assert world.facts("message_handed_back")[0]["message_id"] == held["worker"]
    assert world.delivery(held["worker"]).agent == "crew"
    world.ends(held["runner"], ev.Outcome.DONE)
    assert world.delivery(held["worker"]).agent == "runner"


def test_the_word_of_a_member_that_has_left_counts_for_what_it_has() -> None:
    world = World(pools=CREW)
    world.send(make_message("m1", "crew"))
    holder = world.delivery("m1").agent
    world.reload_pool("crew", *({"worker", "runner"} - {holder}))
    world.says("done", "m1", holder)
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_a_member_that_joins_gets_what_waits() -> None:
    world = World(pools={"crew": ("worker",)})
    for name in ("m1", "m2"):
        world.send(make_message(name, "crew"))
    assert world.state_of("m2") == "queued"
    world.reload_pool("crew", "worker", "runner")
    world.settle()
    assert world.delivery("m2").agent == "runner"


def test_a_pool_that_is_removed_is_an_inbox_and_what_its_members_have_comes_back_to_it() -> None:
    world = World(pools=CREW)
    for name in ("m1", "m2", "m3"):
        world.send(make_message(name, "crew"))
    world.reload("crew", INBOX, "inbox")
    world.settle()
    assert world.agent("crew").pool is None
    assert world.told("crew") == ["m3"]
    failed = next(name for name in ("m1", "m2") if world.delivery(name).agent == "runner")
    world.ends(failed, ev.Outcome.FAILED)
    world.wait(20)
    assert world.told("crew") == ["m3", failed]


def test_an_agent_that_becomes_a_pool_has_its_mail_served_by_the_members() -> None:
    world = World(TEAM | {"crew": (INBOX, "inbox")})
    world.send(make_message("m1", "crew"))
    world.tell(ev.AgentPaused("crew"))
    world.send(make_message("m2", "crew"))
    world.reload_pool("crew", "worker", "runner")
    world.settle()
    assert isinstance(world.agent("crew").line, PoolLineup)
    world.tell(ev.AgentResumed("crew"))
    assert {world.delivery("m1").agent, world.delivery("m2").agent} == {"worker", "runner"}


# --- and a restart ----------------------------------------------------------------------------------------------------
def test_after_a_restart_a_message_of_a_pool_that_was_removed_is_still_the_pools() -> None:
    """As without the restart: its holder may finish it, and what it does not complete goes back to the pool's queue."""
    world = World(pools={"crew": ("worker",)})
    for name in ("m1", "m2"):
        world.send(make_message(name, "crew"))
    world.wait(1)  # its header says that it was told
    world.reload("crew", INBOX, "inbox")
    world.settle()
    world.restart()
    world.wait(1)
    held = world.delivery("m1")
    assert (held.agent, held.addressee, held.state.value) == ("worker", "crew", "delivered")
    world.says("done", "m1")
    assert world.folder_of("m1") is Folder.ARCHIVE


def test_after_a_restart_what_a_command_had_for_a_pool_that_it_serves_no_longer_goes_back() -> None:
    world = World(pools={"crew": ("runner",)})
    world.send(make_message("m1", "crew"))
    world.reload_pool("crew", "worker")
    world.restart()
    world.wait(1)
    assert world.delivery("m1").agent == "worker"
