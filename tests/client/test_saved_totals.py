"""What was completed over all sessions, when no daemon is there to tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ackd.client.saved_totals import saved_totals
from ackd.storage.log_index import LogSearch
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from pathlib import Path

AT = 1.8e9


def session(place: Path, *types: str, at: float = AT) -> Path:
    log = SessionLog.open(place / "logs", started_at=at)
    for type_ in types:
        log.record(type_, {"message_id": "1@x"}, at)
    log.close()
    return log.path


def save(place: Path, **saved: object) -> None:
    (place / "totals.json").write_text(json.dumps(saved))


def completed(place: Path) -> int | None:
    totals = saved_totals(place, LogSearch(place / "logs"))
    return totals["completed"] if totals is not None else None


def test_a_root_without_totals_and_logs_says_nothing(tmp_path: Path) -> None:
    assert saved_totals(tmp_path, LogSearch(tmp_path / "logs")) is None


def test_a_daemon_that_never_stopped_well_has_its_log(tmp_path: Path) -> None:
    session(tmp_path, "message_completed", "message_withdrawn", "message_completed", "message_dead")
    assert saved_totals(tmp_path, LogSearch(tmp_path / "logs")) == {"completed": 2, "withdrawn": 1, "duplicates": 0}


def test_only_what_was_not_counted_yet_is_counted(tmp_path: Path) -> None:
    session(tmp_path, "message_completed", at=AT - 60)  # older than the log that was counted to
    log = session(tmp_path, "message_completed", "message_completed")
    save(tmp_path, completed=40, log=log.name, offset=log.stat().st_size)
    session(tmp_path, "message_completed")  # …-2, of the same second
    assert completed(tmp_path) == 41


def test_a_log_that_was_removed_takes_no_count_with_it(tmp_path: Path) -> None:
    save(tmp_path, completed=40, log="session-20200101-000000.ndjson", offset=99)
    session(tmp_path, "message_completed")
    assert completed(tmp_path) == 41


@pytest.mark.parametrize("content", ["", "[]", '{"completed": "x", "offset": -3}'])
def test_totals_that_make_no_sense_count_for_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "totals.json").write_text(content)
    session(tmp_path, "message_completed")
    assert completed(tmp_path) == 1
