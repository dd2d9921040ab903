"""The retry delay: when a message that failed is tried again, or that it is given up.

Time and chance are arguments, and nothing here sleeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.values import value

if TYPE_CHECKING:
    import random

    from ackd.core.policy import AgentPolicy

#: 2**64 times any base is past every cap; beyond it a large retry_limit would overflow a float.
_MAX_DOUBLINGS: Final = 64


@value
class Again:
    delay_s: float


@value
class GiveUp:
    pass


RetryDecision: TypeAlias = Again | GiveUp


def decide_retry(failures: int, policy: AgentPolicy, rng: random.Random) -> RetryDecision:
    """Decide about a failure. ``failures`` counts this one too: with ``retry_limit`` 3 the fourth gives up.

    The retry delay is uniform from zero on ("full jitter"), so that agents which failed together do not come back
    together.
    """
    if failures > policy.retry_limit:
        return GiveUp()
    retries_so_far = min(max(failures - 1, 0), _MAX_DOUBLINGS)
    ceiling_s = min(policy.backoff_cap_s, policy.backoff_base_s * 2.0**retries_so_far)
    return Again(rng.uniform(0, ceiling_s))
