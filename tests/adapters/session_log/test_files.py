"""Names, order and modes of the files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ackd.adapters.session_log import SessionLog, session_files
from tests.adapters.session_log.bench import AT, STEM, put

if TYPE_CHECKING:
    from pathlib import Path


def test_files_and_directories_are_private(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(d.stat().st_mode) for d in (logs, logs.parent)] == [0o700, 0o700]


def test_sessions_of_one_second_get_a_suffix_in_name_and_id(logs: Path) -> None:
    opened = [SessionLog.open(logs, started_at=AT) for _ in range(11)]
    assert [log.session_id for log in opened[:3]] == [STEM, f"{STEM}-2", f"{STEM}-3"]
    assert session_files(logs) == [log.path for log in opened], "-10 after -9"


def test_a_link_in_the_logs_place_is_not_followed(logs: Path, tmp_path: Path) -> None:
    logs.mkdir(parents=True)
    (logs / f"session-{STEM}.ndjson").symlink_to(tmp_path / "elsewhere")
    assert SessionLog.open(logs, started_at=AT).session_id == f"{STEM}-2"
    assert not (tmp_path / "elsewhere").exists()


def test_only_regular_files_with_a_sessions_name_are_logs(logs: Path) -> None:
    mine = put(logs, "session-20261116-010000.ndjson")
    put(logs, "session-1.ndjson")
    put(logs, "notes.txt")
    os.mkfifo(logs / "session-20261116-010001.ndjson")
    (logs / "session-20261116-010002.ndjson").symlink_to(mine)
    (logs / "session-20261116-010003.ndjson").mkdir()
    assert session_files(logs) == [mine]
    assert session_files(logs / "missing") == []
