"""Two agents that send one thing back and forth for ever.

Owns the count of bounces per subject (task_id or Thread-ID) and pair of agents. A bounce is a change of direction: ten
messages one way are a busy day, not a loop. Refuses to know what is done about it. Memory is bounded: the pairs that
were silent longest are forgotten, and would have to start over. Cannot fail.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TypeAlias

#: (hash of the subject, smaller name, larger name)
_Pair: TypeAlias = tuple[bytes, str, str]


class Loops:
    __slots__ = ("_limit", "_remember", "_seen")

    def __init__(self, limit: int, remember: int = 10_000) -> None:
        self._limit = limit
        self._remember = remember
        #: → (who spoke last, bounces so far); the pair heard of last stands at the end.
        self._seen: OrderedDict[_Pair, tuple[str, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def saw(self, about: str, sender: str, recipient: str) -> int | None:
        """The number of bounces, by the message that exceeds the limit; else None. Then it counts anew: a loop that
        goes on is said again, at the same distance."""
        if sender == recipient:
            return None
        pair = _pair(about, sender, recipient)
        last_sender, bounces = self._seen.get(pair, (sender, 0))
        bounces += last_sender != sender
        exceeded = bounces > self._limit
        self._seen[pair] = (sender, 0 if exceeded else bounces)
        self._seen.move_to_end(pair)
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)
        return bounces if exceeded else None


def _pair(about: str, one: str, other: str) -> _Pair:
    # Subjects are hostile text of any length: the hash keeps ten thousand of them small.
    subject = hashlib.blake2b(about.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return (subject, one, other) if one < other else (subject, other, one)
