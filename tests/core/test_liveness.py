"""Every cell of the liveness table, against a grid that was written down apart from it; and when an agent is asked."""

from __future__ import annotations

import pytest

from ackd.core import liveness
from ackd.core.errors import ImpossibleEvent
from ackd.core.liveness import AskDecision, Asked, DisbelieveDecision, LookAgain, Pulse, Vital, decide_liveness, step

GRID = """
            unseen   alive    suspect       unresponsive  down
beat        alive    alive    alive         alive         alive
quiet       suspect  suspect  suspect       unresponsive  down
unanswered  unseen   alive    unresponsive  unresponsive  down
started     unseen   unseen   unseen        unseen        unseen
ended       down     down     down          down          down
"""


def cells() -> dict[tuple[Vital, Pulse], Vital]:
    head, *rows = (line.split() for line in GRID.strip("\n").splitlines())
    return {
        (Vital(vital), Pulse[name.upper()]): Vital(cell)
        for name, *row in rows
        for vital, cell in zip(head, row, strict=True)
    }


@pytest.mark.parametrize(("vital", "pulse"), [(v, p) for v in Vital for p in Pulse], ids=str)
def test_every_cell(vital: Vital, pulse: Pulse) -> None:
    assert step(vital, pulse) is cells()[vital, pulse]


def test_a_missing_cell_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "TABLE", {vital: {} for vital in Vital})
    with pytest.raises(ImpossibleEvent, match="liveness: sign of life cannot happen in state down"):
        step(Vital.DOWN, Pulse.BEAT)


def test_never_seen_is_not_alive() -> None:
    """[zerg] A worker that never wrote a heartbeat counted as healthy."""
    assert step(Vital.DOWN, Pulse.STARTED) is Vital.UNSEEN
    assert decide_liveness(0, None, None, 119, 120, 60) == LookAgain(120)
    assert decide_liveness(0, None, None, 120, 120, 60) == AskDecision(180)


@pytest.mark.parametrize(
    ("last_life", "asked", "now", "expected"),
    [
        (None, None, 0, LookAgain(120)),
        (50, None, 120, LookAgain(170)),
        (50, None, 170, AskDecision(230)),
        (50, Asked(170), 229, LookAgain(230)),
        (50, Asked(170), 230, DisbelieveDecision()),
        (171, Asked(170), 230, LookAgain(291)),  # it answered
        (171, Asked(170), 291, AskDecision(351)),  # and fell quiet again
        (-500, None, 0, LookAgain(120)),  # before it had this work it owed no sign
    ],
)
def test_quiet_is_asked_and_no_answer_is_believed(
    last_life: float | None, asked: Asked | None, now: float, expected: object
) -> None:
    assert decide_liveness(0, last_life, asked, now, 120, 60) == expected
