"""A queue that filled while no daemon ran: which messages are read at once, and in which order the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.core.message import identity
from ackd.runtime.recovery.backlog import A_FEW, Backlog
from ackd.storage.spool import Spool
from tests.acceptance.teams import mime

if TYPE_CHECKING:
    from pathlib import Path

AGING_S = 600.0
NOW = 1_800_000_000.0


class BacklogSetup:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        self.backlog = Backlog(self.spool)

    def put(self, box: str, name: str, age_s: float = 0.0, data: bytes | None = None, **words: str) -> None:
        self.spool.ensure_box(box)
        path = self.root / "queue" / box / name
        path.write_bytes(mime(to=box, **words) if data is None else data)
        os.utime(path, (NOW - age_s,) * 2)

    def look(self, box: str) -> list[str]:
        return sorted(place.name for place in self.backlog.look_at(box, AGING_S))

    def read(self) -> list[str]:
        return [place.name for few in self.backlog.next_few() for place in few]


@pytest.fixture
def setup(tmp_path: Path) -> BacklogSetup:
    return BacklogSetup(tmp_path)


def test_an_ordinary_message_waits_and_an_answer_does_not(setup: BacklogSetup) -> None:
    setup.put("leader", "m.mime")
    setup.put("leader", "reply.mime", extra="In-Reply-To: <1.1.a@x>\n")
    setup.put("leader", "half.mime", data=b"From: x\nX-IGNITE-Priority: normal\n")
    setup.put("leader", "long.mime", data=b"X-Long: " + b"x" * 5000 + b"\nIn-Reply-To: <1.1.a@x>\n\n")
    (setup.root / "queue/leader/link.mime").symlink_to("nowhere")
    assert setup.look("leader") == ["half.mime", "link.mime", "long.mime", "reply.mime"]
    assert setup.backlog.count("leader") == 1
    assert setup.read() == ["m.mime"]
    assert (setup.backlog.count("leader"), bool(setup.backlog)) == (0, False)


def test_what_a_receipt_names_is_read_at_once(setup: BacklogSetup) -> None:
    setup.put("leader", "m.mime", message_id="1.1.a@x")
    setup.put("leader", "named.mime", message_id="2.2.b@x")
    setup.put("leader", "mentions.mime", message_id="3.3.c@x", body="content: |\n  Message-ID: <2.2.b@x>\n")
    setup.put(
        "leader", "odd.mime", data=mime(message_id="4.4.d@x").replace(b"Message-ID: <4.4.d@x>", b"message-id:4.4.d@x")
    )
    found = setup.backlog.look_at("leader", AGING_S, frozenset({b"2.2.b@x", b"4.4.d@x"}))
    assert sorted(place.name for place in found) == ["named.mime", "odd.mime"]
    assert sorted(setup.read()) == ["m.mime", "mentions.mime"]


def test_within_a_queue_they_are_read_in_the_order_in_which_they_will_be_told(setup: BacklogSetup) -> None:
    for name, age_s, priority in (
        ("low.mime", 5000.0, "low"),
        ("normal.mime", 10.0, "normal"),
        ("old.mime", 500.0, "normal"),
        ("high.mime", 0.0, "high"),
        ("critical.mime", 0.0, "critical"),
    ):
        setup.put("leader", name, age_s, priority=priority)
    setup.look("leader")
    assert setup.read() == ["critical.mime", "low.mime", "high.mime", "old.mime", "normal.mime"]


def test_queues_take_turns(setup: BacklogSetup) -> None:
    for number in range(A_FEW + 1):
        setup.put("long", f"{number}.mime", age_s=100 - number)
    setup.put("short", "s.mime")
    setup.look("long")
    setup.look("short")
    assert setup.read() == [*(f"{n}.mime" for n in range(A_FEW)), "s.mime", f"{A_FEW}.mime"]


def test_what_is_unread_is_counted_by_agent_however_its_queues_are_spelled(setup: BacklogSetup) -> None:
    for box, count in (("leader-1", 2), ("leader_1", 1), ("worker", 3)):
        for number in range(count):
            setup.put(box, f"{number}.mime")
        setup.look(box)
    assert setup.backlog.by_agent(identity) == {"leader_1": 3, "worker": 3}
    setup.read()
    assert not setup.backlog.by_agent(identity)


def test_a_queue_that_is_not_there_is_for_the_caller_to_see(setup: BacklogSetup) -> None:
    with pytest.raises(FileNotFoundError):
        setup.look("nobody")
    assert list(setup.backlog.next_few()) == []


def test_what_is_no_message_by_its_name_does_not_wait(setup: BacklogSetup) -> None:
    setup.put("leader", "notes.txt", data=b"no message\n\n")
    setup.look("leader")
    assert list(setup.backlog.next_few()) == []
