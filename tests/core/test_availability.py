"""Every cell of the availability table, against a grid that was written down apart from it."""

from __future__ import annotations

import pytest

from ackd.core import availability
from ackd.core.availability import QUIET, TABLE, AgentHappening, AgentState, step
from ackd.core.errors import ImpossibleEvent

GRID = """
              available  busy       parked     paused     down
filled        busy       busy       parked     paused     down
drained       available  available  parked     paused     down
went_away     parked     parked     parked     paused     down
park_ended    available  busy       available  paused     down
fell_silent   down       down       down       paused     down
lived         available  busy       available  paused     available
paused        paused     paused     paused     paused     paused
resumed       available  busy       available  available  available
"""


def cells() -> dict[tuple[AgentState, AgentHappening], AgentState]:
    head, *rows = (line.split() for line in GRID.strip("\n").splitlines())
    return {
        (AgentState(state), AgentHappening[name.upper()]): AgentState(cell)
        for name, *row in rows
        for state, cell in zip(head, row, strict=True)
    }


@pytest.mark.parametrize(("state", "happening"), [(s, h) for s in AgentState for h in AgentHappening], ids=str)
def test_every_cell(state: AgentState, happening: AgentHappening) -> None:
    assert step(state, happening) is cells()[state, happening]


def test_a_missing_cell_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "TABLE", {state: {} for state in AgentState})
    with pytest.raises(ImpossibleEvent, match="availability: sign of life cannot happen in state down"):
        step(AgentState.DOWN, AgentHappening.LIVED)


def test_only_a_person_ends_a_pause() -> None:
    assert {happening for happening, after in TABLE[AgentState.PAUSED].items() if after is not AgentState.PAUSED} == {
        AgentHappening.RESUMED
    }


def test_the_breath_of_work_is_quiet() -> None:
    assert {AgentState.AVAILABLE, AgentState.BUSY} == QUIET
