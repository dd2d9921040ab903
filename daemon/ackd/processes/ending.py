"""Ending all that belongs to something we started: TERM to each once, then KILL, until nothing of it is left.

Looks again and again, for what is forked meanwhile. Owns the order and the patience. Refuses to know why it ends. Gives
up on what no KILL ends (a dead network mount), and says so by what it returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ackd.processes import belongings
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: From the KILL of what ignored TERM until nothing more is hoped for.
KILLED_WAIT_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Brood:
    """What is to be ended. ``session`` and ``group`` answer None when that number may be someone else's by now:
    while its leader lives, or is our own zombie, it is not. ``others``: pids that belong to it by other signs;
    ``kill``: a blow to all of these at once. ``hindered``: told why we cannot look, when that begins.
    """

    mark: str
    session: Callable[[], int | None] = lambda: None
    group: Callable[[], int | None] = lambda: None
    others: Callable[[], Collection[int]] = tuple
    kill: Callable[[], None] | None = None
    hindered: Callable[[OSError], None] = lambda _error: None


@dataclass(frozen=True, slots=True)
class Cleared:
    """The pids of all that there was, and of what is left of it in the end, or some of that: nothing, mostly."""

    met: frozenset[int]
    left: frozenset[int] = frozenset()

    @property
    def gone(self) -> bool:
        return not self.left


async def clear_away(brood: Brood, stop_timeout_s: float, walkers: anyio.CapacityLimiter | None = None) -> Cleared:
    """``walkers``: how many may look through all processes at a time, where many are ended at once."""
    kill_at = anyio.current_time() + stop_timeout_s
    termed: set[int] = set()
    met: set[int] = set()
    while left := await _left(brood, kill_at, walkers):
        met |= left.keys()
        try:
            if anyio.current_time() >= kill_at:
                _kill(brood, left)
            else:
                belongings.term(left, termed)
            await _watch(left, kill_at)
        finally:
            belongings.close_all(left)
        if anyio.current_time() > kill_at + KILLED_WAIT_S:
            return Cleared(frozenset(met), frozenset(left))
    return Cleared(frozenset(met))


async def _watch(left: dict[int, int], kill_at: float) -> None:
    """Until all of these are dead, or it is time to look again; time to kill is time to look."""
    now = anyio.current_time()
    look_at = now + _LOOK_AGAIN_S
    with anyio.CancelScope(deadline=min(look_at, kill_at) if kill_at > now else look_at):
        for fd in left.values():
            await belongings.died(fd)


async def _left(brood: Brood, kill_at: float, walkers: anyio.CapacityLimiter | None) -> dict[int, int]:
    """Waits while the machine does not let us look: what is not seen is not gone. What can be killed unseen is: it may
    be what the machine is exhausted by."""
    said = False
    while True:
        try:
            look = belongings.belongings
            return await in_thread(look, brood.mark, brood.session(), brood.others, limiter=walkers)
        except OSError as error:
            if not said:
                brood.hindered(error)
            said = True
            if anyio.current_time() >= kill_at:
                _kill(brood, {})
            await anyio.sleep(_LOOK_AGAIN_S)


def _kill(brood: Brood, left: dict[int, int]) -> None:
    """Each, and the group at once where its number is surely its own: a tree may fork faster than we walk."""
    if brood.kill is not None:
        brood.kill()
    group = brood.group()
    if group is not None:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for fd in left.values():
        belongings.send(fd, signal.SIGKILL)
