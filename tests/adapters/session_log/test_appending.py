"""One line from any process: whole, numbered, and behind whatever a dead writer has left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.session_log import Follower, append, find_message_lines, iter_logs, read_lines
from tests.adapters.session_log.bench import fact, put

if TYPE_CHECKING:
    from pathlib import Path

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
    """Every reader passes over it, before and after the next writer has closed it off."""
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
from ackd.adapters.session_log import append
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
        "import resource, signal, sys; from pathlib import Path; from ackd.adapters.session_log import append\n"
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
