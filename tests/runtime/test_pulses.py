"""Signs of life are looked for while there is work in hand, and never otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ackd.core.events import SignOfLife
from ackd.runtime.pulses import LEAST_S, MOST_S, Pulses
from tests.core.driving import PROCESS, TEAM, World, letter

if TYPE_CHECKING:
    from ackd.core.events import Event


@dataclass
class Ticking:
    """An endpoint with a pulse: each sign is told once."""

    signs: list[str] = field(default_factory=list)
    asked: int = 0

    def pulse(self) -> str | None:
        self.asked += 1
        return self.signs.pop() if self.signs else None


def a_look(world: World, inhabited: Any) -> tuple[Pulses, list[Event]]:
    posted: list[Event] = []
    return Pulses(world.engine.desk.book, lambda _: inhabited, posted.append), posted


def test_who_holds_work_is_looked_at_and_a_sign_is_told() -> None:
    world = World({**TEAM, "worker": (PROCESS, "process")})
    endpoint = Ticking(["CPU time"])
    pulses, posted = a_look(world, endpoint)
    pulses.look()
    assert endpoint.asked == 0
    world.send(letter("m1"))
    pulses.look()
    pulses.look()
    assert (endpoint.asked, posted) == (2, [SignOfLife("worker", "CPU time")])


def test_endpoints_behind_which_nothing_lives_have_no_pulse() -> None:
    world = World()
    world.send(letter("m1", "runner"))
    pulses, posted = a_look(world, None)
    pulses.look()
    assert posted == []


def test_four_looks_in_the_shortest_timeout_within_reason() -> None:
    def every_s(timeout_s: float) -> float:
        team = {**TEAM, "worker": (replace(PROCESS, heartbeat_timeout_s=timeout_s), "process")}
        return a_look(World(team), None)[0]._every_s()

    assert [every_s(timeout_s) for timeout_s in (0.01, 2, 120, 3600)] == [LEAST_S, 0.5, 30, MOST_S]
