"""What is written down, on real files; a full disk is /dev/full or a flush that says so."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.clock import SystemClock
from ackd.adapters.journal import End, Journal, LetGo
from ackd.adapters.session_log import iter_logs
from ackd.runtime.chronicle import Chronicle
from tests.runtime.onlooker import Onlooker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GONE = LetGo("leader", "m@x", "m.mime", End.COMPLETED, "digest", 0.0)


class Desk:
    """A chronicle, what it showed, and how often it woke the pump."""

    def __init__(self, place: Path) -> None:
        self.logs = place / "logs"
        self.journal_path = place / "journal.ndjson"
        self.onlooker = Onlooker()
        self.woken = 0
        self.chronicle = Chronicle(Journal.open(self.journal_path), SystemClock(), self.onlooker, self.wake)

    @property
    def shown(self) -> list[tuple[str, dict[str, object]]]:
        self.chronicle.show()
        return self.onlooker.shown

    def wake(self) -> None:
        self.woken += 1

    def logged(self) -> list[str]:
        return [line.type for line in iter_logs(self.logs)]

    def troubles(self) -> list[object]:
        return [data["what"] for type_, data in self.shown if type_ == "io_error"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    desk.chronicle.open(desk.logs)
    yield desk
    desk.chronicle.close()


@contextlib.contextmanager
def full_log(desk: Desk) -> Iterator[None]:
    file = desk.chronicle.log._file
    kept, file.fd = file.fd, os.open("/dev/full", os.O_WRONLY)
    try:
        yield
    finally:
        os.close(file.fd)
        file.fd = kept


def refuse(error: int = errno.ENOSPC) -> None:
    raise OSError(error, os.strerror(error))


def test_no_log_is_begun_before_it_is_opened(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert not desk.logs.exists()
    desk.chronicle.journal.close()


def test_a_fact_is_in_the_log_by_the_end_of_the_turn_and_shown_after_it(desk: Desk) -> None:
    desk.chronicle.record("stray_file", {"agent": "x"})
    assert desk.woken == 1, "outside a turn there would be no end of one"
    assert desk.logged() == []
    desk.chronicle.commit()
    assert desk.logged() == ["stray_file"]
    assert desk.onlooker.shown == []
    desk.chronicle.show()
    desk.chronicle.show()
    assert desk.onlooker.shown == [("stray_file", {"agent": "x"})]


def test_the_line_is_there_before_the_journal_lets_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    log, write = desk.chronicle.log, os.write

    def watched(fd: int, data: bytes) -> int:
        order.append("log" if fd == log._file.fd else "journal")
        return write(fd, data)

    monkeypatch.setattr(os, "write", watched)
    for flush in (desk.chronicle.commit, desk.chronicle.journal.flush):
        desk.chronicle.record("message_completed", {})
        desk.chronicle.journal.let_go(GONE)
        flush()
    assert order == ["log", "journal"] * 2


def test_a_disk_that_refuses_the_journal_is_heard_of_once_and_again_when_it_comes_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times in (3, 2):
        with monkeypatch.context() as patch:
            patch.setattr(desk.chronicle.journal, "flush", lambda: refuse(errno.EIO))
            for _ in range(times):
                desk.chronicle.commit()
        desk.chronicle.commit()
    assert desk.troubles() == ["journal", "journal"]
    assert desk.logged() == ["io_error", "io_error"]


def test_a_log_that_cannot_be_written_is_at_least_shown_and_keeps_its_lines(desk: Desk) -> None:
    desk.chronicle.record("stray_file", {"agent": "x"})
    for _ in range(2):
        with full_log(desk):
            for _ in range(3):
                desk.chronicle.record("stray_file", {"agent": "x"})
                desk.chronicle.commit()
        desk.chronicle.relieved()
        desk.chronicle.commit()
    assert desk.troubles() == ["session log", "session log"]
    once = ["stray_file", "io_error", "stray_file", "stray_file", "io_recovered"]
    assert desk.logged() == ["stray_file", *once, *once]


def test_trouble_is_told_apart_by_what_and_by_why(desk: Desk) -> None:
    for what, error in [("scan", errno.EIO), ("scan", errno.EIO), ("scan", errno.ELOOP), ("sweep", errno.ELOOP)]:
        with desk.chronicle.reporting(what):
            refuse(error)
    assert desk.troubles() == ["scan", "scan", "sweep"]


def test_a_full_disk_is_heard_of_once_whoever_meets_it_until_it_is_over(desk: Desk) -> None:
    for _ in range(2):
        for what in ("scan", "sweep", "journal"):
            with desk.chronicle.reporting(what):
                refuse(errno.ENOSPC)
        desk.chronicle.record("io_error", {"what": "move", "error": "[Errno 28] No space left on device: 'x'"})
        desk.chronicle.relieved()
    desk.chronicle.commit()
    assert desk.logged() == ["io_error", "io_recovered"] * 2
    assert desk.troubles() == ["scan", "scan"]
    assert [data["times"] for type_, data in desk.shown if type_ == "io_recovered"] == [4, 4]


def test_a_bug_is_not_trouble_with_the_disk(desk: Desk) -> None:
    with pytest.raises(ZeroDivisionError), desk.chronicle.reporting("scan"):
        raise ZeroDivisionError
    assert desk.troubles() == []


def test_its_last_words_tell_a_stop_from_a_crash(desk: Desk) -> None:
    desk.chronicle.record("session_end", {})
    desk.chronicle.close()
    assert desk.journal_path.read_bytes().endswith(b'{"op":"stop"}\n')
    assert desk.logged() == ["session_end"]


def test_on_a_full_disk_it_is_closed_all_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.chronicle.journal, "stop", refuse)
    desk.chronicle.close()
    assert desk.troubles() == ["last words"]
    assert desk.logged() == ["io_error"]
    assert b"stop" not in desk.journal_path.read_bytes()


# --- where a team looks for it
def test_the_log_is_found_in_the_teams_directory_and_so_is_the_one_that_follows_it(tmp_path: Path) -> None:
    desk, team = Desk(tmp_path), tmp_path / ".ensemble" / "logs"
    desk.chronicle.open(desk.logs, team)
    desk.chronicle.record("session_start", {})
    desk.chronicle.commit()
    first = desk.chronicle.log.path
    assert [link.resolve() for link in team.glob("session-*.ndjson")] == [first]
    assert "session_start" in (team / first.name).read_text()
    first.unlink()
    desk.chronicle.record("session_end", {})
    desk.chronicle.commit()
    second = desk.chronicle.log.path
    assert (team / second.name).resolve() == second != first
    desk.chronicle.close()


def test_a_directory_that_cannot_be_had_costs_a_line_and_nothing_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "taken").write_text("no directory")
    desk.chronicle.open(desk.logs, tmp_path / "taken" / "logs")
    desk.chronicle.record("session_start", {})
    desk.chronicle.commit()
    assert desk.logged() == ["io_error", "session_start"]
    assert desk.troubles() == ["link to the session log"]
    desk.chronicle.close()
