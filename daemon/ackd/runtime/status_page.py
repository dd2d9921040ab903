"""run/status.json: what the daemon knows right now, for ``ackd status`` and anyone with ``jq``.

Written when it changed, at most twice a second, and before a person's request is answered; by write-new-and-rename: a
reader never sees half of it. It says how far the session log reached, so that a reader who knows more can wait for the
next one. Not flushed: after a power cut there is no daemon to tell of. One descriptor is kept for it: a daemon that has
run out of them must still be able to say so.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

import anyio
import orjson

from ackd.adapters import atomic_file
from ackd.core import spells
from ackd.core.escalations import stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ackd.core.book import Agent
    from ackd.core.desk import Desk
    from ackd.core.engine import Engine
    from ackd.core.events import Now
    from ackd.ports import Clock

EVERY_S: Final = 0.5


def describe(engine: Engine, unread: Mapping[str, int] | None = None) -> dict[str, object]:
    """Agents, totals and open escalations, as ``ackd status --json`` has them.

    ``unread``: how many of an agent's messages the engine has not heard of yet.
    """
    desk, unread = engine.desk, unread or {}
    agents: dict[str, dict[str, object]] = {}
    for agent in desk.book.agents.values():
        entry: dict[str, object] = {
            "endpoint": agent.endpoint,
            "state": agent.state.value,
            "queued": agent.queued + unread.get(agent.name, 0),
            "in_flight": len(agent.window) + agent.retrying,
            "retrying": agent.retrying,
        }
        if agent.reason:
            entry["reason"] = agent.reason
        if agent.until is not None:
            entry["until"] = stamp(agent.until)
        if agent.is_watched:
            entry |= _life(agent, desk.now)
        if agent.policy.shows:
            entry |= _screen(desk, agent)
        agents[agent.name] = entry
    totals = _totals(engine, sum(unread.values()))
    return {"agents": agents, "totals": totals, "escalations": _escalations(engine), **_held(engine)}


def _held(engine: Engine) -> dict[str, object]:
    """What stays queued until a person lets it go. Mostly nothing, and nothing is then said of it."""
    held = [
        {"message_id": message_id, "agent": agent, "reason": one.words, "since": stamp(one.since)}
        for (message_id, agent), one in engine.desk.held.items()
    ]
    return {"held": held} if held else {}


def _life(agent: Agent, now: Now) -> dict[str, object]:
    """Of what lives behind its endpoint. What is not known is left out."""
    said: dict[str, object] = {"liveness": agent.vital.value, "worker_state": agent.worker.value}
    said |= {"generation": agent.generation, "deaths": agent.deaths}
    if agent.detail:
        said["detail"] = agent.detail
    if agent.context_usage is not None:
        said["context_usage"] = round(agent.context_usage, 3)
    if agent.last_life is not None:
        said["last_life"] = stamp(now.wall - (now.mono - agent.last_life))
    return said


def _screen(desk: Desk, agent: Agent) -> dict[str, object]:
    """What its screen shows, and what it has taken and not finished. What is not so is left out."""
    said: dict[str, object] = {} if agent.doing is None else {"doing": agent.doing.value}
    held = spells.taken(desk, agent)
    waits = dict.fromkeys(str(wait) for each in held for wait in each.waits_for)
    if waits:
        said["waits_for"] = list(waits)
    if held and agent.spell_from is not None:
        since = max(agent.spell_from, *(each.clock_from for each in held))
        said["idle_since"] = stamp(desk.now.wall - (desk.now.mono - since))
    if reminders := max((each.idled.reminders for each in held), default=0):
        said["reminders"] = reminders
    if beside := len(agent.beside):
        said["beside"] = beside
    if agent.ladder is not None and agent.ladder.hung:
        said["hung"] = True
    return said


def _totals(engine: Engine, unread: int) -> dict[str, int]:
    desk, agents = engine.desk, engine.desk.book.agents.values()
    return {
        "queued": sum(agent.queued for agent in agents) + unread,
        "in_flight": sum(len(agent.window) + agent.retrying for agent in agents),
        "completed": desk.totals.completed,
        "dead": desk.totals.dead,
        "corrupt": desk.totals.rejected,
        "withdrawn": desk.totals.withdrawn,
        "duplicates": desk.totals.duplicates,
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
        for one in engine.desk.escalations.all()
    ]


class StatusPage:
    def __init__(
        self, path: Path, clock: Clock, content: Callable[[], dict[str, object]], every_s: float = EVERY_S
    ) -> None:
        self._path = path
        self._every_s = every_s
        self._clock = clock
        self._content = content
        self._written: dict[str, object] | None = None
        self._spare = _spare_descriptor()

    async def run(self, turned: Callable[[], Awaitable[None]]) -> None:
        """Looks only when the pump has turned: an idle daemon does not even wake for it."""
        while True:
            await turned()
            self.write()
            await anyio.sleep(self._every_s)

    def write(self) -> OSError | None:
        content = self._content()
        if content == self._written:
            return None
        dated = _encode({**content, "at": stamp(self._clock.now().wall)})
        temp = self._path.with_name(f".{self._path.name}.tmp")  # one name: a crash leaves one, and the next takes it
        self._spend_spare()
        try:
            atomic_file.put(self._path, temp, dated + b"\n")
        except OSError as error:
            return error  # a full disk must not stop deliveries; the next change tries again
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


def _encode(page: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(page)
    except TypeError:  # a reason quotes a name that is not UTF-8
        return json.dumps(page).encode()
