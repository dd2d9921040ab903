from __future__ import annotations

from ackd.core.delivery import Completion, State
from ackd.core.ladder import Ladder
from ackd.core.message import Folder, Place
from ackd.core.policy import AgentPolicy
from ackd.core.state import HISTORY_LENGTH, Agent, Deliveries, Delivery
from tests.core.engine_world import make_message


def deliveries_with(*ids: str) -> tuple[Deliveries, list[Delivery]]:
    deliveries = Deliveries()
    deliveries.agents["worker"] = Agent("worker", AgentPolicy(max_in_flight=2), "tmux")
    places = [Place("worker", Folder.QUEUE, f"{number}.mime") for number in range(len(ids))]
    return deliveries, [deliveries.open(make_message(one), place, 0, 0) for one, place in zip(ids, places, strict=True)]


def test_a_delivery_is_found_by_key_by_place_and_by_id() -> None:
    deliveries, (one,) = deliveries_with("a")
    assert deliveries.get(one.key) is deliveries.at(one.place) is deliveries.of_id("a", "worker")[0] is one
    assert len(deliveries) == 1


def test_a_closed_delivery_is_found_nowhere() -> None:
    deliveries, (one,) = deliveries_with("a")
    deliveries.set_state(one, State.PROCESSING)
    deliveries.close(one)
    assert (deliveries.get(one.key), deliveries.at(one.place), deliveries.of_id("a", "worker")) == (None, None, [])
    assert not deliveries.agents["worker"].window


def test_a_relocated_delivery_is_found_at_its_new_place_only() -> None:
    deliveries, (one,) = deliveries_with("a")
    old, new = one.place, Place("worker", Folder.PROCESSED, "0.mime")
    deliveries.relocate(one, new)
    assert (deliveries.at(old), deliveries.at(new)) == (None, one)


def test_another_file_at_the_old_place_is_not_forgotten_with_the_first() -> None:
    deliveries, (one,) = deliveries_with("a")
    old = one.place
    deliveries.relocate(one, Place("worker", Folder.PROCESSED, "0.mime"))
    other = deliveries.open(make_message("b"), old, 0, 0)
    deliveries.close(one)
    assert deliveries.at(old) is other


def test_the_window_holds_what_is_in_hand() -> None:
    deliveries, (one, two) = deliveries_with("a", "b")
    agent = deliveries.agents["worker"]
    rooms = []
    for delivery, state in ((one, State.CLAIMING), (two, State.ACKED)):
        deliveries.set_state(delivery, state)
        rooms.append(agent.has_room)
    assert rooms == [True, False]
    deliveries.set_state(one, State.RETRYING)
    assert agent.window == {two.key}


def test_a_message_that_leaves_its_agents_silence_leaves_the_ladder() -> None:
    deliveries, (one, two) = deliveries_with("a", "b")
    agents = deliveries.agents.values()
    for agent in agents:
        agent.ladder = Ladder(one.key, 2)
    deliveries.set_state(two, State.RETRYING)
    assert [agent.ladder for agent in agents] == [Ladder(one.key, 2)]
    deliveries.set_state(one, State.RETRYING)
    assert [agent.ladder for agent in agents] == [None]


def test_a_receipt_for_a_copied_id_means_the_one_in_its_agents_hands() -> None:
    deliveries, (first, second) = deliveries_with("same", "same")
    deliveries.set_state(second, State.DELIVERED)
    assert deliveries.addressed("same", "worker") is second
    deliveries.set_state(second, State.FINISHING)
    assert deliveries.addressed("same", "worker") is first
    deliveries.set_state(first, State.BURYING)
    assert deliveries.addressed("same", "worker") is first
    assert deliveries.addressed("other", "worker") is None


def test_only_a_dead_one_can_be_dug_up() -> None:
    deliveries, (living, dead) = deliveries_with("same", "same")
    assert deliveries.dead_one("same", "worker") is None
    dead.state = State.DEAD
    assert deliveries.dead_one("same", "worker") is dead
    assert deliveries.addressed("same", "worker") is living


def test_the_history_keeps_the_newest_attempts() -> None:
    _, (one,) = deliveries_with("a")
    for number in range(HISTORY_LENGTH + 5):
        one.remember(float(number), f"attempt {number}")
    assert len(one.history) == HISTORY_LENGTH
    assert one.history[-1] == (HISTORY_LENGTH + 4.0, f"attempt {HISTORY_LENGTH + 4}")


def test_a_dug_up_message_counts_from_nothing_and_is_new() -> None:
    _, (one,) = deliveries_with("a")
    one.retries, one.crashes, one.tells, one.completion, one.reason = 3, 2, 4, Completion.LATE, "silent"
    one.reset_for_requeue(500.0)
    assert (one.retries, one.crashes, one.tells, one.reason) == (0, 0, 0, "")
    assert one.completion is Completion.DEALT_WITH
    assert (one.arrived_at, one.met_at) == (500.0, 500.0)
