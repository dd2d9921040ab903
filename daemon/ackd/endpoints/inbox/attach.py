"""`ackd agent attach` for inbox agents: there is nothing to look in on, so it says what to use instead (exit 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ackd.cli.errors import NO, Failure

if TYPE_CHECKING:
    from ackd.config.site import Site


def attach(site: Site, agent: str, *, as_json: bool) -> NoReturn:  # noqa: ARG001 - as every kind has it
    instead = f"whoever reads it looks by itself: `ackd inbox {agent}` shows what waits"
    raise Failure(NO, f"{agent}: {instead}")
