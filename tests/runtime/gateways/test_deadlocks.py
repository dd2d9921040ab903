"""What is said about circles of waits, over lives of the daemon: once each, whatever happens in between."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters.clock import SystemClock
from ackd.core.bus_layout import Track
from ackd.core.deadlock import MOST, Wait
from ackd.core.errors import UnknownAgent
from ackd.runtime.gateways.deadlocks import Deadlocks
from ackd.runtime.gateways.gateway import Around

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

AT = 1_794_791_723.0
TRACK = Track("/srv/team/auth/.message-bus", "auth")
A_WAITS, B_WAITS = Wait("w1", "w2", "src/a.py", AT), Wait("w2", "w1", "src/b.py", AT + 7)
CIRCLE = [A_WAITS, B_WAITS]
AGENTS = {"w1": "worker_1", "w2": "worker_2"}


@dataclass
class House:
    """Mail and lines that outlive a daemon; ``fails_at``: the so manieth mail or line is where it dies."""

    state: Path
    mailed: list[Draft] = field(default_factory=list)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fails_at: int | None = None
    team: frozenset[str] = frozenset({"worker_1", "worker_2", "leader"})

    def __post_init__(self) -> None:
        self.life()

    def life(self, orchestrator: str = "leader", *, durable: bool = True) -> None:
        """A daemon's: what it had in memory is gone."""
        self.deadlocks = Deadlocks(
            Around(
                clock=SystemClock(),
                record=self._record,
                mail=self._mail,
                post=lambda _event: None,
                called=lambda name: name if name in self.team else None,
                base=self.state,
                root=self.state,
                state=self.state,
                settle_s=0,
                durable=durable,
            ),
            orchestrator,
        )

    async def look(self, *waits: Wait, track: Track = TRACK) -> None:
        await self.deadlocks.look(track, waits, AGENTS.get)

    def _step(self) -> None:
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at < 0:
                raise OSError(errno.EIO, "killed here")

    def _record(self, type_: str, data: dict[str, object]) -> None:
        self._step()
        self.lines.append((type_, data))

    async def _mail(self, draft: Draft) -> None:
        self._step()
        if draft.recipient not in self.team:
            raise UnknownAgent(draft.recipient)
        self.mailed.append(draft)

    def types(self) -> list[str]:
        return [type_ for type_, _ in self.lines]

    def read_by(self, agent: str) -> list[str]:
        """Each message once, as the engine sees to."""
        found = {draft.message_id: str(draft.body["content"]) for draft in self.mailed if draft.recipient == agent}
        return list(found.values())


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_a_new_circle_is_one_line_and_mail_to_its_members_and_their_leader(house: House) -> None:
    await house.look(*CIRCLE)
    ((type_, line),) = house.lines
    assert type_ == "deadlock_detected"
    assert (line["track"], line["members"], line["youngest"]) == ("auth", ["w1", "w2"], "w2")
    assert line["told"] == ["leader", "worker_1", "worker_2"]
    assert line["waits"][1] == {"waiter": "w2", "holder": "w1", "what": "src/b.py", "since": "2026-11-16T01:15:30Z"}
    assert "please yield" in house.read_by("worker_2")[0]
    assert "was asked to yield" in house.read_by("worker_1")[0]
    assert "w2, who began to wait last, is to yield" in house.read_by("leader")[0]
    assert {(draft.type, draft.sender, draft.thread_id) for draft in house.mailed} == {
        ("message", "queue_monitor", line["deadlock_id"])
    }


async def test_a_circle_that_lasts_is_told_once_also_by_the_next_daemon(house: House) -> None:
    for _ in range(3):
        await house.look(*CIRCLE)
    house.life()
    await house.look(*CIRCLE)
    assert house.types() == ["deadlock_detected"]
    assert len(house.mailed) == 3


async def test_waits_that_say_anew_since_when_are_the_same_circle(house: House) -> None:
    """A worker that is blocked says so with every heartbeat."""
    await house.look(*CIRCLE)
    await house.look(Wait("w1", "w2", "src/a.py", AT + 60), Wait("w2", "w1", "src/b.py", AT + 67))
    assert house.types() == ["deadlock_detected"]


@pytest.mark.parametrize("left", [[A_WAITS], [B_WAITS], []])
async def test_a_released_lease_breaks_it_and_formed_anew_it_is_told_anew(house: House, left: list[Wait]) -> None:
    await house.look(*CIRCLE)
    await house.look(*left)
    assert house.types() == ["deadlock_detected", "deadlock_broken"]
    assert house.lines[1][1]["deadlock_id"] == house.lines[0][1]["deadlock_id"]
    house.life()
    await house.look(*left)
    await house.look(A_WAITS, Wait("w2", "w1", "src/b.py", AT + 500))
    assert house.types() == ["deadlock_detected", "deadlock_broken", "deadlock_detected"]
    assert len(house.read_by("worker_1")) == 2


async def test_a_wait_that_is_history_is_no_edge(house: House) -> None:
    """[message-bus] Historic BLOCKED messages make phantom deadlocks: w1 was blocked by w2 once, and is not any more."""
    await house.look(B_WAITS)
    await house.look(A_WAITS)
    assert (house.lines, house.mailed) == ([], [])


async def test_who_is_no_agent_gets_no_mail_and_the_others_do(house: House) -> None:
    await house.look(Wait("w1", "ghost", "x", AT), Wait("ghost", "w1", "y", AT + 1))
    assert [draft.recipient for draft in house.mailed] == ["worker_1", "leader"]
    house.team = frozenset({"leader"})
    await house.look(*CIRCLE)
    assert house.lines[-1][1]["told"] == ["leader"]


async def test_an_agent_that_leaves_as_it_is_told_holds_up_nobody(house: House) -> None:
    whole, house.deadlocks.around.__dict__["called"] = house.team, lambda name: name
    house.team = whole - {"worker_1"}
    await house.look(*CIRCLE)
    assert [draft.recipient for draft in house.mailed] == ["worker_2", "leader"]


async def test_a_leader_who_is_a_member_and_an_agent_of_two_workers_read_it_once(house: House) -> None:
    house.life(orchestrator="worker_1")
    await house.deadlocks.look(TRACK, CIRCLE, lambda _worker: "worker_1")
    (only,) = house.mailed
    assert "please yield" in str(only.body["content"])


async def test_tracks_are_told_apart(house: House) -> None:
    other = Track("/srv/team/billing/.message-bus", "billing")
    await house.look(*CIRCLE)
    await house.look(*CIRCLE, track=other)
    await house.look(track=other)
    assert [(type_, line["track"]) for type_, line in house.lines] == [
        ("deadlock_detected", "auth"),
        ("deadlock_detected", "billing"),
        ("deadlock_broken", "billing"),
    ]


@pytest.mark.parametrize("step", range(5))
async def test_killed_at_any_step_everybody_hears_of_it_once_and_the_log_says_so(house: House, step: int) -> None:
    house.fails_at = step
    try:
        await house.look(*CIRCLE)
    except OSError:
        house.fails_at = None
        house.life()
        moved = [Wait(wait.waiter, wait.holder, wait.what, wait.since + 100) for wait in CIRCLE]
        await house.look(*moved)  # even if since when is said anew by then
    assert [len(house.read_by(agent)) for agent in ("worker_1", "worker_2", "leader")] == [1, 1, 1]
    first, *again = [line for type_, line in house.lines if type_ == "deadlock_detected"]
    assert all(line["recovered"] for line in again)
    assert len(again) <= 1
    assert {line["deadlock_id"] for line in again} <= {first["deadlock_id"]}
    before = len(house.mailed)
    await house.look(*CIRCLE)
    assert len(house.mailed) == before


async def test_a_disk_that_refuses_for_a_while_makes_no_second_line(house: House) -> None:
    for refused in (1, 0, 0):
        house.fails_at = refused
        with pytest.raises(OSError, match="killed here"):
            await house.look(*CIRCLE)
    house.fails_at = None
    await house.look(*CIRCLE)
    assert house.types() == ["deadlock_detected"]
    assert len(house.mailed) == 3


@pytest.mark.parametrize(
    "found", [b"", b"[]", b"{", b'{"deadlocks": [7]}', b'{"deadlocks": [{"members": ["a"]}]}', b"\xff"]
)
async def test_a_state_that_cannot_be_read_tells_again_under_the_same_ids(house: House, found: bytes) -> None:
    await house.look(*CIRCLE)
    (path,) = house.state.iterdir()
    path.write_bytes(found)
    house.life()
    await house.look(*CIRCLE)
    assert len(house.read_by("worker_1")) == 1
    assert path.stat().st_mode & 0o777 == 0o600


async def test_more_circles_than_anyone_could_read_are_not_all_told(house: House) -> None:
    names = [f"x{number:02}" for number in range(30)]
    everyone = [Wait(a, b, "x", AT) for a in names for b in names if a != b]
    house.life(durable=False)
    await house.look(*everyone)
    await house.look(*everyone)
    assert house.types().count("deadlock_detected") == MOST
    await house.look()
    assert house.types().count("deadlock_broken") == MOST
