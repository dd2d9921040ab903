"""`ackd thread` and `ackd explain --tree`: the tree as people and programs are shown it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ackd import facts
from ackd.cli.thread import as_lines
from ackd.client.threads import Thread, ThreadMessage, ThreadRecipient
from tests.cli.conftest import team

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Team

__all__ = ["team"]

START = 1_794_794_800.0


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def one(name: str, depth: int, how: str | None, way: tuple[str, str], *to: ThreadRecipient) -> ThreadMessage:
    sender, type_ = way
    return ThreadMessage(
        f"1794794802.29247.{name}1f00d00001@ignite.local", "x" if depth else None, how, depth, sender, type_, to
    )


def at(agent: str, state: str, after_s: float = 8, reason: str | None = None, *waits: str) -> ThreadRecipient:
    return ThreadRecipient(agent, state, START, START + after_s, reason, waits)


TREE = (
    one("7c", 0, None, ("user", "task_assignment"), at("leader", "acked", 2, None, "worker-three", "w4")),
    one("a1", 1, "part", ("leader", "message"), at("w1", "completed")),
    one("b1", 2, "part", ("w1", "message"), at("w2", "completed"), at("w5", "dead", 9, "exit 1: no such file")),
    one("c1", 3, "answer", ("w2", "message"), at("w1", "completed")),
    one("d1", 1, "part", ("leader", "message"), at("worker-three", "delivered")),
    one("e1", 2, "notice", ("queue_monitor", "notification"), at("w1", "queued")),
)


def drawn(width: int = 0, asked: int = 0, messages: tuple[ThreadMessage, ...] = TREE) -> list[str]:
    return list(as_lines(Thread(messages[asked].message_id, messages), width=width, now=START + 302, colour=False))


def test_a_tree_shows_who_has_what_since_when_and_who_waits_for_whom() -> None:
    assert drawn(width=80, asked=2) == [
        "1794794802.29247.7c1f00d00001 task_assignment, user → leader",
        "│  leader: acked for 5 min, waits for worker-three, w4",
        "├─ a11f00d0 part, message, leader → w1",
        "│  │  w1: completed after 8 s at 02:06:48",
        "│  └─ b11f00d0 part, message, w1 → w2, w5  (asked for)",
        "│     │  w2: completed after 8 s at 02:06:48",
        "│     │  w5: dead after 9 s at 02:06:49: exit 1: no such file",
        "│     └─ c11f00d0 answer, message, w2 → w1",
        "│           w1: completed after 8 s at 02:06:48",
        "└─ d11f00d0 part, message, leader → worker-three",
        "   │  worker-three: delivered for 5 min",
        "   └─ e11f00d0 notice, notification, queue_monitor → w1",
        "         w1: queued for 5 min",
        "5 came of it, for 6 recipients: 3 completed, 1 dead, 1 delivered, 1 queued",
    ]


def test_a_narrow_terminal_folds_lines_and_keeps_the_tree() -> None:
    assert drawn(width=40)[:12] == [
        "1794794802.29247.7c1f00d00001",
        "│  task_assignment, user → leader",
        "│  leader: acked for 5 min, waits for",
        "│  worker-three, w4",
        "├─ a11f00d0 part, message, leader → w1",
        "│  │  w1: completed after 8 s at",
        "│  │  02:06:48",
        "│  └─ b11f00d0 part, message, w1 → w2,",
        "│     │  w5",
        "│     │  w2: completed after 8 s at",
        "│     │  02:06:48",
        "│     │  w5: dead after 9 s at 02:06:49:",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal_however_deep_the_thread_and_long_the_words(width: int) -> None:
    deep = tuple(
        one(f"{n:02}", n, "part" if n else None, ("a" * 64, "b" * 64), at("界" * 30, "dead", 9, "x" * 300))
        for n in range(30)
    )
    lines = drawn(width=width, messages=deep)
    assert max(map(facts.cells, lines)) <= width
    assert "".join(lines).count("x" * 10) > 30


def test_hostile_words_draw_nothing_of_their_own() -> None:
    message = one("7c", 0, None, ("us\x1b[2Jer", "mes\nsage"), at("lea\rder", "dead", 1, "no\x1b]0;title\x07"))
    assert all(line.isprintable() for line in drawn(messages=(message,)))


def test_a_message_of_which_nothing_came_says_so() -> None:
    assert drawn(messages=TREE[:1])[-1] == "nothing came of it"


def test_the_command_shows_the_thread_of_any_of_its_messages(team: Team) -> None:
    (team.root / "queue/worker_1").mkdir(parents=True)
    goal = team.send("leader", "--body", "the goal", "--from", "user")
    part = team.send("worker_1", "--body", "a part", "--from", "leader", "--part-of", goal)
    shown = team.ackd("thread", part)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        f"{facts.short_id(goal)} message, user → leader",
        "│  leader: queued, waits for worker_1",
        f"└─ {facts.tiny_id(part)} part, message, leader → worker_1  (asked for)",
        "      worker_1: queued",
        "1 came of it: 1 queued",
    ]
    data = team.json("thread", part)
    assert (data["message_id"], data["root"], data["states"]) == (part, goal, {"queued": 1})
    first, second = data["messages"]
    assert (first["parent"], first["how"], first["depth"]) == (None, None, 0)
    assert (second["parent"], second["how"], second["depth"]) == (goal, "part", 1)
    assert first["recipients"] == [
        {
            "agent": "leader",
            "state": "queued",
            "queued_at": None,
            "since": None,
            "reason": None,
            "waits_for": ["worker_1"],
        }
    ]


def test_explain_shows_one_branch_of_it(team: Team) -> None:
    goal = team.send("leader", "--body", "the goal", "--from", "user")
    part = team.send("worker_1", "--body", "a part", "--from", "leader", "--part-of", goal)
    assert [each["message_id"] for each in team.json("explain", part, "--tree")["messages"]] == [part]
    shown = team.ackd("explain", part, "--tree").stdout
    assert shown.startswith(f"{facts.short_id(part)} message, leader → worker_1\n")


def test_an_unknown_message_ends_66(team: Team) -> None:
    (team.root / "queue/leader").mkdir(parents=True)
    for words in (("thread", "nobody"), ("explain", "nobody", "--tree"), ("wait", "nobody")):
        assert team.ackd(*words).exit_code == 66
