"""Finds the circles in a wait-for graph: workers that wait for each other, each circle once.

A circle has an identity, a youngest member, a moment when it closed, and it lasts or not. What the waits are about does
not matter here. Nothing fails; of a graph with more circles than anyone could be told of, ``MOST`` are found, which
bounds the cost of a bus full of made-up names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ackd.coordination.bus.rules.words import WorkerWait

#: The most circles that are reported at a time. Ten workers who all wait for each other make a million.
MOST: Final = 100


@value
class Cycle:
    """A circle of waits, one for each member, in their order: each waits for the next, and the last for the first.

    It begins with the member whose name comes first, so that one circle is one value however it was found. Of several
    waits of one member for the next the oldest stands for all: while it lasts, so does the circle.
    """

    waits: tuple[WorkerWait, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """The circle's identity: its workers, in order."""
        return tuple(wait.waiter for wait in self.waits)

    @property
    def youngest(self) -> WorkerWait:
        """The wait that closed it; of two at one time, that of the name that comes last."""
        return max(self.waits, key=lambda wait: (wait.since, wait.waiter))

    @property
    def closed_at(self) -> float:
        """Wall seconds. This tells a circle that was broken and formed anew from the one before."""
        return self.youngest.since


def find_cycles(waits: Iterable[WorkerWait], most: int = MOST) -> list[Cycle]:
    """Every circle, each once, in the order of their members."""
    oldest = _oldest(waits)
    graph = _graph(oldest)
    found: list[Cycle] = []
    for members in _circles(graph):
        if len(found) >= most:
            break
        found.append(Cycle(tuple(oldest[pair] for pair in _pairs(members))))
    return sorted(found, key=lambda cycle: cycle.members)


def lasts(members: tuple[str, ...], waits: Iterable[WorkerWait]) -> bool:
    """True if each member still waits for the next; a circle is broken when one does not."""
    there = {(wait.waiter, wait.holder) for wait in waits}
    return all(pair in there for pair in _pairs(members))


def _pairs(members: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    return zip(members, (*members[1:], members[0]), strict=True)


def _oldest(waits: Iterable[WorkerWait]) -> dict[tuple[str, str], WorkerWait]:
    oldest: dict[tuple[str, str], WorkerWait] = {}
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
    """Johnson's algorithm: in each strongly connected group, find all circles through the first name, then go on with
    the groups that are left without that name. So each circle is found once, at its first name, and only groups that
    contain a circle are searched."""
    components = _components(graph, set(graph))
    while components:
        component = components.pop(0)
        first = min(component)
        yield from _through(graph, first, component)
        # Sorted, so that the first ``MOST`` circles are always the same.
        components = sorted([*components, *_components(graph, component - {first})], key=min)


def _components(graph: Mapping[str, list[str]], within: set[str]) -> list[set[str]]:
    """The groups of workers that reach each other (strongly connected components), if there is a circle among them.

    Kosaraju's algorithm: workers are taken in reverse order of finishing, each with all that reach it.
    """
    reaching: dict[str, list[str]] = {name: [] for name in within}
    for name in within:
        for holder in graph[name]:
            if holder in within:
                reaching[holder].append(name)
    left, components = set(within), []
    for name in reversed(_finished(graph, within)):
        if name in left:
            component = _reached_from(reaching, name, left)
            if len(component) > 1 or name in graph[name]:
                components.append(component)
    return sorted(components, key=min)


def _finished(graph: Mapping[str, list[str]], within: set[str]) -> list[str]:
    """Return the workers in the order in which a depth-first walk leaves them."""
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


def _reached_from(graph: Mapping[str, list[str]], first: str, left: set[str]) -> set[str]:
    """Return everything in ``left`` that can be reached from ``first``, and remove it from ``left``."""
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
    """Yield all circles through ``first``, by backtracking without recursion: a chain may outgrow the call stack.

    A worker from which no circle was closed is blocked until one that it leads to is free again, so that it is not
    walked through once for every way that reaches it.
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
