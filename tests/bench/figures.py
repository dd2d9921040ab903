"""What a bench says: a figure of ours, the limit measured beside it, and whether the target is met. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Target:
    """``at_most`` or at least ``bound``: of the ratio to the limit, or, where there is no limit, of the figure."""

    bound: float
    at_most: bool

    def met_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


def at_most(bound: float) -> Target:
    return Target(bound, at_most=True)


def at_least(bound: float) -> Target:
    return Target(bound, at_most=False)


@dataclass(frozen=True)
class Figure:
    """One line of the table. ``ours`` and ``limit`` are repetitions, taken in turns so that noise hits both."""

    bench: str
    what: str
    unit: str
    ours: tuple[float, ...]
    limit_name: str = ""
    limit: tuple[float, ...] = ()
    target: Target | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.ours)

    @property
    def limit_value(self) -> float | None:
        return statistics.median(self.limit) if self.limit else None

    @property
    def ratio(self) -> float | None:
        return self.value / statistics.median(self.limit) if self.limit else None

    @property
    def met(self) -> bool | None:
        """None: there is no target."""
        if self.target is None:
            return None
        return self.target.met_by(self.value if self.ratio is None else self.ratio)


@dataclass(frozen=True)
class Peer:
    """Somebody else's queue doing the same work, or the reason why it was not measured."""

    bench: str
    name: str
    setting: str
    unit: str
    values: tuple[float, ...] = ()
    why_not: str = ""

    @property
    def value(self) -> float | None:
        return statistics.median(self.values) if self.values else None


@dataclass(frozen=True)
class Results:
    machine: str
    file_system: str
    date: str
    figures: tuple[Figure, ...] = ()
    peers: tuple[Peer, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Results:
        def figure(one: dict[str, Any]) -> Figure:
            target = Target(**one["target"]) if one["target"] else None
            return Figure(**{**one, "ours": tuple(one["ours"]), "limit": tuple(one["limit"]), "target": target})

        return cls(
            **{
                **content,
                "figures": tuple(figure(one) for one in content["figures"]),
                "peers": tuple(Peer(**{**one, "values": tuple(one["values"])}) for one in content["peers"]),
                "warnings": tuple(content["warnings"]),
            }
        )


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` of them do not exceed (nearest rank): one that really happened."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
