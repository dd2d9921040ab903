"""The decision about an agent that was told and stays silent: wait, climb a rung, or give up.

The ladder belongs to the agent, so the first silent message holds it and others wait; there is never more than one
nudge under way. What a rung does is up to the endpoint (its profile).
"""

from __future__ import annotations

from typing import TypeAlias

from ackd.core.values import value


@value
class Ladder:
    """The agent's one ladder: the message that started it, and the rung it stands on (0: told once).

    ``skipped``: rungs that were left out, for an agent that took its message and hangs. ``hung``: it is such an agent;
    no other ladder is climbed while a screen says busy.
    """

    key: int
    rung: int = 0
    skipped: int = 0
    hung: bool = False

    @property
    def woken(self) -> int:
        """Return how often the agent was woken so far."""
        return self.rung - self.skipped


@value
class WaitDecision:
    """The agent is not silent yet, or its ladder is held by another message: look again at ``until`` (monotonic)."""

    until: float


@value
class ClimbDecision:
    ladder: Ladder


@value
class EndDecision:
    """The ladder has ended. ``woken``: how often the agent was woken for nothing."""

    woken: int


LadderDecision: TypeAlias = WaitDecision | ClimbDecision | EndDecision


def decide_rung(
    ladder: Ladder | None,
    key: int,
    rungs: int,
    told_at: float,
    last_life: float | None,
    now: float,
    ack_timeout_s: float,
    *,
    at_work: bool = False,
) -> LadderDecision:
    """Decide what is due. ``told_at``: the last telling or nudge. A sign of life since then means that it is not
    silent.

    ``at_work``: the agent holds acknowledged work of another message. It may be nudged once; the higher rungs would
    interrupt that work, and are not climbed.
    """
    quiet_since = max(told_at, last_life if last_life is not None else told_at)
    if now < quiet_since + ack_timeout_s:
        return WaitDecision(quiet_since + ack_timeout_s)
    if ladder is not None and ladder.key != key:
        return WaitDecision(now + ack_timeout_s)
    stands = ladder if ladder is not None else Ladder(key)
    if at_work and stands.rung >= 1:
        return WaitDecision(now + ack_timeout_s)
    if stands.rung >= rungs:
        return EndDecision(stands.woken)
    return ClimbDecision(Ladder(key, stands.rung + 1, stands.skipped, stands.hung))
