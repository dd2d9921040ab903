"""When a limit ends, however it is said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ackd.dialects.screen.moments import moment

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def utc(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ({"at": "1:36 PM (UTC)"}, utc(2026, 11, 16, 13, 36)),
        ({"at": "3pm (UTC)"}, utc(2026, 11, 16, 15)),
        ({"at": "11:30am UTC"}, utc(2026, 11, 16, 11, 30)),  # over
        ({"at": "12am (UTC)"}, utc(2026, 11, 16, 0)),
        ({"at": "11:00 PM UTC"}, utc(2026, 11, 16, 23)),
        ({"at": "15:30 (Europe/Berlin)"}, utc(2026, 11, 16, 14, 30)),
        ({"at": "Nov 20th, 2026 1:36 PM UTC"}, utc(2026, 11, 20, 13, 36)),
        ({"at": "Jan 2, 3pm (UTC)"}, utc(2027, 1, 2, 15)),
        ({"at": "2026-11-17 08:00 UTC"}, utc(2026, 11, 17, 8)),
        ({"within": "2 hours 5 minutes"}, utc(2026, 11, 16, 14, 5)),
        ({"within": "1d 1s"}, utc(2026, 11, 17, 12, 0) + 1),
        ({"epoch": "1794830400"}, 1_794_830_400.0),
        ({"at": "25:99 UTC"}, None),
        ({"at": "soon"}, None),
        ({"at": "3pm (No/Where)"}, None),
        ({"within": "a while"}, None),
        ({"at": None}, None),
        ({}, None),
    ],
)
def test_words_become_a_time_or_none(words: dict[str, str | None], then: float | None) -> None:
    assert moment(words, NOW.timestamp()) == then


def test_late_in_the_day_an_early_hour_is_tomorrow() -> None:
    assert moment({"at": "1am UTC"}, utc(2026, 11, 16, 22)) == utc(2026, 11, 17, 1)
    assert moment({"at": "11pm UTC"}, utc(2026, 11, 17, 1)) == utc(2026, 11, 16, 23)
