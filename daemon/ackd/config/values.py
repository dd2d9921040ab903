"""The kinds of values in tables of ackd.toml, each with its range, and the complaint that several tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, Strict

from ackd.core.names import USER, identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MONTH_S: Final = 31 * 86_400

Seconds = Annotated[float, Field(gt=0, le=MONTH_S, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=MONTH_S, allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], Strict(strict=False)]


class Table(BaseModel):
    """A table of the file. An unknown key is a mistake, and a value must have the right TOML type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


#: A key of a table, and what is wrong with it.
Complaint = tuple[tuple[str, ...], str]


def not_agents(
    named: Iterable[tuple[tuple[str, ...], str]], agents: Iterable[str], shared: Iterable[str] = ()
) -> Iterator[Complaint]:
    """A complaint for each key that names somebody who is not an agent of the config. ``shared``: the names of groups
    and pools, where one may stand too."""
    known = {identity(name) for name in (*agents, *shared, USER)}
    for key, name in named:
        if identity(name) not in known:
            yield key, f"{name!r} is not an agent: it needs a table [agents.{name}]"
