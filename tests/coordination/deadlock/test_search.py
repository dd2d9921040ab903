"""Each circle of waits is logged and mailed once, also over crashes and restarts of the daemon."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.rules.words import WorkerWait
from ackd.coordination.deadlock.rules import MOST
from ackd.coordination.deadlock.search import Deadlocks
from ackd.coordination.gateway import GatewayServices
from ackd.core.errors import UnknownAgent
from ackd.system.clock import SystemClock
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.fact import Fact
    from ackd.core.message import Draft

AT = 1_794_791_723.0
TRACK = Track("/srv/team/auth/.message-bus", "auth")
A_WAITS, B_WAITS = WorkerWait("w1", "w2", "src/a.py", AT), WorkerWait("w2", "w1", "src/b.py", AT + 7)
CIRCLE = [A_WAITS, B_WAITS]
AGENTS = {"w1": "worker_1", "w2": "worker_2"}


@dataclass
class DeadlockTeam:
    """The mail and log lines of several daemons, one after the other.

    ``fails_at``: after so many mails and lines the next one fails, as if the daemon were killed there.
    """

    state: Path
    mailed: list[Draft] = field(default_factory=list)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fails_at: int | None = None
    agents: frozenset[str] = frozenset({"worker_1", "worker_2", "leader"})

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, orchestrator: str = "leader", *, durable: bool = True) -> None:
        """Start the next daemon: everything that the last one had in memory is gone."""
        self.deadlocks = Deadlocks(
            GatewayServices(
                clock=SystemClock(),
                record=self._record,
                mail=self._mail,
                post=lambda _event: None,
                called=lambda name: name if name in self.agents else None,
                base=self.state,
                root=self.state,
                state=self.state,
                live=live_config(settle_s=0),
                durable=durable,
            ),
            orchestrator,
        )

    async def look(self, *waits: WorkerWait, track: Track = TRACK) -> None:
        await self.deadlocks.look(track, waits, AGENTS.get)

    def _step(self) -> None:
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at < 0:
                raise OSError(errno.EIO, "killed here")

    def _record(self, fact: Fact) -> None:
        type_, data = fact
        self._step()
        self.lines.append((type_, data))

    async def _mail(self, draft: Draft) -> None:
        self._step()
        if draft.recipient not in self.agents:
            raise UnknownAgent(draft.recipient)
        self.mailed.append(draft)

    def types(self) -> list[str]:
        return [type_ for type_, _ in self.lines]

    def read_by(self, agent: str) -> list[str]:
        """Return what the agent reads: each message once, because the engine knows an id that it has met."""
        found = {draft.message_id: str(draft.body["content"]) for draft in self.mailed if draft.recipient == agent}
        return list(found.values())


@pytest.fixture
def team(tmp_path: Path) -> DeadlockTeam:
    return DeadlockTeam(tmp_path)


async def test_a_new_circle_is_one_line_and_mail_to_its_members_and_their_leader(team: DeadlockTeam) -> None:
    await team.look(*CIRCLE)
    ((type_, line),) = team.lines
    assert type_ == "deadlock_detected"
    assert (line["track"], line["members"], line["youngest"]) == ("auth", ["w1", "w2"], "w2")
    assert line["told"] == ["leader", "worker_1", "worker_2"]
    assert line["waits"][1] == {"waiter": "w2", "holder": "w1", "what": "src/b.py", "since": "2026-11-16T01:15:30Z"}
    assert "please yield" in team.read_by("worker_2")[0]
    assert "was asked to yield" in team.read_by("worker_1")[0]
    assert "w2, who began to wait last, is to yield" in team.read_by("leader")[0]
    assert {(draft.type, draft.sender, draft.thread_id) for draft in team.mailed} == {
        ("message", "queue_monitor", line["deadlock_id"])
    }


async def test_a_circle_that_lasts_is_told_once_also_by_the_next_daemon(team: DeadlockTeam) -> None:
    for _ in range(3):
        await team.look(*CIRCLE)
    team.restart()
    await team.look(*CIRCLE)
    assert team.types() == ["deadlock_detected"]
    assert len(team.mailed) == 3


async def test_waits_that_say_anew_since_when_are_the_same_circle(team: DeadlockTeam) -> None:
    """A worker that is blocked says so with every heartbeat."""
    await team.look(*CIRCLE)
    await team.look(WorkerWait("w1", "w2", "src/a.py", AT + 60), WorkerWait("w2", "w1", "src/b.py", AT + 67))
    assert team.types() == ["deadlock_detected"]


@pytest.mark.parametrize("left", [[A_WAITS], [B_WAITS], []])
async def test_a_released_lease_breaks_it_and_formed_anew_it_is_told_anew(
    team: DeadlockTeam, left: list[WorkerWait]
) -> None:
    await team.look(*CIRCLE)
    await team.look(*left)
    assert team.types() == ["deadlock_detected", "deadlock_broken"]
    assert team.lines[1][1]["deadlock_id"] == team.lines[0][1]["deadlock_id"]
    team.restart()
    await team.look(*left)
    await team.look(A_WAITS, WorkerWait("w2", "w1", "src/b.py", AT + 500))
    assert team.types() == ["deadlock_detected", "deadlock_broken", "deadlock_detected"]
    assert len(team.read_by("worker_1")) == 2


async def test_a_wait_that_is_history_is_no_edge(team: DeadlockTeam) -> None:
    """[message-bus] Old BLOCKED messages make phantom deadlocks: w1 was blocked by w2 once, and is no longer."""
    await team.look(B_WAITS)
    await team.look(A_WAITS)
    assert (team.lines, team.mailed) == ([], [])


async def test_who_is_no_agent_gets_no_mail_and_the_others_do(team: DeadlockTeam) -> None:
    await team.look(WorkerWait("w1", "ghost", "x", AT), WorkerWait("ghost", "w1", "y", AT + 1))
    assert [draft.recipient for draft in team.mailed] == ["worker_1", "leader"]
    team.agents = frozenset({"leader"})
    await team.look(*CIRCLE)
    assert team.lines[-1][1]["told"] == ["leader"]


async def test_an_agent_that_leaves_as_it_is_told_holds_up_nobody(team: DeadlockTeam) -> None:
    whole, team.deadlocks.services.__dict__["called"] = team.agents, lambda name: name
    team.agents = whole - {"worker_1"}
    await team.look(*CIRCLE)
    assert [draft.recipient for draft in team.mailed] == ["worker_2", "leader"]


async def test_a_leader_who_is_a_member_and_an_agent_of_two_workers_read_it_once(team: DeadlockTeam) -> None:
    team.restart(orchestrator="worker_1")
    await team.deadlocks.look(TRACK, CIRCLE, lambda _worker: "worker_1")
    (only,) = team.mailed
    assert "please yield" in str(only.body["content"])


async def test_tracks_are_told_apart(team: DeadlockTeam) -> None:
    other = Track("/srv/team/billing/.message-bus", "billing")
    await team.look(*CIRCLE)
    await team.look(*CIRCLE, track=other)
    await team.look(track=other)
    assert [(type_, line["track"]) for type_, line in team.lines] == [
        ("deadlock_detected", "auth"),
        ("deadlock_detected", "billing"),
        ("deadlock_broken", "billing"),
    ]


@pytest.mark.parametrize("step", range(5))
async def test_killed_at_any_step_everybody_hears_of_it_once_and_the_log_says_so(team: DeadlockTeam, step: int) -> None:
    team.fails_at = step
    try:
        await team.look(*CIRCLE)
    except OSError:
        team.fails_at = None
        team.restart()
        moved = [WorkerWait(wait.waiter, wait.holder, wait.what, wait.since + 100) for wait in CIRCLE]
        await team.look(*moved)  # also if by then the waits give another time since when
    assert [len(team.read_by(agent)) for agent in ("worker_1", "worker_2", "leader")] == [1, 1, 1]
    first, *again = [line for type_, line in team.lines if type_ == "deadlock_detected"]
    assert all(line["recovered"] for line in again)
    assert len(again) <= 1
    assert {line["deadlock_id"] for line in again} <= {first["deadlock_id"]}
    before = len(team.mailed)
    await team.look(*CIRCLE)
    assert len(team.mailed) == before


async def test_a_disk_that_refuses_for_a_while_makes_no_second_line(team: DeadlockTeam) -> None:
    for refused in (1, 0, 0):
        team.fails_at = refused
        with pytest.raises(OSError, match="killed here"):
            await team.look(*CIRCLE)
    team.fails_at = None
    await team.look(*CIRCLE)
    assert team.types() == ["deadlock_detected"]
    assert len(team.mailed) == 3


@pytest.mark.parametrize(
    "found", [b"", b"[]", b"{", b'{"deadlocks": [7]}', b'{"deadlocks": [{"members": ["a"]}]}', b"\xff"]
)
async def test_a_state_that_cannot_be_read_tells_again_under_the_same_ids(team: DeadlockTeam, found: bytes) -> None:
    await team.look(*CIRCLE)
    (path,) = team.state.iterdir()
    path.write_bytes(found)
    team.restart()
    await team.look(*CIRCLE)
    assert len(team.read_by("worker_1")) == 1
    assert path.stat().st_mode & 0o777 == 0o600


async def test_more_circles_than_anyone_could_read_are_not_all_told(team: DeadlockTeam) -> None:
    names = [f"x{number:02}" for number in range(30)]
    everyone = [WorkerWait(a, b, "x", AT) for a in names for b in names if a != b]
    team.restart(durable=False)
    await team.look(*everyone)
    await team.look(*everyone)
    assert team.types().count("deadlock_detected") == MOST
    await team.look()
    assert team.types().count("deadlock_broken") == MOST
