"""Reading the session log as a program does: the last lines that fit, and those that come."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.errors import NoSessionLog
from ackd.client.tail import LogFilter, LogTail, tail
from ackd.config.site import find_site
from ackd.storage.log_index import is_of_type
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config.site import Site

NOW = float(int(time.time()))  # a log has microseconds, and a float has more
ID = "1763.42.ab12@ignite.local"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / ".ackd").mkdir()
    return find_site(tmp_path / ".ackd")


@pytest.fixture
def log(site: Site) -> Iterator[SessionLog]:
    opened = SessionLog.open(site.logs, started_at=NOW - 3600)
    yield opened
    opened.close()


def put(log: SessionLog, number: int, at: float = NOW, **data: Any) -> None:
    log.record("message_warning", {"message_id": ID, "agent": "builder", **data, "number": number}, at)
    log.flush()


def numbers(site: Site, *, count: int | None = None, **wanted: Any) -> list[int]:
    return [line.data["number"] for line in tail(site, LogFilter(**wanted), count=count)]


@pytest.mark.parametrize(
    ("type_", "wanted", "fits"),
    [
        ("message_dead", "message_dead", True),
        ("message_dead", "message", True),
        ("message_dead", "dead", True),
        ("message_dead", "mess", False),
        ("task_start", "task", True),
        ("task_start", "start", False),
        ("escalation_closed", "escalation", True),
        ("progress", "progress", True),
    ],
)
def test_a_type_is_its_name_its_family_or_a_messages_last_word(type_: str, wanted: str, fits: bool) -> None:
    assert is_of_type(type_, wanted) is fits


def test_the_newest_lines_that_fit_come_oldest_first(site: Site, log: SessionLog) -> None:
    for number in range(30):
        put(log, number, agent="tester" if number % 2 else "builder")
    assert numbers(site) == list(range(10, 30))
    assert numbers(site, count=3) == [27, 28, 29]
    assert numbers(site, count=2, agent="builder") == [26, 28]
    assert numbers(site, message="1763.42", types=("warning",), count=1) == [29]
    assert numbers(site, message="1764") == []


def test_since_asks_for_all_lines_from_then_on(site: Site, log: SessionLog) -> None:
    for number in range(50):
        put(log, number, NOW - 100 + number)
    assert numbers(site, since=NOW - 70) == list(range(30, 50))


def test_without_any_log_the_caller_is_told_unless_it_follows(site: Site) -> None:
    with pytest.raises(NoSessionLog, match="start the daemon"):
        tail(site)
    lines = tail(site, follow=True)
    log = SessionLog.open(site.logs, started_at=NOW)
    put(log, 1)
    assert next(lines).data["number"] == 1
    log.close()


def test_following_goes_on_with_what_comes_in_the_next_session_too(site: Site, log: SessionLog) -> None:
    put(log, 1)
    lines = tail(site, LogFilter(agent="builder"), follow=True)
    put(log, 2, agent="tester")
    put(log, 3)
    later = SessionLog.open(site.logs, started_at=NOW)
    put(later, 4)
    assert [line.data["number"] for line in islice(lines, 3)] == [1, 3, 4]
    later.close()


def test_new_lines_are_given_once_and_nothing_is_waited_for(site: Site, log: SessionLog) -> None:
    put(log, 1)
    seen = LogTail(site.logs)
    assert list(seen.new()) == []
    put(log, 2)
    assert [line.data["number"] for line in seen.new()] == [2]
    assert list(seen.new()) == []
