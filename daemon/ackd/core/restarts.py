"""The decision whether a process that died is started again, and after how long.

Waits grow while deaths follow each other closely, and end when there were too many. Time and chance are arguments.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

#: 2**64 times any base is past every cap.
_MAX_DOUBLINGS: Final = 64


class RestartMode(enum.Enum):
    ON_FAILURE = "on-failure"  # one that ends by itself with exit 0 is started again when there is work for it
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The limits of restarting: ``limit`` times within ``within_s``, and the next death is the last.

    ``steady_s``: a death that comes so long after the one before has nothing to do with it. It must be above ``cap_s``,
    or a wait would count as a life.
    """

    mode: RestartMode = RestartMode.ON_FAILURE
    base_s: float = 1
    cap_s: float = 30
    limit: int = 5
    within_s: float = 60
    steady_s: float = 60


@dataclass(frozen=True, slots=True)
class RestartAfter:
    delay_s: float


@dataclass(frozen=True, slots=True)
class StaysDown:
    """The process was restarted ``count`` times within ``within_s``, and died again."""

    count: int
    within_s: float


RestartDecision: TypeAlias = RestartAfter | StaysDown


def decide_restart(deaths: Sequence[float], now: float, policy: RestartPolicy, rng: random.Random) -> RestartDecision:
    """Decide about a death. ``deaths``: when it died, oldest first, this death included.

    The wait is drawn from the upper half only: a process that died for want of something (a port, a lock) is not helped
    by a restart at once, while agents that died together must not come back together.
    """
    restarts = sum(1 for died_at in deaths if died_at > now - policy.within_s) - 1
    if restarts >= policy.limit:
        return StaysDown(restarts, policy.within_s)
    ceiling_s = min(policy.cap_s, policy.base_s * 2.0 ** min(_in_a_row(deaths, policy.steady_s) - 1, _MAX_DOUBLINGS))
    return RestartAfter(rng.uniform(ceiling_s / 2, ceiling_s))


def _in_a_row(deaths: Sequence[float], steady_s: float) -> int:
    """Return how many deaths came shortly after the one before them, up to the last; 1 for the first of a row."""
    count = 1
    for after, before in pairwise(reversed(deaths)):
        if after - before >= steady_s:
            break
        count += 1
    return count
