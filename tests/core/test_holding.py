"""Measures against agents that answer each other without an end."""

from __future__ import annotations

import itertools

import pytest

from ackd.coordination.ensemble.rules import plain_words
from ackd.core import effects as fx
from ackd.core.message import Folder
from ackd.core.policy import EnginePolicy
from tests.core.engine_world import HANDLER, TEAM, World, make_message

LIMIT = 2
HELD_AT = LIMIT * 10


def world_of(*names: str, limit: int = LIMIT) -> World:
    team = {**TEAM, **dict.fromkeys(names, (HANDLER, "handler"))}
    return World(team, EnginePolicy(escalate_to="leader", loop_limit=limit))


def go_around(world: World, circle: tuple[str, ...], rounds: int, *, chain: bool = True, begin: int = 0) -> list[str]:
    """Send the first message of a thread and so many rounds of answers; return their ids."""
    ids = []
    way = itertools.pairwise(itertools.islice(itertools.cycle(circle), rounds * len(circle) + 1 + chain))
    for number, (sender, to) in enumerate(way, begin):
        before = f"m{number - 1}@x" if number and chain else None
        world.send(make_message(f"m{number}@x", to, sender=sender, thread_id="t1", in_reply_to=before))
        ids.append(f"m{number}@x")
    return ids


def test_six_rounds_of_coder_and_reviewer_cost_one_notice_and_hold_nothing() -> None:
    world = world_of("coder", "reviewer", limit=5)
    ids = go_around(world, ("coder", "reviewer"), 6)
    (loop,) = world.facts("loop_detected")
    assert (loop["members"], loop["about"], loop["rounds"]) == (["coder", "reviewer"], "t1", 6)
    (notice,) = world.mail("notification")
    assert notice.draft.recipient == "leader"
    assert not plain_words.vague_words(f"{notice.draft.body['summary']} {notice.draft.body['action']}")
    assert world.facts("message_held") == []
    assert not world.mail("escalation")
    assert sorted(world.told("coder") + world.told("reviewer")) == sorted(ids)


@pytest.mark.parametrize("circle", [("a", "b"), ("a", "b", "c")])
def test_a_chain_of_answers_without_end_is_held_told_and_shown(circle: tuple[str, ...]) -> None:
    world = world_of(*circle)
    *_, newest = go_around(world, circle, HELD_AT)
    held = world.fact("message_held")
    assert held["message_id"] == newest
    assert held["release"] == f"ackd loop release {newest}"
    delivery = world.delivery(newest)
    assert (delivery.state.value, delivery.held, delivery.place.folder) == ("queued", True, Folder.QUEUE)
    assert delivery.key not in world.agent(delivery.agent).line
    (escalation,) = world.mail("escalation")
    assert f"ackd loop release {newest}" in str(escalation.draft.body["action"])
    assert len(world.mail("notification")) == 1, "and once by its thread"


def test_what_is_held_holds_up_nothing_else() -> None:
    world = world_of("a", "b")
    *before, newest = go_around(world, ("a", "b"), HELD_AT)
    agent = world.delivery(newest).agent
    world.send(make_message("other@x", agent, sender="leader"))
    assert world.told(agent)[-1] == "other@x"
    assert set(world.told("a") + world.told("b")) == {*before, "other@x"}


def test_a_leader_with_sixty_tasks_and_answers_in_one_thread_is_told_of_and_never_held() -> None:
    world = world_of("w", limit=5)
    for number in range(60):
        world.send(make_message(f"t{number}@x", "w", sender="leader", thread_id="sprint"))
        world.send(make_message(f"r{number}@x", "leader", sender="w", thread_id="sprint", in_reply_to=f"t{number}@x"))
    assert world.facts("message_held") == []
    assert len(world.mail("notification")) == 1, "ten loops of one thread are one notice an hour"


def test_what_was_let_go_is_delivered_and_its_escalation_is_closed() -> None:
    world = world_of("a", "b")
    *_, newest = go_around(world, ("a", "b"), HELD_AT)
    agent = world.delivery(newest).agent
    world.says("release", newest, agent)
    assert world.told(agent)[-1] == newest
    assert world.fact("message_released")["message_id"] == newest
    assert world.fact("escalation_closed")["how"] == "released"
    assert not world.engine.state.held
    assert not world.receipts


def test_a_restart_holds_it_too_and_forgets_what_went_meanwhile() -> None:
    world = world_of("a", "b")
    *_, newest = go_around(world, ("a", "b"), HELD_AT)
    kept = dict(world.engine.state.held)
    world.lanes.clear()
    world._engine()
    world.engine.state.held.update({**kept, ("gone@x", "a"): next(iter(kept.values()))})
    for place in sorted(world.files, key=str):
        if place.folder in (Folder.QUEUE, Folder.PROCESSED):
            world.handle(world.arrival(place, recovered=True))
    world.wait(1)
    assert world.delivery(newest).held
    assert world.state_of(newest) == "queued"
    assert set(world.engine.state.held) == set(kept)


@pytest.mark.parametrize("word", ["done", "refuse", "ack"])
def test_its_agent_may_take_or_end_what_is_held(word: str) -> None:
    world = world_of("a", "b")
    *_, newest = go_around(world, ("a", "b"), HELD_AT)
    world.says(word, newest, world.delivery(newest).agent)
    assert not world.engine.state.held


@pytest.mark.parametrize("word", ["done", "refuse"])
def test_what_is_on_its_way_out_is_not_let_go_into_the_line(word: str) -> None:
    world = world_of("a", "b")
    *_, newest = go_around(world, ("a", "b"), HELD_AT)
    agent = world.delivery(newest).agent
    told = world.told(agent)
    world.refused = {fx.ArchiveMessage, fx.BuryMessage}
    world.says(word, newest, agent)
    world.says("release", newest, agent)
    world.refused = set()
    world.wait(10)
    assert world.told(agent) == told
    assert world.folder_of(newest) is {"done": Folder.ARCHIVE, "refuse": Folder.DEAD}[word]
    assert world.engine.state.held == {}


@pytest.mark.parametrize("word", ["done", "refuse"])
def test_who_ends_what_is_held_has_answered_its_escalation_and_the_next_is_told_of(word: str) -> None:
    world = world_of("a", "b")
    *before, newest = go_around(world, ("a", "b"), HELD_AT)
    world.says(word, newest, world.delivery(newest).agent)
    assert "loop_held" in [one["cause"] for one in world.facts("escalation_closed")]
    go_on = len(before) + 1
    world.send(make_message(f"m{go_on}@x", "a", sender="b"))
    go_around(world, ("a", "b"), HELD_AT, begin=go_on + 1)
    assert [one.draft.body["cause"] for one in world.mail("escalation")].count("loop_held") == 2


def test_to_release_what_is_not_held_changes_nothing_and_is_said() -> None:
    world = world_of("a", "b")
    world.send(make_message("m1@x", "leader"))
    world.says("release", "m1@x", "leader")
    assert "not held" in str(world.fact("message_warning")["warning"])
    assert not world.receipts


def test_our_own_mail_makes_no_loop() -> None:
    world = world_of("a")
    go_around(world, ("queue_monitor", "leader"), 30)
    assert world.facts("loop_detected") + world.facts("message_held") == []
