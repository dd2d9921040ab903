"""Tests every cell of the table, and that phases are not found by cutting their names, as the seed does."""

from __future__ import annotations

import itertools

import pytest

from ackd.coordination.board.rules.phases import ENDED, OPEN, SECTION, TABLE, Phase, Turn, after
from ackd.core.errors import ImpossibleEvent

WAYS = {
    ("ASSESSING", "assessed"): "DISCUSSING",
    ("ASSESSING", "reviewed"): "RESOLVING",
    ("ASSESSING", "deserted"): "RESOLVING",
    ("ASSESSING", "cancelled"): "CANCELLED",
    ("DISCUSSING", "round over"): "DISCUSSING",
    ("DISCUSSING", "discussed"): "VOTING",
    ("DISCUSSING", "cancelled"): "CANCELLED",
    ("VOTING", "voted"): "RESOLVING",
    ("VOTING", "cancelled"): "CANCELLED",
    ("RESOLVING", "resolved"): "COMPLETE",
}


@pytest.mark.parametrize(("phase", "turn"), [*itertools.product(Phase, Turn)], ids=lambda one: one.value)
def test_every_cell_of_the_table(phase: Phase, turn: Turn) -> None:
    wanted = WAYS.get((phase.value, turn.value))
    if wanted is None:
        with pytest.raises(ImpossibleEvent, match=turn.value):
            after(phase, turn)
    else:
        assert after(phase, turn) is Phase(wanted)


def test_every_phase_is_open_or_ended_or_being_resolved() -> None:
    assert OPEN | ENDED | {Phase.RESOLVING} == set(Phase) == set(TABLE)
    assert not OPEN & ENDED


def test_every_phase_of_the_seed_has_its_section_also_voting() -> None:
    """The seed cuts "ing" from the name, and looks for "vot"."""
    named = {phase.value.lower().replace("ing", ""): section for phase, section in SECTION.items()}
    assert named == {"assess": "assess", "discuss": "discuss", "vot": "vote", "resolv": "resolve"}
