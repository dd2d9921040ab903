"""Names, order and modes of the files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ackd.storage.session_log import SessionLog, age_order, session_files, show_in
from tests.storage.session_log.bench import AT, STEM, put

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
    assert sorted((log.path.name for log in opened[::-1]), key=age_order) == [log.path.name for log in opened]
    assert age_order("notes.txt") < age_order(opened[0].path.name)


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


# --- shown elsewhere
def test_a_log_is_shown_in_another_directory_by_a_link(logs: Path, tmp_path: Path) -> None:
    path = put(logs, "session-20261116-010000.ndjson", b"{}")
    team = tmp_path / ".ensemble" / "logs"
    show_in(team, path)
    (link,) = team.iterdir()
    assert (link.name, link.read_bytes()) == (path.name, path.read_bytes())
    assert not link.readlink().is_absolute(), "a project that is moved takes it along"
    assert team.stat().st_mode & 0o777 == 0o700
    assert session_files(team) == [], "whoever reads both directories has each line once"


def test_a_name_that_is_taken_there_gets_the_next_number(logs: Path, tmp_path: Path) -> None:
    path = put(logs, "session-20261116-010000-2.ndjson")
    mine = put(tmp_path / "team", "session-20261116-010000-2.ndjson", b"mine\n")
    show_in(tmp_path / "team", path)
    assert (tmp_path / "team" / "session-20261116-010000-3.ndjson").resolve() == path.resolve()
    assert mine.read_bytes() == b"mine\n"


def test_a_log_is_not_shown_where_it_lies(logs: Path, tmp_path: Path) -> None:
    path = put(logs, "session-20261116-010000.ndjson")
    (tmp_path / "same").symlink_to(logs)
    show_in(tmp_path / "same", path)
    assert list(logs.iterdir()) == [path]
