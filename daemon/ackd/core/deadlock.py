"""Who waits for whom, and whether some of them wait in a circle.

Owns finding every circle of a wait-for graph, each once; its identity; who of it is the youngest; since when it is
closed; whether it lasts. Refuses to know what the waits are about and who must hear of it: waits are those of now, and
who they are for was found out by whoever gives them. Cannot fail; of a graph that has more circles than anyone could be
told of, ``MOST`` are found, which is what a bus full of made-up names costs at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: So many circles are told of at a time. Ten workers who all wait for each other make a million.
MOST: Final = 100


@value
class Wait:
    """``waiter`` cannot go on before ``holder`` acts; ``what`` it waits for, in words; ``since``: wall seconds."""

    waiter: str
    holder: str
    what: str
    since: float


@value
class FileWait:
    """``waiter`` says that it waits for ``name``, which is no task and no worker: a file perhaps, and then whoever
    leases that is waited for."""

    waiter: str
    name: str
    since: float


@value
class Cycle:
    """``waits``: one for each member, in their order: each waits for the next, and the last for the first.

    It begins with the member whose name comes first, so that one circle is one value however it was found. Of several
    waits of one member for the next the oldest stands for them: while it lasts, so does the circle.
    """

    waits: tuple[Wait, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """Which circle it is: the same ones, in the same order."""
        return tuple(wait.waiter for wait in self.waits)

    @property
    def youngest(self) -> Wait:
        """The wait that closed it; of two at one time, that of the name that comes last."""
        return max(self.waits, key=lambda wait: (wait.since, wait.waiter))

    @property
    def closed_at(self) -> float:
        """Wall seconds. A circle that was broken and formed anew is told from the one before by this."""
        return self.youngest.since


def find_cycles(waits: Iterable[Wait], most: int = MOST) -> list[Cycle]:
    """Every circle, each once, in the order of their members."""
    oldest = _oldest(waits)
    graph = _graph(oldest)
    found: list[Cycle] = []
    for members in _circles(graph):
        if len(found) >= most:
            break
        found.append(Cycle(tuple(oldest[pair] for pair in _pairs(members))))
    return sorted(found, key=lambda cycle: cycle.members)


def lasts(members: tuple[str, ...], waits: Iterable[Wait]) -> bool:
    """Whether each of them still waits for the next; a circle is broken when one does not."""
    there = {(wait.waiter, wait.holder) for wait in waits}
    return all(pair in there for pair in _pairs(members))


def _pairs(members: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    return zip(members, (*members[1:], members[0]), strict=True)


def _oldest(waits: Iterable[Wait]) -> dict[tuple[str, str], Wait]:
    oldest: dict[tuple[str, str], Wait] = {}
    for wait in waits:
        pair = (wait.waiter, wait.holder)
        oldest[pair] = min(oldest.get(pair, wait), wait, key=lambda one: (one.since, one.what))
    return oldest


def _graph(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    graph: dict[str, list[str]] = {}
    for waiter, holder in sorted(pairs):
        graph.setdefault(waiter, []).append(holder)
        graph.setdefault(holder, [])
    return graph


def _circles(graph: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Johnson's way: within what is knotted together, all circles through the first name; then what is still knotted
    together without it. So each is met at its first name, once, and no knot is looked at that has none."""
    knots = _knots(graph, set(graph))
    while knots:
        knot = knots.pop(0)
        first = min(knot)
        yield from _through(graph, first, knot)
        knots = sorted([*knots, *_knots(graph, knot - {first})], key=min)  # the first ``MOST`` are always the same


def _knots(graph: Mapping[str, list[str]], within: set[str]) -> list[set[str]]:
    """Those who reach each other (strongly connected components) as far as there is a circle among them.

    Kosaraju's way: whoever is finished last is asked first who reaches it.
    """
    reaching: dict[str, list[str]] = {name: [] for name in within}
    for name in within:
        for holder in graph[name]:
            if holder in within:
                reaching[holder].append(name)
    left, knots = set(within), []
    for name in reversed(_finished(graph, within)):
        if name in left:
            knot = _taken(reaching, name, left)
            if len(knot) > 1 or name in graph[name]:
                knots.append(knot)
    return sorted(knots, key=min)


def _finished(graph: Mapping[str, list[str]], within: set[str]) -> list[str]:
    """In the order in which a walk into the depth leaves them."""
    order: list[str] = []
    entered: set[str] = set()
    for start in within:
        walk = [start] if start not in entered else []
        while walk:
            name = walk[-1]
            ahead = [] if name in entered else [to for to in graph[name] if to in within and to not in entered]
            entered.add(name)
            walk.extend(ahead)
            if not ahead:
                walk.pop()
                order.append(name)
    return list(dict.fromkeys(order))


def _taken(graph: Mapping[str, list[str]], first: str, left: set[str]) -> set[str]:
    """All that is reached, out of ``left``, which has them no more."""
    taken, ahead = {first}, [first]
    left.discard(first)
    while ahead:
        for name in graph[ahead.pop()]:
            if name in left:
                left.discard(name)
                taken.add(name)
                ahead.append(name)
    return taken


def _through(graph: Mapping[str, list[str]], first: str, within: set[str]) -> Iterator[tuple[str, ...]]:
    """All circles through ``first``, by steps back and forth; a chain may be longer than a call stack is deep.

    Whoever led nowhere is blocked until one that it leads to is free again: it is not walked through for each of the
    ways that reach it.
    """
    path, blocked = [first], {first}
    waiting: dict[str, set[str]] = {}
    steps = [_next_steps(graph, first, within)]
    closed = [False]
    while path:
        step = steps[-1].pop() if steps[-1] else None
        if step == first:
            closed[-1] = True
            yield tuple(path)
        elif step is not None and step not in blocked:
            path.append(step)
            blocked.add(step)
            steps.append(_next_steps(graph, step, within))
            closed.append(False)
        elif step is None:
            name, led_back = path.pop(), closed.pop()
            steps.pop()
            if led_back:
                _unblock(name, blocked, waiting)
                closed[-1:] = [True] if closed else []
            else:
                for other in _next_steps(graph, name, within):
                    waiting.setdefault(other, set()).add(name)


def _next_steps(graph: Mapping[str, list[str]], name: str, within: set[str]) -> list[str]:
    return [to for to in reversed(graph[name]) if to in within]


def _unblock(name: str, blocked: set[str], waiting: dict[str, set[str]]) -> None:
    free = [name]
    while free:
        one = free.pop()
        if one in blocked:
            blocked.remove(one)
            free.extend(waiting.pop(one, ()))
