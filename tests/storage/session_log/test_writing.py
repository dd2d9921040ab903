"""Real files; a full disk is a real limit on file size (RLIMIT_FSIZE) or /dev/full."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.core.daemon_facts import log_continued
from ackd.storage.session_log import (
    Follower,
    SessionLog,
    append,
    find_message_lines,
    iter_logs,
    read_lines,
    session_files,
    writing,
)
from tests.storage.session_log.bench import AT, STEM, fact, fill, put, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def works(log: SessionLog) -> bool:
    return log.failing is None


def test_numbers_count_from_one_per_writer(logs: Path) -> None:
    one, two = SessionLog.open(logs, started_at=AT), SessionLog.open(logs, started_at=AT, writer="gateway")
    for log in (one, two, one):
        log.record("fact", {}, AT)
        log.flush()
    assert [(line.writer, line.seq) for line in iter_logs(logs)] == [("daemon", 1), ("daemon", 2), ("gateway", 1)]


def test_a_session_after_the_clock_was_set_back_still_comes_after_the_one_before(logs: Path) -> None:
    for number, at in enumerate((AT, AT - 3600, AT - 7200, AT + 60)):
        log = SessionLog.open(logs, started_at=at)
        log.record("fact", {"number": number}, at)
        log.close()
    assert [line.data["number"] for line in iter_logs(logs)] == [0, 1, 2, 3]
    assert [path.name for path in session_files(logs)][:2] == [f"session-{STEM}.ndjson", f"session-{STEM}-2.ndjson"]


def test_nothing_reaches_the_file_before_flush_and_one_write_takes_it_all(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog.open(logs, started_at=AT)
    sizes: list[int] = []
    real = os.write

    def counted(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return real(fd, data)

    monkeypatch.setattr(os, "write", counted)
    fill(log, 500)
    assert log.path.stat().st_size == 0
    log.flush()
    log.flush()
    assert sizes == [log.path.stat().st_size]
    assert len(list(written(log))) == 500


@pytest.mark.parametrize("room", range(1, 260, 7))
def test_a_write_cut_anywhere_by_a_full_disk_glues_and_loses_nothing(logs: Path, room: int) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 3)
    with file_size_limit(room):
        log.flush()
        assert isinstance(log.failing, OSError)
        log.record("fact", {"n": 3}, AT)
        log.flush()
    assert log.path.stat().st_size == room
    log.record("fact", {"n": 4}, AT)
    log.flush()
    assert works(log)
    assert [line.data["n"] for line in written(log)] == [0, 1, 2, 3, 4]
    assert [line.seq for line in written(log)] == [1, 2, 3, 4, 5]


def test_a_line_that_lacks_only_its_newline_is_not_written_twice(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    with file_size_limit(len(log._pending[0]) - 1):
        log.flush()
    assert log.failing is not None
    fill(log, 1)
    log.flush()
    reader = read_lines(log.path)
    assert [line.seq for line in reader] == [1, 2]
    assert reader.skipped == 0


def test_short_writes_are_continued(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SessionLog.open(logs, started_at=AT)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    fill(log, 5)
    log.flush()
    assert works(log)
    assert [line.seq for line in written(log)] == [1, 2, 3, 4, 5]


def test_no_space_left_keeps_lines_in_memory_and_says_why(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    ours = os.dup(log._file.fd)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file.fd)
    log._looked_at = AT + 1  # or it would find that the file is another
    fill(log, 2)
    log.flush()
    assert log.failing is not None
    assert log.failing.strerror == "No space left on device"
    os.dup2(ours, log._file.fd)
    log.flush()
    assert works(log)
    assert [line.seq for line in written(log)] == [1, 2]
    os.close(ours)
    os.close(full)


def test_beyond_the_bound_the_oldest_go_and_a_line_says_how_many(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "KEPT_LINES", 10)
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    with file_size_limit(log.path.stat().st_size + 20):  # the next line is torn, and later dropped
        for _ in range(3):
            fill(log, 7)
            log.flush()
            assert len(log._pending) <= 10
    fill(log, 1)
    log.flush()
    reader = read_lines(log.path)
    lines = list(reader)
    assert reader.skipped == 1
    gap = lines[1]
    assert (gap.type, gap.data) == ("log_gap", {"lost": 12})
    assert [line.seq for line in lines] == [1, 13, *range(14, 24)], "the gap stands where the lost ones would"
    assert [line.type for line in lines].count("log_gap") == 1


def test_a_second_gap_counts_from_nothing_again(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "KEPT_LINES", 4)
    log = SessionLog.open(logs, started_at=AT)
    for _ in range(2):
        with file_size_limit(log.path.stat().st_size or 1):
            fill(log, 6)
            log.flush()
        log.flush()
    assert [line.data["lost"] for line in written(log) if line.type == "log_gap"] == [3, 3]


def test_git_clean_under_the_log_opens_a_new_file_of_the_same_session(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    shutil.rmtree(logs.parent)
    fill(log, 2)
    log.flush()
    assert works(log)
    assert [path.name for path in session_files(logs)] == [f"session-{STEM}-2.ndjson"]
    assert [(line.session_id, line.seq) for line in iter_logs(logs)] == [(STEM, 2), (STEM, 3)]
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700


def test_a_log_that_cannot_be_made_anew_keeps_its_lines_until_it_can(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    shutil.rmtree(logs)
    logs.write_text("in the way")
    fill(log, 2)
    log.flush()
    assert isinstance(log.failing, OSError)
    logs.unlink()
    log.flush()
    assert works(log)
    assert [line.seq for line in iter_logs(logs)] == [1, 2]


def test_a_torn_line_of_a_deleted_file_is_whole_in_the_new_one(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    with file_size_limit(20):
        log.flush()
    log.path.unlink()
    log.flush()
    assert log.path.read_bytes().startswith(b'{"timestamp"')
    assert [line.seq for line in written(log)] == [1]


@pytest.mark.parametrize("later_s", [1.0, -86_400.0, 86_400.0])
def test_a_log_renamed_away_is_noticed_within_a_second_also_when_the_clock_is_set(logs: Path, later_s: float) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("t", {}, AT)
    log.flush()
    log.path.rename(logs / "old.ndjson")
    log.record("t", {}, AT + 0.5)
    log.flush()
    assert session_files(logs) == [], "not looked at again yet; the line is in the renamed file"
    log.record("t", {}, AT + later_s)
    log.flush()
    assert [line.seq for line in iter_logs(logs)] == [3]
    assert [line.seq for line in read_lines(logs / "old.ndjson")] == [1, 2]


def test_close_writes_what_is_left_and_may_be_called_twice(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 2)
    log.close()
    log.close()
    assert len(written(log)) == 2


# --- one line, from any process ---------------------------------------------------------------------------------------
NAME = "session-20261116-010000.ndjson"


def test_lines_have_the_form_of_the_daemons_own(logs: Path) -> None:
    append(logs / NAME, "20261116-010000", "worker:7", "task_start", {"task_id": "task-001", "worker_id": 1})
    append(logs / NAME, "20261116-010000", "worker:7", "task_complete", {"task_id": "task-001"})
    append(logs / NAME, "20261116-010000", "other:8", "task_start", {})
    lines = list(read_lines(logs / NAME))
    assert [(line.session_id, line.writer, line.seq, line.type) for line in lines] == [
        ("20261116-010000", "worker:7", 1, "task_start"),
        ("20261116-010000", "worker:7", 2, "task_complete"),
        ("20261116-010000", "other:8", 1, "task_start"),
    ]
    assert lines[0].data == {"task_id": "task-001", "worker_id": 1}
    assert lines[0].at <= lines[2].at
    assert [path.stat().st_mode & 0o777 for path in (logs, logs / NAME)] == [0o700, 0o600]


@pytest.mark.parametrize("left", [b'{"timestamp":"2026-11', b"\x00" * 5000, "完了".encode()[:4], b"{}"])
def test_what_a_dead_writer_left_costs_nobody_else_a_line(logs: Path, left: bytes) -> None:
    """Every reader skips the torn line, before and after the next writer has closed it off."""
    path = put(logs, NAME, fact(1, message_id="1.1.aa@x"))
    with path.open("ab") as file:
        file.write(left)
    follower = Follower(logs)
    assert [line.type for line in read_lines(path)] == ["fact"]
    assert [line.type for line in iter_logs(logs, newest_first=True)] == ["fact"]
    append(path, "s", "w:1", "task_start", {"message_id": "1.1.aa@x"})
    assert [line.type for line in read_lines(path)] == ["fact", "task_start"]
    assert [line.type for line in iter_logs(logs, newest_first=True)] == ["task_start", "fact"]
    assert [line.type for line in follower.poll()] == ["task_start"]
    assert [line.type for line in find_message_lines(logs, "1.1.aa@x")] == ["fact", "task_start"]
    assert path.read_bytes().count(b"\n") == 3


def test_a_log_that_was_removed_begins_anew_and_its_numbers_go_on(logs: Path) -> None:
    append(logs / NAME, "s", "gone:1", "task_start", {})
    (logs / NAME).unlink()
    append(logs / NAME, "s", "gone:1", "task_complete", {})
    assert [(line.seq, line.type) for line in read_lines(logs / NAME)] == [(2, "task_complete")]


def test_a_link_is_not_written_through(logs: Path, tmp_path: Path) -> None:
    logs.mkdir(parents=True)
    (logs / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        append(logs / NAME, "s", "w:1", "task_start", {})
    assert not (tmp_path / "elsewhere").exists()


WRITER = """
import os, sys
from pathlib import Path
from ackd.storage.session_log import append
for number in range(int(sys.argv[2])):
    append(Path(sys.argv[1]), "s", f"w:{os.getpid()}", "task_start", {"number": number, "pad": "x" * (number * 37 % 9000)})
"""


@pytest.mark.slow
def test_six_processes_of_which_three_are_killed_leave_only_whole_lines_and_at_most_one_fragment_each(
    logs: Path,
) -> None:
    path = logs / NAME
    command = [sys.executable, "-c", WRITER, str(path)]
    mortal = [subprocess.Popen([*command, "1000000"]) for _ in range(3)]
    others = [subprocess.Popen([*command, "400"]) for _ in range(3)]
    for process in others:
        assert process.wait(60) == 0
    for process in mortal:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    reader = read_lines(path)
    by_writer: dict[str, list[int]] = {}
    for line in reader:
        by_writer.setdefault(line.writer, []).append(line.seq)
    assert reader.skipped <= 3
    assert len(by_writer) == 6
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in by_writer.values())
    assert [len(by_writer[f"w:{process.pid}"]) for process in others] == [400] * 3


def test_a_disk_that_refuses_within_a_line_is_said_and_the_next_line_is_whole(logs: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from ackd.storage.session_log import append\n"
        "path = Path(sys.argv[1]); append(path, 's', 'w:1', 'task_start', {})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limit = path.stat().st_size + 20; soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))\n"
        "try: append(path, 's', 'w:1', 'task_failed', {})\nexcept OSError as error: print(error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))\n"
        "append(path, 's', 'w:1', 'task_complete', {})\n"
    )
    run = [sys.executable, "-c", code, str(logs / NAME)]
    said = subprocess.run(run, capture_output=True, text=True, check=True, env=os.environ)
    assert said.stdout == "File too large\n"
    assert [line.type for line in read_lines(logs / NAME)] == ["task_start", "task_complete"]


# --- going on in another file -----------------------------------------------------------------------------------------
def rotating(logs: Path, size_bytes: int = 1_000, age_s: float = 1e9) -> SessionLog:
    log = SessionLog.open(logs, started_at=AT)
    log.is_full = lambda size, age: size >= size_bytes or age >= age_s
    return log


def test_a_full_file_is_followed_by_the_next_which_says_so_first(logs: Path) -> None:
    log = rotating(logs)
    moved: list[Path] = []
    log.moved = moved.append
    for number in range(30):
        log.record("fact", {"n": number}, AT + number)
        log.flush()
    log.close()
    files = session_files(logs)
    assert [path.name for path in files[:3]] == [f"session-{STEM}{tail}.ndjson" for tail in ("", "-2", "-3")]
    assert moved == files[1:]
    assert all(path.stat().st_size >= 1_000 for path in files[:-1])
    lines = list(iter_logs(logs))
    assert [line.data["n"] for line in lines if line.type == "fact"] == list(range(30))
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert {line.session_id for line in lines} == {STEM}
    for before, path in itertools.pairwise(files):
        first = next(iter(read_lines(path)))
        assert (first.type, first.data) == ("log_continued", {"before": before.name})


def test_a_turn_is_not_torn_apart_and_an_idle_log_makes_no_file(logs: Path) -> None:
    log = rotating(logs, size_bytes=10)
    fill(log, 50)
    log.flush()
    log.flush()
    assert [len(list(read_lines(path))) for path in session_files(logs)] == [50, 1]


def test_a_file_is_full_by_its_age_in_the_time_of_its_lines_also_after_the_clock_was_set_back(logs: Path) -> None:
    log = rotating(logs, size_bytes=1 << 30, age_s=3_600)
    numbers = []
    for at in (0, 3_599, 3_600, 3_700, -90_000, -90_000 + 3_599, -90_000 + 3_600):
        log.record("fact", {}, AT + at)
        log.flush()
        numbers.append(len(session_files(logs)))
    assert numbers == [1, 1, 2, 2, 2, 2, 3]


def test_a_disk_that_takes_no_new_file_lets_the_old_one_go_on(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rotating(logs, size_bytes=10)

    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "create", refused)
        for number in range(3):
            log.record("fact", {}, AT + number)
            log.flush()
            assert works(log)
    assert len(written(log)) == 3
    log.record("fact", {}, AT + 3)
    log.flush()
    assert [len(list(read_lines(path))) for path in session_files(logs)] == [4, 1]
    assert [line.seq for line in iter_logs(logs)] == [1, 2, 3, 4, 5]


def test_the_first_line_is_that_of_whoever_knows_the_open_messages(logs: Path) -> None:
    log = rotating(logs, size_bytes=10)
    log.first_line = lambda before, now: log_continued(before=before.name, needed_from=f"{now.name} and {before.name}")
    fill(log, 1)
    log.flush()
    two = f"session-{STEM}-2.ndjson"
    assert written(log)[0].data["needed_from"] == f"{two} and session-{STEM}.ndjson"
