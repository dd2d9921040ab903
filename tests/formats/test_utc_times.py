from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.formats import utc_times

MOMENT = datetime(2026, 2, 1, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-01T12:00:00.25Z",
        "2026-02-01T12:00:00.250000Z",
        "2026-02-01T12:00:00.250000",  # the seed's utcnow(), without its Z
        "2026-02-01 12:00:00.25+00:00",
        "2026-02-01T13:30:00.25+01:30",
        "2026-02-01T07:00:00.25-0500",
        " 2026-02-01T12:00:00,25z ",
    ],
)
def test_a_time_with_and_without_a_zone_is_the_same_moment(text: str) -> None:
    assert utc_times.read(text) == MOMENT.timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-02-30x",
        "2026-13-01T00:00:00Z",
        "2026-02-01T25:00:00Z",
        "2026-02-32T00:00:00",
        None,
        5,
        [],
        "9" * 99,
    ],
)
def test_what_is_no_time_is_none(text: object) -> None:
    assert utc_times.read(text) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_is_what_datetime_writes_and_reads(moment: datetime) -> None:
    wall = (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1) / 1_000_000
    written = utc_times.write(wall)
    assert abs(datetime.fromisoformat(written) - moment) < timedelta(milliseconds=1)  # a float that large is coarse
    assert abs((utc_times.read(written) or 0) - wall) < 0.001


@given(st.datetimes().filter(lambda one: (one.month, one.day) != (2, 29)), st.integers(-720, 720))
def test_offsets_are_read_as_datetime_reads_them(moment: datetime, minutes: int) -> None:
    aware = moment.replace(year=2000 + moment.year % 200, tzinfo=timezone(timedelta(minutes=minutes)))
    assert utc_times.read(aware.isoformat()) == pytest.approx(aware.timestamp(), abs=1e-5)
