"""What to do about an agent that was told and stays silent.

Owns one decision: wait, climb a rung, or give up. The ladder belongs to the agent, so the first silent message holds
it and others wait; there is never more than one nudge under way. Refuses to know what a rung does (profiles of the
endpoint).
"""

from __future__ import annotations

from typing import TypeAlias

from ackd.core.values import value


@value
class Ladder:
    """The agent's one ladder: which message started it, and the rung it stands on (0: told once).

    ``skipped``: rungs that it did not begin with, for one that took its message and hangs. ``hung``: it is such a one;
    no other ladder is climbed while a screen says busy.
    """

    key: int
    rung: int = 0
    skipped: int = 0
    hung: bool = False

    @property
    def woken(self) -> int:
        """How often, so far."""
        return self.rung - self.skipped


@value
class WaitDecision:
    """Not silent yet, or not this message's ladder: look again at ``until`` (monotonic)."""

    until: float


@value
class ClimbDecision:
    ladder: Ladder


@value
class EndDecision:
    """``woken``: how often it was, for nothing."""

    woken: int


LadderDecision: TypeAlias = WaitDecision | ClimbDecision | EndDecision


def decide(
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
    """``told_at``: the last telling or nudge. A sign of life since then makes it no silence.

    ``at_work``: the agent holds acknowledged work of another message. It may be nudged once; the higher rungs interrupt
    it, and are not for one that works.
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
