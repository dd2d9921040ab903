"""Writes run/status.json: the daemon's present state, for ``ackd status`` and anyone with ``jq``.

The page is written when it has changed, at most twice a second, and before a person's request is answered. It is
written to a new file and renamed, so that a reader never sees half of it. It says how far the session log reached, so
that a reader who has seen a later line can wait for the next page. It is not flushed: after a power cut there is no
daemon to describe. One file descriptor is kept in reserve for it, so that a daemon that has run out of descriptors can
still say so.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, Final

import anyio

from ackd.core import idle_time
from ackd.core.delivery import SHOWN, State
from ackd.core.escalations import stamp
from ackd.core.idleness import Doing
from ackd.core.screen_rules import is_awaited
from ackd.storage.json_state import JsonState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Mapping
    from pathlib import Path

    from ackd.core.engine import Engine
    from ackd.core.events import Now
    from ackd.core.pools import Pool
    from ackd.core.ports import Clock
    from ackd.core.state import Agent, EngineState

EVERY_S: Final = 0.5
#: Open messages that are looked at for who waits for whom: a page is written twice a second.
_MOST_LOOKED_AT: Final = 1_000
_MOST_WAITS: Final = 100
#: Messages with a deadline that the page names; `ackd inbox` lists all of an agent's.
MOST_DEADLINES: Final = 20


def describe(engine: Engine, unread: Mapping[str, int] | None = None) -> dict[str, object]:
    """Return agents, totals and open escalations, as ``ackd status --json`` shows them.

    ``unread``: by agent, the number of messages that the engine does not know yet.
    """
    state, unread = engine.state, unread or {}
    agents: dict[str, dict[str, object]] = {}
    for agent in state.agents.values():
        entry: dict[str, object] = {
            "endpoint": agent.endpoint,
            "state": agent.state.value,
            "queued": agent.queued + unread.get(agent.name, 0),
            "in_flight": len(agent.window) + agent.retrying,
            "retrying": agent.retrying,
        }
        if agent.policy.reminds:
            entry["unread"] = _unread(state, agent)
        if agent.pool is not None:
            entry |= {"members": list(agent.pool.members), "at_work": _at_work(state, agent.pool)}
        if agent.reason:
            entry["reason"] = agent.reason
        if agent.parked is not None:
            entry["until"] = stamp(agent.parked.until)
        if agent.is_watched:
            entry |= _life(agent, state.now)
        if agent.policy.shows:
            entry |= _screen(state, agent)
        agents[agent.name] = entry
    totals = _totals(engine, agents, sum(unread.values()))
    return {
        "agents": agents,
        "totals": totals,
        "escalations": _escalations(engine),
        **_held(engine),
        **_waits(state),
        **_deadlines(engine),
    }


def _at_work(state: EngineState, pool: Pool) -> int:
    """Count the pool's messages that its members have in hand."""
    windows = (state.agents[name].window for name in pool.members if name in state.agents)
    held = (state.deliveries.get(key) for window in windows for key in window)
    return sum(each is not None and each.message.pool == pool.name for each in held)


def _unread(state: EngineState, agent: Agent) -> int:
    """Count the mail of an inbox that was put there and that nobody has read or acknowledged."""
    held = map(state.deliveries.get, agent.window)
    return sum(each is not None and each.state is State.DELIVERED and not each.seen for each in held)


def _waits(state: EngineState) -> dict[str, object]:
    """List who waits for whom: senders for the messages that others still have, and agents for leases, boards, stories.
    Without any, the key is left out. Of very many open messages the oldest are looked at."""
    sent: dict[tuple[str, str], list[float]] = {}
    for delivery in itertools.islice(state.deliveries, _MOST_LOOKED_AT):
        sender = state.agent_called(delivery.message.sender)
        if sender is not None and sender != delivery.agent and is_awaited(delivery):
            sent.setdefault((sender, delivery.agent), []).append(delivery.arrived_at)
    waits: list[dict[str, object]] = [
        {"agent": sender, "for": whom, "what": _messages(len(since)), "since": stamp(min(since))}
        for (sender, whom), since in sent.items()
    ]
    for agent in state.agents.values():
        said = (wait for each in agent.waits_on.values() for wait in each)
        waits += [{"agent": agent.name, "for": wait.whom, "what": wait.what} for wait in said]
    return {"waits": waits[:_MOST_WAITS]} if waits else {}


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def _held(engine: Engine) -> dict[str, object]:
    """List messages that stay queued until a person releases them. Without any, the key is left out."""
    held = [
        {"message_id": message_id, "agent": agent, "reason": one.words, "since": stamp(one.since)}
        for (message_id, agent), one in engine.state.held.items()
    ]
    return {"held": held} if held else {}


def _deadlines(engine: Engine) -> dict[str, object]:
    """List the open messages that have a deadline, or may expire: those that are due first. Without any, the key is
    left out."""
    state, rows = engine.state, []
    for delivery in (state.deliveries.get(key) for key in state.timed):
        if delivery is None or delivery.due is None:
            continue
        message, due = delivery.message, delivery.due
        row: dict[str, object] = {
            "message_id": message.message_id,
            "agent": delivery.agent,
            "state": SHOWN[delivery.state],
        }
        if message.expires_at is not None:
            row["expires"] = stamp(message.expires_at)
        if message.deadline_at is not None:
            row["deadline"] = stamp(message.deadline_at)
        first = min(at for at in (due.deadline, due.expires) if at is not None)
        rows.append((first, message.message_id, row))
    rows.sort(key=lambda each: each[:2])
    return {"deadlines": [row for *_, row in rows[:MOST_DEADLINES]]} if rows else {}


def _life(agent: Agent, now: Now) -> dict[str, object]:
    """Describe the process or pane behind the agent's endpoint. Unknown values are left out."""
    said: dict[str, object] = {"liveness": agent.vital.value, "worker_state": agent.worker.value}
    said |= {"generation": agent.generation, "deaths": agent.deaths}
    if agent.detail:
        said["detail"] = agent.detail
    if agent.context_usage is not None:
        said["context_usage"] = round(agent.context_usage, 3)
    if agent.last_life is not None:
        said["last_life"] = stamp(now.wall - (now.mono - agent.last_life))
    return said


def _screen(state: EngineState, agent: Agent) -> dict[str, object]:
    """Describe what the agent's screen shows, and the messages it has taken and not finished. Empty values are left
    out."""
    said: dict[str, object] = {} if agent.doing is None else {"doing": agent.doing.value}
    held = idle_time.taken(state, agent)
    waits = dict.fromkeys(str(wait) for each in held for wait in each.waits_for)
    if waits:
        said["waits_for"] = list(waits)
    if held and agent.doing is Doing.IDLE:
        since = max(agent.doing_since, *(each.clock_from for each in held))
        said["idle_since"] = stamp(state.now.wall - (state.now.mono - since))
    if reminders := max((each.idled.reminders for each in held), default=0):
        said["reminders"] = reminders
    if beside := len(agent.beside):
        said["beside"] = beside
    if agent.ladder is not None and agent.ladder.hung:
        said["hung"] = True
    return said


def _totals(engine: Engine, said: Mapping[str, Mapping[str, object]], unread: int) -> dict[str, int]:
    state, agents = engine.state, engine.state.agents.values()
    return {
        "queued": sum(agent.queued for agent in agents) + unread,
        "in_flight": sum(len(agent.window) + agent.retrying for agent in agents),
        "retrying": sum(agent.retrying for agent in agents),
        "unread": sum(number for each in said.values() if isinstance(number := each.get("unread"), int)),
        "completed": state.totals.completed,
        "dead": state.totals.dead,
        "corrupt": state.totals.rejected,
        "withdrawn": state.totals.withdrawn,
        "duplicates": state.totals.duplicates,
    }


def _escalations(engine: Engine) -> list[dict[str, object]]:
    return [
        {
            "escalation_id": one.escalation_id,
            "agent": one.agent,
            "cause": one.cause,
            "to": one.to,
            "since": stamp(one.opened_at),
            "counted": one.counted,
        }
        for one in engine.state.escalations.all()
    ]


def status_line(page: Mapping[str, Any], apart: Container[str] = ()) -> str:
    """Say the page on one line: ``3 agents, 5 queued, 0 dead; watching by inotify``. ``apart``: names that are
    not counted, because they are no agents of this team's own."""
    agents = sum(name not in apart for name in page["agents"])
    totals, faults = page["totals"], page.get("faults")
    words = f"{agents} agent{'s' * (agents != 1)}, {totals['queued']} queued, {totals['dead']} dead"
    words += f"; watching by {page['daemon']['watch']}"
    return words + (f"; in trouble: {faults[0]['error']}" if faults else "")


class StatusPage:
    """``told`` is called with each page that differs from the one before, whether or not the disk takes it."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        content: Callable[[], dict[str, object]],
        every_s: float = EVERY_S,
        told: Callable[[dict[str, object]], None] = lambda _: None,
    ) -> None:
        self._told = told
        self._file = JsonState(path, durable=False)
        self._every_s = every_s
        self._clock = clock
        self._content = content
        self._written: dict[str, object] | None = None
        self._spare = _spare_descriptor()

    async def run(self, turned: Callable[[], Awaitable[None]]) -> None:
        """Write the page after turns of the pump, so that an idle daemon does not wake up for it."""
        while True:
            await turned()
            self.write()
            await anyio.sleep(self._every_s)

    def write(self) -> OSError | None:
        content = self._content()
        if content == self._written:
            return None
        self._told(content)
        dated = self._file.encode({**content, "at": stamp(self._clock.now().wall)})
        self._spend_spare()
        try:
            self._file.save_encoded(dated)
        except OSError as error:
            return error  # a full disk must not stop deliveries; the next turn tries again
        finally:
            self._spare = _spare_descriptor()
        self._written = content
        return None

    def _spend_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def _spare_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
