"""Counts of agents that send one thing around: two of them back and forth, or more in a circle.

``Loops`` counts how often a subject (Thread-ID or task_id) went once around a circle; somebody is told, and no more is
done. ``Chains`` counts rounds of messages that each answer the one before (In-Reply-To); a program that answers
whatever it gets does that for ever, so such a chain is held (holding.py). A round is once around the circle: between
two agents, there and back. Ten messages one way are a busy day, not a loop. Memory is bounded: what was silent longest
is forgotten, and is counted from the start again.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ackd.core.values import value

#: The agents in the order of the circle, the smallest name first.
Circle: TypeAlias = tuple[str, ...]

#: A chain is held at this many times ``loop_limit`` rounds ...
HELD_AT_TIMES: Final = 10
#: ... within this time.
WITHIN_S: Final = 3600.0
#: Hops of one subject that no answer has come back from; beyond, the oldest is forgotten.
MOST_HOPS: Final = 64


def words_of_chain(members: Circle, rounds: object) -> str:
    """Say why a message is held, for the log, the status page and `ackd loop list`."""
    way = " → ".join((*members, members[0])) if len(members) > 2 else " and ".join(members)
    return f"{way} answered each other for {rounds} rounds within an hour"


@value
class Loop:
    members: Circle
    rounds: int


@dataclass(slots=True)
class _Subject:
    #: Hops from which nothing has come back, in their order.
    open: dict[tuple[str, str], None] = field(default_factory=dict)
    rounds: dict[Circle, int] = field(default_factory=dict)


class Loops:
    """Rounds by subject. A hop that closes a circle of open hops is a round, and uses them up."""

    __slots__ = ("_limit", "_remember", "_seen")

    def __init__(self, limit: int, remember: int = 10_000) -> None:
        self._limit = limit
        self._remember = remember
        #: The subject heard of last stands at the end.
        self._seen: OrderedDict[bytes, _Subject] = OrderedDict()

    def limit_to(self, limit: int) -> None:
        """Report from now on what exceeds this."""
        self._limit = limit

    def __len__(self) -> int:
        return len(self._seen)

    def saw(self, about: str, sender: str, recipient: str) -> Loop | None:
        """Count a message. Return the loop if this message exceeds the limit. Then the count begins anew, so a loop
        that goes on is reported again at the same distance."""
        if sender == recipient:
            return None
        subject = self._of(about)
        way = _way(subject.open, recipient, sender)
        if way is None:
            subject.open[sender, recipient] = None
            if len(subject.open) > MOST_HOPS:
                del subject.open[next(iter(subject.open))]
            return None
        for hop in itertools.pairwise(way):
            subject.open.pop(hop, None)
        return self._round(subject, _circle(way))

    def _round(self, subject: _Subject, circle: Circle) -> Loop | None:
        rounds = subject.rounds.pop(circle, 0) + 1
        exceeded = rounds > self._limit
        if not exceeded:
            subject.rounds[circle] = rounds
            if len(subject.rounds) > MOST_HOPS:
                del subject.rounds[next(iter(subject.rounds))]
        return Loop(circle, rounds) if exceeded else None

    def _of(self, about: str) -> _Subject:
        # Subjects are hostile text of any length: the hash keeps ten thousand of them small.
        key = hashlib.blake2b(about.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        subject = self._seen.get(key)
        if subject is None:
            subject = self._seen[key] = _Subject()
            if len(self._seen) > self._remember:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(key)
        return subject


def _way(hops: dict[tuple[str, str], None], start: str, end: str) -> list[str] | None:
    """Return the shortest way from one to the other over these hops."""
    ways, met = deque([[start]]), {start}
    while ways:
        way = ways.popleft()
        for one, other in hops:
            if one != way[-1] or other in met:
                continue
            if other == end:
                return [*way, end]
            met.add(other)
            ways.append([*way, other])
    return None


def _circle(way: list[str]) -> Circle:
    first = way.index(min(way))
    return (*way[first:], *way[:first])


@dataclass(slots=True)
class _Chain:
    """A chain of answers. ``way``: the agents it went through since it was last where it is now; the last of them has
    it."""

    newest: str
    way: list[str]
    rounds: deque[float]


class Chains:
    """Chains by the ids of their messages. If a message is answered twice, its chain becomes two with one past."""

    __slots__ = ("_chains", "_most", "_remember")

    def __init__(self, limit: int, remember: int = 10_000) -> None:
        self._most = limit * HELD_AT_TIMES
        self._remember = remember
        #: By the ids of its messages. The one heard of last stands at the end.
        self._chains: OrderedDict[str, _Chain] = OrderedDict()

    def limit_to(self, limit: int) -> None:
        """Hold from now on what exceeds this."""
        self._most = limit * HELD_AT_TIMES

    def __len__(self) -> int:
        return len(self._chains)

    def saw(self, message_id: str, in_reply_to: str, sender: str, recipient: str, now: float) -> Loop | None:
        """Count a message. Return the loop if this message closes one round too many; the chain then begins anew.
        ``now``: by a clock that does not jump."""
        if sender == recipient:
            return None
        chain = self._chains.get(in_reply_to)
        if chain is None or chain.newest != in_reply_to:
            past = chain.rounds if chain is not None else ()
            chain = _Chain("", [sender], deque(past, maxlen=self._most))
        chain.newest = message_id
        self._keep(message_id, chain)
        if chain.way[-1] != sender:
            chain.way = [sender]
        if recipient not in chain.way:
            chain.way.append(recipient)
            return None
        back = chain.way.index(recipient)
        members, chain.way = _circle(chain.way[back:]), chain.way[: back + 1]
        chain.rounds.append(now)
        if len(chain.rounds) < self._most or now - chain.rounds[0] > WITHIN_S:
            return None
        chain.rounds.clear()
        return Loop(members, self._most)

    def _keep(self, message_id: str, chain: _Chain) -> None:
        self._chains[message_id] = chain
        self._chains.move_to_end(message_id)
        if len(self._chains) > self._remember:
            self._chains.popitem(last=False)
