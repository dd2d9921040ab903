"""Words to agents about leases: mail whose id derives from what it is about, so that saying it again is harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority

if TYPE_CHECKING:
    from ackd.core.bus_layout import Track
    from ackd.core.lease_words import Lease, Queued


def granted(track: Track, path: str, lease: Lease, agent: str) -> Draft:
    kind = "shared" if lease.shared else "exclusive"
    body: dict[str, object] = {
        "content": (
            f"{path} is leased to {lease.agent} ({kind}) since {stamp(lease.acquired_at)} until "
            f"{stamp(lease.expires_at)}, token {lease.token}. When finished: "
            f"ackd lock release {path} --agent {lease.agent} --track {track.bus}"
        ),
        "summary": f"The lease on {path} is yours",
        "path": path,
        "token": lease.token,
        "track": track.bus,
    }
    ident = derived_id("lease_granted", track.bus, path, lease.token)
    return Draft(ident, MONITOR, agent, "message", Priority.HIGH, body)


def waits(track: Track, queued: Queued, cause: object, agent: str) -> Draft:
    path, waiter = queued.path, queued.waiter.agent
    body: dict[str, object] = {
        "content": (
            f"{path} is not free: {waiter} stands in line behind {', '.join(queued.behind)}, and is told when it has "
            f"the lease. To leave the line: ackd lock release {path} --agent {waiter} --track {track.bus}"
        ),
        "summary": f"{waiter} waits for the lease on {path}",
        "path": path,
        "track": track.bus,
    }
    ident = derived_id("lease_waiting", track.bus, path, waiter, cause)
    return Draft(ident, MONITOR, agent, "message", Priority.NORMAL, body)
