"""The lineage of a new message: which one it is sent for, and when nobody may guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.client import Client, NotHolder
from ackd.core.errors import UnknownMessage
from ackd.formats import ignite

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.client.sending import Sent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("leader", "worker", "helper", "user"):
        (tmp_path / ".ackd/queue" / name).mkdir(parents=True)
    return tmp_path / ".ackd"


@pytest.fixture
def goal(root: Path) -> Sent:
    return Client(root).send("leader", "the goal", sender="user")


def family(sent: Sent) -> dict[str, str]:
    """The headers that say what a message came of."""
    with open(sent.files[0], "rb") as file:  # noqa: PTH123
        fields = {name: ignite.bare_id(value) for name, value in ignite.headers(file.read())}
    wanted = ("X-ACKD-Part-Of", "X-ACKD-Root", "In-Reply-To", "X-IGNITE-Thread-ID", "X-ACKD-Notify-When-Done")
    return {name: fields[name] for name in wanted if name in fields}


def run_of(monkeypatch: pytest.MonkeyPatch, sent: Sent, agent: str) -> None:
    """Be the command that ackd started for a message."""
    monkeypatch.setenv("ACKD_MESSAGE", sent.files[0])
    monkeypatch.setenv("ACKD_MESSAGE_ID", sent.message_id)
    monkeypatch.setenv("ACKD_AGENT", agent)


def test_an_ordinary_message_came_of_nothing(goal: Sent) -> None:
    assert family(goal) == {}


def test_a_part_names_what_it_is_a_part_of_its_root_and_its_thread(root: Path, goal: Sent) -> None:
    part = Client(root, agent="leader").send("worker", "do this", part_of=goal.message_id)
    assert family(part) == {
        "X-ACKD-Part-Of": goal.message_id,
        "X-ACKD-Root": goal.message_id,
        "X-IGNITE-Thread-ID": goal.message_id,
    }
    deeper = Client(root, agent="worker").send("helper", "and this", part_of=part.message_id)
    assert family(deeper) == {
        "X-ACKD-Part-Of": part.message_id,
        "X-ACKD-Root": goal.message_id,
        "X-IGNITE-Thread-ID": goal.message_id,
    }


def test_a_thread_that_has_a_name_keeps_it(root: Path) -> None:
    goal = Client(root).send("leader", "the goal", sender="user", thread_id="release-7")
    part = Client(root, agent="leader").send("worker", "do this", part_of=goal.message_id)
    assert family(part)["X-IGNITE-Thread-ID"] == "release-7"
    other = Client(root, agent="leader").send("worker", "do this", part_of=goal.message_id, thread_id="mine")
    assert family(other)["X-IGNITE-Thread-ID"] == "mine"


def test_every_copy_of_a_part_is_a_part(root: Path, goal: Sent) -> None:
    sent = Client(root, agent="leader").send(["worker", "helper"], "do this", part_of=goal.message_id)
    with open(sent.files[1], "rb") as file:  # noqa: PTH123
        assert ignite.decode(file.read(), "helper").part_of == goal.message_id


def test_a_reply_knows_the_root_and_is_no_part(root: Path, goal: Sent) -> None:
    part = Client(root, agent="leader").send("worker", "do this", part_of=goal.message_id)
    answer = Client(root, agent="worker").reply(part.message_id, "done")
    assert family(answer) == {
        "In-Reply-To": part.message_id,
        "X-ACKD-Root": goal.message_id,
        "X-IGNITE-Thread-ID": goal.message_id,
    }


def test_an_answer_by_its_id_knows_the_root_if_its_sender_has_the_message(root: Path, goal: Sent) -> None:
    part = Client(root, agent="leader").send("worker", "do this", part_of=goal.message_id)
    answer = Client(root, agent="worker").send("leader", "done", in_reply_to=part.message_id)
    assert family(answer)["X-ACKD-Root"] == goal.message_id
    stranger = Client(root, agent="helper").send("leader", "me too", in_reply_to=part.message_id)
    assert family(stranger) == {"In-Reply-To": part.message_id}


def test_only_whoever_has_a_message_sends_parts_of_it(root: Path, goal: Sent) -> None:
    with pytest.raises(NotHolder):
        Client(root, agent="worker").send("helper", "do this", part_of=goal.message_id)
    with pytest.raises(UnknownMessage):
        Client(root, agent="leader").send("worker", "do this", part_of="1.2.deadbeef@ignite.local")
    assert not list((root / "queue/helper").iterdir())


def test_what_a_command_sends_is_part_of_the_message_it_was_started_for(
    root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(monkeypatch, goal, "leader")
    assert family(Client(root).send("worker", "do this"))["X-ACKD-Part-Of"] == goal.message_id


def test_a_command_may_send_what_is_no_part(root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(monkeypatch, goal, "leader")
    assert family(Client(root).send("worker", "by the way", part_of="none")) == {}


@pytest.mark.parametrize(
    ("to", "type_"),
    [
        ("user", "message"),  # who sent it
        ("worker", "notification"),
        ("worker", "progress_update"),
        ("worker", "task_completed"),
    ],
)
def test_what_only_tells_somebody_is_no_part(
    root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch, to: str, type_: str
) -> None:
    run_of(monkeypatch, goal, "leader")
    assert family(Client(root).send(to, "content: x\n", type=type_, force=True)) == {}


def test_an_answer_of_a_command_is_no_part(root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(monkeypatch, goal, "leader")
    assert "X-ACKD-Part-Of" not in family(Client(root).reply(goal.message_id, "done"))


def test_whoever_speaks_for_another_agent_sends_no_part(
    root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(monkeypatch, goal, "leader")
    assert family(Client(root).send("worker", "do this", sender="helper")) == {}


def test_a_program_that_was_left_running_belongs_to_the_message_no_longer(
    root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_of(monkeypatch, goal, "leader")
    monkeypatch.setenv("ACKD_MESSAGE", str(tmp_path / "archived-by-now.mime"))
    assert family(Client(root).send("worker", "do this")) == {}


def test_an_agent_in_a_terminal_has_to_say_what_it_sends_a_part_of(
    root: Path, goal: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may do other things while it has the message."""
    assert goal.message_id
    monkeypatch.setenv("ACKD_AGENT", "leader")
    assert family(Client(root).send("worker", "something else")) == {}


@pytest.mark.parametrize(("wish", "word"), [(True, "yes"), (False, "no")])
def test_a_part_says_whether_its_sender_wants_to_be_told(root: Path, goal: Sent, wish: bool, word: str) -> None:
    sent = Client(root, agent="leader").send("worker", "x", part_of=goal.message_id, notify_when_done=wish)
    assert family(sent)["X-ACKD-Notify-When-Done"] == word
    with open(sent.files[0], "rb") as file:  # noqa: PTH123
        assert ignite.decode(file.read(), "worker").notify is wish
