"""The recorder on real files; a full disk is /dev/full, or a flush that fails with its error."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

import pytest

from ackd.core.fact import Fact
from ackd.core.faults import ADVICE
from ackd.core.words import MessageEnd
from ackd.runtime.recorder import Faults, Recorder
from ackd.storage.journal import Journal, PutAway
from ackd.storage.session_log import iter_logs
from ackd.system.clock import SystemClock
from tests.runtime.recording_view import RecordingView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GONE = PutAway("leader", "m@x", "m.mime", MessageEnd.COMPLETED, "digest", 0.0)


class RecorderSetup:
    """A recorder, the facts that it showed, and how often it woke the pump."""

    def __init__(self, place: Path) -> None:
        self.logs = place / "logs"
        self.journal_path = place / "journal.ndjson"
        self.view = RecordingView()
        self.woken = 0
        self.recorder = Recorder(
            journal=Journal.open(self.journal_path), clock=SystemClock(), view=self.view, wake=self.wake
        )

    @property
    def shown(self) -> list[tuple[str, dict[str, object]]]:
        self.recorder.show()
        return self.view.shown

    def wake(self) -> None:
        self.woken += 1

    def logged(self) -> list[str]:
        return [line.type for line in iter_logs(self.logs)]

    def troubles(self) -> list[object]:
        return [data["what"] for type_, data in self.shown if type_ == "io_error"]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[RecorderSetup]:
    setup = RecorderSetup(tmp_path)
    setup.recorder.open(setup.logs)
    yield setup
    setup.recorder.close()


@contextlib.contextmanager
def full_log(setup: RecorderSetup) -> Iterator[None]:
    file = setup.recorder.log._file
    kept, file.fd = file.fd, os.open("/dev/full", os.O_WRONLY)
    try:
        yield
    finally:
        os.close(file.fd)
        file.fd = kept


def refuse(error: int = errno.ENOSPC) -> None:
    raise OSError(error, os.strerror(error))


def test_no_log_is_begun_before_it_is_opened(tmp_path: Path) -> None:
    setup = RecorderSetup(tmp_path)
    assert not setup.logs.exists()
    setup.recorder.journal.close()


def test_a_fact_is_in_the_log_by_the_end_of_the_turn_and_shown_after_it(setup: RecorderSetup) -> None:
    setup.recorder.record(Fact("stray_file", {"agent": "x"}))
    assert setup.woken == 1, "outside a turn there would be no end of one"
    assert setup.logged() == []
    setup.recorder.commit()
    assert setup.logged() == ["stray_file"]
    assert setup.view.shown == []
    setup.recorder.show()
    setup.recorder.show()
    assert setup.view.shown == [("stray_file", {"agent": "x"})]


def test_the_line_is_there_before_the_journal_lets_go(setup: RecorderSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    log, write = setup.recorder.log, os.write

    def watched(fd: int, data: bytes) -> int:
        order.append("log" if fd == log._file.fd else "journal")
        return write(fd, data)

    monkeypatch.setattr(os, "write", watched)
    for flush in (setup.recorder.commit, setup.recorder.journal.flush):
        setup.recorder.record(Fact("message_completed", {}))
        setup.recorder.journal.let_go(GONE)
        flush()
    assert order == ["log", "journal"] * 2


def test_a_disk_that_refuses_the_journal_is_heard_of_once_and_again_when_it_comes_back(
    setup: RecorderSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times in (3, 2):
        with monkeypatch.context() as patch:
            patch.setattr(setup.recorder.journal, "flush", lambda: refuse(errno.EIO))
            for _ in range(times):
                setup.recorder.commit()
        setup.recorder.commit()
    assert setup.troubles() == ["journal", "journal"]
    assert setup.logged() == ["io_error", "io_error"]


def test_a_log_that_cannot_be_written_is_at_least_shown_and_keeps_its_lines(setup: RecorderSetup) -> None:
    setup.recorder.record(Fact("stray_file", {"agent": "x"}))
    for _ in range(2):
        with full_log(setup):
            for _ in range(3):
                setup.recorder.record(Fact("stray_file", {"agent": "x"}))
                setup.recorder.commit()
        setup.recorder.relieved()
        setup.recorder.commit()
    assert setup.troubles() == ["session log", "session log"]
    once = ["stray_file", "io_error", "stray_file", "stray_file", "io_recovered"]
    assert setup.logged() == ["stray_file", *once, *once]


def test_trouble_is_told_apart_by_what_and_by_why(setup: RecorderSetup) -> None:
    for what, error in [("scan", errno.EIO), ("scan", errno.EIO), ("scan", errno.ELOOP), ("sweep", errno.ELOOP)]:
        with setup.recorder.reporting(what):
            refuse(error)
    assert setup.troubles() == ["scan", "scan", "sweep"]


def test_a_full_disk_is_heard_of_once_whoever_meets_it_until_it_is_over(setup: RecorderSetup) -> None:
    for _ in range(2):
        for what in ("scan", "sweep", "journal"):
            with setup.recorder.reporting(what):
                refuse(errno.ENOSPC)
        setup.recorder.record(Fact("io_error", {"what": "move", "error": "[Errno 28] No space left on device: 'x'"}))
        setup.recorder.relieved()
    setup.recorder.commit()
    assert setup.logged() == ["io_error", "io_recovered"] * 2
    assert setup.troubles() == ["scan", "scan"]
    assert [data["times"] for type_, data in setup.shown if type_ == "io_recovered"] == [4, 4]


def test_a_bug_is_not_trouble_with_the_disk(setup: RecorderSetup) -> None:
    with pytest.raises(ZeroDivisionError), setup.recorder.reporting("scan"):
        raise ZeroDivisionError
    assert setup.troubles() == []


def test_its_last_words_tell_a_stop_from_a_crash(setup: RecorderSetup) -> None:
    setup.recorder.record(Fact("session_end", {}))
    setup.recorder.close()
    assert setup.journal_path.read_bytes().endswith(b'{"op":"stop"}\n')
    assert setup.logged() == ["session_end"]


def test_on_a_full_disk_it_is_closed_all_the_same(setup: RecorderSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.recorder.journal, "stop", refuse)
    setup.recorder.close()
    assert setup.troubles() == ["last words"]
    assert setup.logged() == ["io_error"]
    assert b"stop" not in setup.journal_path.read_bytes()


# --- the link in a directory of the team
def test_the_log_is_found_in_the_teams_directory_and_so_is_the_one_that_follows_it(tmp_path: Path) -> None:
    setup, team = RecorderSetup(tmp_path), tmp_path / ".ensemble" / "logs"
    setup.recorder.open(setup.logs, team)
    setup.recorder.record(Fact("session_start", {}))
    setup.recorder.commit()
    first = setup.recorder.log.path
    assert [link.resolve() for link in team.glob("session-*.ndjson")] == [first]
    assert "session_start" in (team / first.name).read_text()
    first.unlink()
    setup.recorder.record(Fact("session_end", {}))
    setup.recorder.commit()
    second = setup.recorder.log.path
    assert (team / second.name).resolve() == second != first
    setup.recorder.close()


def test_a_directory_that_cannot_be_had_costs_a_line_and_nothing_else(tmp_path: Path) -> None:
    setup = RecorderSetup(tmp_path)
    (tmp_path / "taken").write_text("no directory")
    setup.recorder.open(setup.logs, tmp_path / "taken" / "logs")
    setup.recorder.record(Fact("session_start", {}))
    setup.recorder.commit()
    assert setup.logged() == ["io_error", "session_start"]
    assert setup.troubles() == ["link to the session log"]
    setup.recorder.close()


def failed(code: int, what: str = "move") -> dict[str, object]:
    return {"what": what, "error": str(OSError(code, os.strerror(code), "/some/where"))}


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_a_fault_is_news_once_with_what_to_do_about_it(code: int) -> None:
    faults = Faults()
    news = faults.met(failed(code), 1.0)
    assert news is not None
    assert news["advice"] == ADVICE[code]
    assert faults.met(failed(code, "scan"), 2.0) is None
    assert faults


def test_two_faults_are_two() -> None:
    faults = Faults()
    assert faults.met(failed(errno.ENOSPC), 1.0) is not None
    assert faults.met(failed(errno.EMFILE), 2.0) is not None
    assert [one["error"] for one in faults.page()] == ["No space left on device", "Too many open files"]


def test_what_is_no_fault_of_the_machine_passes_as_it_is() -> None:
    faults, denied = Faults(), failed(errno.EACCES)
    assert faults.met(denied, 1.0) == denied
    assert faults.met(denied, 2.0) == denied
    assert not faults


def test_the_page_says_what_since_when_and_how_often() -> None:
    faults = Faults()
    for _ in range(3):
        faults.met(failed(errno.EROFS), 0.0)
    [fault] = faults.page()
    assert fault == {
        "error": "Read-only file system",
        "what": "move",
        "since": "1970-01-01T00:00:00Z",
        "times": 3,
    }


def test_once_over_it_is_news_again() -> None:
    faults = Faults()
    faults.met(failed(errno.ENOSPC), 1.0)
    assert [one.times for one in faults.over()] == [1]
    assert not faults
    assert faults.page() == []
    assert faults.met(failed(errno.ENOSPC), 5.0) is not None


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_what_was_refused_to_a_process_or_thread_is_told_apart(code: int) -> None:
    faults = Faults()
    faults.met(failed(errno.EDQUOT), 1.0)
    faults.met(failed(code), 1.0)
    assert faults.of_starting == (code in {errno.EAGAIN, errno.ENOMEM})
    faults.over()
    assert not faults.of_starting
