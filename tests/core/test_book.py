from __future__ import annotations

from ackd.core.book import STORY_LENGTH, Agent, Book, Delivery
from ackd.core.delivery import State
from ackd.core.ladder import Ladder
from ackd.core.message import Folder, Place
from ackd.core.policy import AgentPolicy
from tests.core.driving import letter


def book_with(*ids: str) -> tuple[Book, list[Delivery]]:
    book = Book()
    book.agents["worker"] = Agent("worker", AgentPolicy(max_in_flight=2), "tmux")
    places = [Place("worker", Folder.QUEUE, f"{number}.mime") for number in range(len(ids))]
    return book, [book.open(letter(one), place, 0, 0) for one, place in zip(ids, places, strict=True)]


def test_a_delivery_is_found_by_key_by_place_and_by_id() -> None:
    book, (one,) = book_with("a")
    assert book.get(one.key) is book.at(one.place) is book.of_id("a", "worker")[0] is one
    assert len(book) == 1


def test_a_closed_delivery_is_found_nowhere() -> None:
    book, (one,) = book_with("a")
    book.set_state(one, State.PROCESSING)
    book.close(one)
    assert (book.get(one.key), book.at(one.place), book.of_id("a", "worker")) == (None, None, [])
    assert not book.agents["worker"].window


def test_a_relocated_delivery_is_found_at_its_new_place_only() -> None:
    book, (one,) = book_with("a")
    old, new = one.place, Place("worker", Folder.PROCESSED, "0.mime")
    book.relocate(one, new)
    assert (book.at(old), book.at(new)) == (None, one)


def test_another_file_at_the_old_place_is_not_forgotten_with_the_first() -> None:
    book, (one,) = book_with("a")
    old = one.place
    book.relocate(one, Place("worker", Folder.PROCESSED, "0.mime"))
    other = book.open(letter("b"), old, 0, 0)
    book.close(one)
    assert book.at(old) is other


def test_the_window_holds_what_is_in_hand() -> None:
    book, (one, two) = book_with("a", "b")
    agent = book.agents["worker"]
    rooms = []
    for delivery, state in ((one, State.CLAIMING), (two, State.ACKED)):
        book.set_state(delivery, state)
        rooms.append(agent.has_room)
    assert rooms == [True, False]
    book.set_state(one, State.RETRYING)
    assert agent.window == {two.key}


def test_a_message_that_leaves_its_agents_silence_leaves_the_ladder() -> None:
    book, (one, two) = book_with("a", "b")
    agents = book.agents.values()
    for agent in agents:
        agent.ladder = Ladder(one.key, 2)
    book.set_state(two, State.RETRYING)
    assert [agent.ladder for agent in agents] == [Ladder(one.key, 2)]
    book.set_state(one, State.RETRYING)
    assert [agent.ladder for agent in agents] == [None]


def test_a_receipt_for_a_copied_id_means_the_one_in_its_agents_hands() -> None:
    book, (first, second) = book_with("same", "same")
    book.set_state(second, State.DELIVERED)
    assert book.addressed("same", "worker") is second
    book.set_state(second, State.FINISHING)
    assert book.addressed("same", "worker") is first
    book.set_state(first, State.BURYING)
    assert book.addressed("same", "worker") is first
    assert book.addressed("other", "worker") is None


def test_only_a_dead_one_can_be_dug_up() -> None:
    book, (living, dead) = book_with("same", "same")
    assert book.dead_one("same", "worker") is None
    dead.state = State.DEAD
    assert book.dead_one("same", "worker") is dead
    assert book.addressed("same", "worker") is living


def test_the_story_keeps_the_newest_attempts() -> None:
    _, (one,) = book_with("a")
    for number in range(STORY_LENGTH + 5):
        one.remember(float(number), f"attempt {number}")
    assert len(one.story) == STORY_LENGTH
    assert one.story[-1] == (STORY_LENGTH + 4.0, f"attempt {STORY_LENGTH + 4}")


def test_a_dug_up_message_counts_from_nothing_and_is_new() -> None:
    _, (one,) = book_with("a")
    one.retries, one.crashes, one.tells, one.late, one.reason = 3, 2, 4, True, "silent"
    one.live_again(500.0)
    assert (one.retries, one.crashes, one.tells, one.late, one.reason) == (0, 0, 0, False, "")
    assert (one.arrived_at, one.met_at) == (500.0, 500.0)
