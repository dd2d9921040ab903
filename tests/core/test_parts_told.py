"""Telling the holder of a message that all parts of it have ended: once, after whatever crashes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core import events as ev
from ackd.core.idleness import Doing
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.parts_told import SETTLE_S
from ackd.core.timers import TimerKind
from tests.core.engine_world import EXEC, HANDLER, INBOX, WATCHED_PANE, World, make_message

if TYPE_CHECKING:
    from ackd.core.effects import SendMessage
    from ackd.core.policy import AgentPolicy

TELLS = replace(INBOX, notify_when_done=True)
TEAM: dict[str, tuple[AgentPolicy, str]] = {
    USER: (INBOX, "inbox"),
    "leader": (INBOX, "inbox"),
    "worker": (TELLS, "inbox"),
    "quiet": (INBOX, "inbox"),
    "runner": (EXEC, "exec"),
    "pane": (WATCHED_PANE, "tmux"),
    MONITOR: (HANDLER, "handler"),
}


@pytest.fixture
def world() -> World:
    made = World(TEAM)
    made.send(make_message("goal", "leader", sender=USER))
    return made


def part(world: World, message_id: str, to: str = "worker", *, notify: bool | None = None, of: str = "goal") -> None:
    world.send(make_message(message_id, to, sender="leader", part_of=of, notify=notify))


def notices(world: World, to: str = "leader") -> list[SendMessage]:
    return [one for one in world.mail("notification", to) if one.draft.body.get("cause") == "parts_ended"]


def parts_in(notice: SendMessage) -> list[str]:
    parts = notice.draft.body["parts"]
    assert isinstance(parts, list)
    return [one["message_id"] for one in parts]


def restart(world: World, *, away_s: float = 0) -> None:
    world.restart(away_s=away_s)
    world.tell(ev.RecoveryEnded())


# --- once -------------------------------------------------------------------------------------------------------------
def test_the_holder_is_told_once_when_the_last_part_has_ended(world: World) -> None:
    part(world, "p1")
    part(world, "p2")
    world.says("done", "p1")
    world.wait(60)
    assert notices(world) == []
    world.says("refuse", "p2", reason="not mine")
    world.wait(60)
    (notice,) = notices(world)
    assert parts_in(notice) == ["p1", "p2"]
    assert world.fact("parts_ended", "goal")["ends"] == {"completed": 1, "dead": 1}


def test_a_part_that_was_cancelled_in_hand_or_in_line_is_told_of_with_the_reason(world: World) -> None:
    part(world, "p1", "runner", notify=True)
    part(world, "p2", "runner", notify=True)
    world.cancels("p2", "runner", reason="enough")
    world.cancels("p1", "runner", reason="enough")
    world.wait(60)
    (notice,) = notices(world)
    assert sorted(parts_in(notice)) == ["p1", "p2"]
    assert world.fact("parts_ended", "goal")["ends"] == {"dead": 1, "withdrawn": 1}
    assert "'reason': 'cancelled by leader: enough'" in str(notice.draft.body)


def test_nobody_is_told_of_parts_that_go_to_whoever_is_not_set_to(world: World) -> None:
    part(world, "p1", "quiet")
    world.says("done", "p1", "quiet")
    world.wait(60)
    assert notices(world) == []
    assert world.engine.state.families.all() == []


def test_a_part_may_ask_for_the_notice_that_its_agents_table_does_not(world: World) -> None:
    part(world, "p1", "quiet", notify=True)
    world.says("done", "p1", "quiet")
    world.wait(60)
    assert len(notices(world)) == 1


def test_a_part_may_decline_the_notice_that_its_agents_table_asks_for(world: World) -> None:
    part(world, "p1", notify=False)
    world.says("done", "p1")
    world.wait(60)
    assert notices(world) == []


def test_a_holder_that_sends_the_next_part_when_the_first_is_done_already_is_told_of_both_at_once(world: World) -> None:
    part(world, "p1")
    world.says("done", "p1")
    world.wait(SETTLE_S / 2)
    part(world, "p2")
    world.wait(60)
    assert notices(world) == []
    world.says("done", "p2")
    world.wait(60)
    assert [parts_in(one) for one in notices(world)] == [["p1", "p2"]]


def test_parts_that_are_sent_after_the_notice_make_another(world: World) -> None:
    part(world, "p1")
    world.says("done", "p1")
    world.wait(60)
    part(world, "p2")
    world.says("done", "p2")
    world.wait(60)
    assert [parts_in(one) for one in notices(world)] == [["p1"], ["p2"]]


def test_a_dead_part_that_is_requeued_is_told_of_again_when_it_ends(world: World) -> None:
    part(world, "p1")
    world.says("refuse", "p1", reason="no")
    world.wait(60)
    world.dig_up("requeue", "p1", "worker")
    world.says("done", "p1")
    world.wait(60)
    first, second = notices(world)
    assert (parts_in(first), parts_in(second)) == (["p1"], ["p1"])
    assert first.draft.message_id != second.draft.message_id


def test_a_dead_part_that_is_requeued_before_anybody_was_told_is_open_again(world: World) -> None:
    part(world, "p1")
    part(world, "p2")
    world.says("refuse", "p1", reason="no")
    world.dig_up("requeue", "p1", "worker")
    world.says("done", "p2")
    world.wait(60)
    assert notices(world) == []
    world.says("done", "p1")
    world.wait(60)
    assert [sorted(parts_in(one)) for one in notices(world)] == [["p1", "p2"]]


def test_two_holders_of_one_message_are_told_of_their_own_parts(world: World) -> None:
    world.send(make_message("goal", "quiet", sender=USER))
    part(world, "p1")
    world.send(make_message("p2", "worker", sender="quiet", part_of="goal"))
    world.says("done", "p1")
    world.says("done", "p2")
    world.wait(60)
    assert [parts_in(one) for one in notices(world, "leader")] == [["p1"]]
    assert [parts_in(one) for one in notices(world, "quiet")] == [["p2"]]


def test_a_part_of_a_message_that_nobody_knows_is_told_of_to_whoever_sent_it(world: World) -> None:
    part(world, "p1", of="long-forgotten")
    world.says("done", "p1")
    world.wait(60)
    assert [one.draft.in_reply_to for one in notices(world)] == ["long-forgotten"]


def test_a_stranger_who_sends_parts_is_not_told(world: World) -> None:
    world.send(make_message("p1", "worker", sender="stranger", part_of="goal"))
    world.says("done", "p1")
    world.wait(60)
    assert [one for one in world.sent if one.draft.body.get("cause") == "parts_ended"] == []


def test_the_notice_is_never_held_back_however_many_there_are(world: World) -> None:
    for number in range(40):
        world.send(make_message(f"goal{number}", "leader", sender=USER))
        part(world, f"p{number}", of=f"goal{number}")
        world.says("done", f"p{number}")
    world.wait(60)
    assert len(notices(world)) == 40


# --- a holder at work -------------------------------------------------------------------------------------------------
def test_a_command_that_shares_out_is_told_when_its_run_is_over(world: World) -> None:
    world.send(make_message("job", "runner", sender=USER))
    world.send(make_message("p1", "worker", sender="runner", part_of="job"))
    world.says("done", "p1")
    world.wait(60)
    assert notices(world, "runner") == []  # its run may send more
    world.send(make_message("p2", "worker", sender="runner", part_of="job"))
    world.ends("job", ev.Outcome.DONE)
    world.says("done", "p2")
    world.wait(60)
    assert [parts_in(one) for one in notices(world, "runner")] == [["p1", "p2"]]


def test_a_busy_pane_is_told_when_it_is_idle(world: World) -> None:
    world.send(make_message("job", "pane", sender=USER))
    world.says("seen", "job", "pane")
    world.tell(ev.AgentShowed("pane", Doing.BUSY))
    world.send(make_message("p1", "worker", sender="pane", part_of="job"))
    world.says("done", "p1")
    world.wait(30)
    assert notices(world, "pane") == []
    world.tell(ev.AgentShowed("pane", Doing.IDLE))
    world.wait(5)
    assert len(notices(world, "pane")) == 1


# --- who waits for others is not idle ---------------------------------------------------------------------------------
def test_a_pane_waits_for_the_parts_of_what_it_holds(world: World) -> None:
    world.send(make_message("job", "pane", sender=USER))
    world.says("ack", "job", "pane")
    world.send(make_message("p1", "worker", sender="pane", part_of="job"))
    world.tell(ev.AgentShowed("pane", Doing.IDLE))
    assert world.fact("message_waits", "job")["waits_for"] == ["worker"]


def test_a_part_of_something_else_is_not_waited_for_with_this_message(world: World) -> None:
    world.send(make_message("job", "pane", sender=USER))
    world.says("ack", "job", "pane")
    world.send(make_message("p1", "worker", sender="pane", part_of="other"))
    world.tell(ev.AgentShowed("pane", Doing.IDLE))
    assert world.facts("message_waits", "job") == []


def test_nobody_is_overdue_while_the_parts_of_its_work_move(world: World) -> None:
    world.says("ack", "goal", "leader")
    part(world, "p1")
    world.wait(1000)
    part(world, "p2")
    world.wait(1700)
    assert world.facts("message_overdue", "goal") == []
    world.wait(200)
    assert len(world.facts("message_overdue", "goal")) == 1  # nothing has moved for task_timeout_s


# --- crashes ----------------------------------------------------------------------------------------------------------
def test_what_ended_before_a_crash_is_told_of_after_it(world: World) -> None:
    part(world, "p1")
    part(world, "p2")
    world.says("done", "p1")
    restart(world, away_s=5)
    world.wait(5)
    world.says("done", "p2")
    world.wait(60)
    assert [sorted(parts_in(one)) for one in notices(world)] == [["p1", "p2"]]


def test_a_crash_before_anybody_was_told_changes_nothing(world: World) -> None:
    part(world, "p1")
    world.says("done", "p1")
    restart(world)
    world.wait(60)
    assert [parts_in(one) for one in notices(world)] == [["p1"]]


def test_a_crash_between_the_notice_and_its_entry_makes_the_same_notice_which_is_not_told_twice(world: World) -> None:
    part(world, "p1")
    world.says("done", "p1")
    while not notices(world):
        if lane := next((name for name, waiting in world.lanes.items() if waiting), None):
            world.work(lane)
        else:
            world.wait_for_next_timer()
    restart(world)
    world.wait(60)
    first, again = notices(world)
    assert first.draft == again.draft
    assert len(world.facts("message_duplicate", first.draft.message_id)) == 1


def test_a_part_that_ended_while_no_daemon_ran_is_told_of(world: World) -> None:
    part(world, "p1")
    del world.files[world.place_of("p1")]
    restart(world)
    world.wait(60)
    assert [parts_in(one) for one in notices(world)] == [["p1"]]


OPERATIONS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(["goal", "goal2"])),
    st.tuples(st.just("end"), st.sampled_from(["done", "done", "refuse", "delete", "cancel"])),
    st.tuples(st.just("requeue"), st.just("")),
    st.tuples(st.just("parent"), st.sampled_from(["goal", "goal2"])),
    st.tuples(st.just("wait"), st.sampled_from(["0.5", "1.5", "30"])),
    st.tuples(st.just("work"), st.sampled_from(["1", "2", "5"])),
    st.tuples(st.just("crash"), st.just("")),
)


@given(st.lists(OPERATIONS, max_size=40))
def test_of_every_end_of_a_part_its_sender_is_told_in_exactly_one_notice(operations: list[tuple[str, str]]) -> None:
    """Whatever crashes in between: the same notice may be written twice, but is recognised by its id."""
    world = World(TEAM)
    for goal in ("goal", "goal2"):
        world.send(make_message(goal, "leader", sender=USER))
    sent, requeued = 0, 0
    for what, how in operations:
        if what == "send":
            sent += 1
            world.handle(world.arrival(world.drop(make_message(f"p{sent}", sender="leader", part_of=how))))
        elif what == "end" and (held := _live_parts(world)):
            if how == "delete":
                world.settle()
                if held[0] in _live_parts(world):
                    world.deletes(held[0])
            else:
                receipt = replace(world.receipt(how, held[0], reason="no"), by="leader")
                world.receipts[receipt.name] = receipt
                world.handle(ev.ReceiptCame(receipt))
        elif what == "requeue":
            dead = [f.message.message_id for p, f in world.files.items() if p.folder is Folder.DEAD]
            world.settle()
            for one in dead[:1]:
                requeued += 1
                world.dig_up("requeue", one, "worker")
        elif what == "parent":
            world.handle(ev.ReceiptCame(world.receipt("done", how, "leader")))
        elif what == "wait":
            world.settle()
            world.wait(float(how))
        elif what == "work":
            for _ in range(int(how)):
                if busy := [lane for lane, waiting in world.lanes.items() if waiting]:
                    world.work(busy[0])
        elif what == "crash":
            restart(world)
    world.settle()
    world.wait(5)
    for one in _live_parts(world):
        world.says("done", one)
    world.wait(60)
    assert _live_parts(world) == []
    distinct = {one.draft.message_id: one for one in notices(world)}
    told = Counter(part for one in distinct.values() for part in parts_in(one))
    assert set(told) == {f"p{number}" for number in range(1, sent + 1)}
    assert sum(told.values()) <= sent + requeued
    assert world.engine.state.families.all() == []
    assert not any(kind is TimerKind.PARTS for kind in TimerKind if (kind, "goal\nleader") in world.engine.state.timers)


def _live_parts(world: World) -> list[str]:
    live = (Folder.QUEUE, Folder.PROCESSED)
    return [f.message.message_id for p, f in world.files.items() if p.folder in live and f.message.part_of]
