"""How much a story may go wrong before a person is asked. Apart from the decisions, because every config reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits per story: how often a stage may break, stage 1 be tried again after NO-GO, stage 3 send back to stage 2.

    Tries that were lost with the daemon count apart. Their limit only ends what would otherwise never end.
    """

    respawns: int = 1
    no_go: int = 1
    returns: int = 2
    losses: int = 10
