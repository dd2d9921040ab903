"""A memory of recent completions, so that the same message is not worked on twice.

For ``dedup_window_s`` it knows which Message-ID an agent has completed, and with which content. Wall time is an
argument, because the memory outlives the process in the journal.

Entries are kept as hashes in a ring of buckets, each a slice of the window; a bucket is dropped whole once its newest
entry is too old. So an entry lives for the window, and for up to one slice more.

The clock may lie. Stamps from the future (it was set back) are believed up to one window ahead, and pulled to there if
they are farther: nothing is forgotten early because the clock went back, and nothing is kept for much longer than two
windows. A clock that jumps forward cannot be told from a machine that slept, and is believed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_SLICES: Final = 24


@dataclass(frozen=True, slots=True)
class Fresh:
    pass


@dataclass(frozen=True, slots=True)
class Repeated:
    """The id, agent and content were completed before: the message is not processed again, and the ACK is sent
    again."""


@dataclass(frozen=True, slots=True)
class SameIdOtherContent:
    """The id was completed with other content. Models copy examples, ids included: the message is delivered, with a
    warning."""


FRESH: Final = Fresh()

DedupVerdict: TypeAlias = Fresh | Repeated | SameIdOtherContent


@dataclass(slots=True)
class _Slice:
    opened_at: float
    newest_at: float
    ids: set[int] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)


class CompletedMessages:
    __slots__ = ("_slice_s", "_slices", "_window_s")

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._slice_s = window_s / _SLICES
        self._slices: deque[_Slice] = deque()

    def keep_for(self, window_s: float) -> None:
        """Remember for so long from now on. What was forgotten already does not come back."""
        self._window_s, self._slice_s = window_s, window_s / _SLICES

    def __len__(self) -> int:
        """Return how many contents are remembered; one that was completed again in a later slice counts twice."""
        return sum(len(one.contents) for one in self._slices)

    def remember(self, message_id: str, agent: str, digest: str, at_wall: float) -> None:
        """Remember a completion. Best called in the order of ``at_wall``; a late one is kept as long as the newest
        before it.

        Nothing is forgotten here: ``at_wall`` may come from a journal that was written under a wrong clock.
        """
        latest = self._slice_for(at_wall)
        latest.newest_at = max(latest.newest_at, at_wall)
        latest.ids.add(_id_key(message_id, agent))
        latest.contents.add(_content_key(message_id, agent, digest))

    def verdict(self, message_id: str, agent: str, digest: str, now_wall: float) -> DedupVerdict:
        self._forget(now_wall)
        if not self._knows(_id_key(message_id, agent)):
            return FRESH  # nearly always: one hash, one look through the slices
        content = _content_key(message_id, agent, digest)
        seen = any(content in one.contents for one in self._slices)
        return Repeated() if seen else SameIdOtherContent()

    def knows(self, message_id: str, agent: str) -> bool:
        """Return whether a message of this id was completed, whatever it said."""
        return self._knows(_id_key(message_id, agent))

    def _knows(self, identity: int) -> bool:
        for one in self._slices:  # noqa: SIM110 - any() of a generator takes twice as long
            if identity in one.ids:
                return True
        return False

    def _slice_for(self, at_wall: float) -> _Slice:
        if not self._slices or at_wall - self._slices[-1].opened_at > self._slice_s:
            self._slices.append(_Slice(at_wall, at_wall))
        return self._slices[-1]

    def _forget(self, now_wall: float) -> None:
        horizon = now_wall + self._window_s
        for one in reversed(self._slices):  # the newest are at the right: normally this looks at one slice and stops
            if one.newest_at <= horizon:
                break
            one.newest_at = horizon
            one.opened_at = min(one.opened_at, horizon)
        while self._slices and self._slices[0].newest_at < now_wall - self._window_s:
            self._slices.popleft()


def _id_key(message_id: str, agent: str) -> int:
    """Hash to 64 bits, differently in every process: nothing here outlives it. A collision (one in 10¹³ per message at
    a million remembered) costs a needless warning."""
    return hash((agent, message_id))


def _content_key(message_id: str, agent: str, digest: str) -> int:
    """Hash to 128 bits, which costs eight bytes more: here a collision would swallow a message that nobody has seen.

    The agent's name is proven to hold no NUL and the digest is ours, so the join is unambiguous whatever the id holds;
    an id that got in with a lone surrogate must not crash the engine.
    """
    data = f"{agent}\0{digest}\0{message_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
