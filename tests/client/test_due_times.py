"""Times as people give them."""

from __future__ import annotations

import pytest

from ackd.client import due_times
from ackd.client.errors import BadTime
from ackd.formats import utc_times

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20m", 1200), ("2h", 7200), ("1d", 86_400)])
def test_a_duration_counts_from_now(text: str, seconds: float) -> None:
    assert utc_times.read(due_times.header("--expires", text, NOW)) == NOW + seconds


@pytest.mark.parametrize("text", ["2027-02-01T12:00:00Z", "2027-02-01T13:00:00+01:00", "2027-02-01 12:00:00"])
def test_a_time_is_written_in_utc(text: str) -> None:
    assert due_times.header("--deadline", text, NOW) == "2027-02-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    "text", ["", "soon", "2", "h", "-2h", "2w", "1.5h", "²h", "9999999999d", "2027-13-01T12:00:00Z"]
)
def test_nothing_else_is_a_time(text: str) -> None:
    with pytest.raises(BadTime, match="neither a duration"):
        due_times.header("--expires", text, NOW)


@pytest.mark.parametrize("text", ["0s", "2020-01-01T00:00:00Z"])
def test_a_time_that_is_past_is_a_mistake(text: str) -> None:
    with pytest.raises(BadTime, match="is past already"):
        due_times.header("--expires", text, NOW)
