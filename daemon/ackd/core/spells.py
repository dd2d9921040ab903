"""How long an agent was idle, counted for each message that it holds.

Owns the sums. A spell of idleness begins when the screen shows it, and ends with a sign of life, with work, or with a
screen that says neither; what is counted then is up to idleness.py. A message whose agent waits for others counts none.
Apart from idling.py because every sign of life ends a spell. Cannot fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core.delivery import State
from ackd.core.idleness import counts
from ackd.core.waits import Waiting

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk
    from ackd.core.idleness import Doing

_TOLD: Final = frozenset({State.DELIVERED, State.ACKED})
#: Of one that waits for others no idle time is counted; in a circle of idle ones it is.
COUNTS: Final = frozenset({Waiting.NOT, Waiting.CIRCLE})


def taken(desk: Desk, agent: Agent) -> list[Delivery]:
    """What it has taken and not finished, the oldest first."""
    held = (desk.book.get(key) for key in sorted(agent.window))
    return [each for each in held if each is not None and each.state in _TOLD and each.seen]


def show(desk: Desk, agent: Agent, doing: Doing | None) -> None:
    """From now on it is seen to do something else."""
    if agent.spell_from is not None:
        _settle(desk, agent, by_life=False)
    agent.show(doing, desk.now.mono)


def lived(desk: Desk, agent: Agent) -> None:
    """A sign of life: what is quiet again from now on begins anew."""
    agent.busy_told = False
    if agent.spell_from is not None:
        _settle(desk, agent, by_life=True)
        agent.spell_from = desk.now.mono


def pass_over(desk: Desk, agent: Agent) -> None:
    """Paused, parked or down: somebody knows, and the time does not count."""
    for delivery in taken(desk, agent):
        delivery.clock_from = desk.now.mono


def note(desk: Desk, agent: Agent) -> None:
    """Count up to now, and go on: somebody writes it down."""
    if agent.spell_from is not None:
        _settle(desk, agent, by_life=False)


def idle_since(agent: Agent, delivery: Delivery) -> float:
    """Monotonic; only for an agent that is idle."""
    assert agent.spell_from is not None
    return max(agent.spell_from, delivery.clock_from)


def idle_s(desk: Desk, agent: Agent, delivery: Delivery) -> float:
    """Its idle time in all, with the spell that lasts."""
    return delivery.idled.idle_s + _uncounted_s(desk, agent, delivery)


def _uncounted_s(desk: Desk, agent: Agent, delivery: Delivery) -> float:
    if agent.spell_from is None or delivery.waiting not in COUNTS:
        return 0.0
    return max(0.0, desk.now.mono - max(idle_since(agent, delivery), delivery.counted_to))


def _settle(desk: Desk, agent: Agent, *, by_life: bool) -> None:
    for delivery in taken(desk, agent):
        spell_s = desk.now.mono - idle_since(agent, delivery)
        if counts(spell_s, agent.policy.ack_timeout_s, by_life=by_life):
            total_s = idle_s(desk, agent, delivery)
            delivery.idled = replace(delivery.idled, idle_s=total_s)
        delivery.counted_to = desk.now.mono
