from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from ackd.cli import tail as module
from ackd.cli.tail import Printer, parse_since, watch
from ackd.storage.session_log import Line, SessionLog
from tests.cli.runner import Result, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = time.time()
ID = "1763.42.ab12@ignite.local"
ACKD = (sys.executable, "-c", "from ackd.cli.main import main; main()")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ackd").mkdir()
    return tmp_path / ".ackd"


@pytest.fixture
def log(root: Path) -> Iterator[SessionLog]:
    opened = SessionLog.open(root / "logs", started_at=NOW - 3600)
    yield opened
    opened.close()


def put(log: SessionLog, type_: str, at: float = NOW, **data: Any) -> None:
    log.record(type_, data, at)
    log.flush()


def warn(log: SessionLog, number: int, at: float = NOW, **data: Any) -> None:
    put(log, "message_warning", at, **{"message_id": ID, "agent": "builder", **data, "warning": f"w{number}"})


def ran(root: Path, *options: str) -> Result:
    return run(["tail", "--root", str(root), *options])


def warnings(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [int(number) for number in re.findall(r"\bw(\d+)$", result.stdout, re.MULTILINE)]


# --- which lines ------------------------------------------------------------------------------------------------------
def test_the_last_twenty_lines_across_sessions_oldest_first(root: Path, log: SessionLog) -> None:
    for number in range(15):
        warn(log, number)
    later = SessionLog.open(root / "logs", started_at=NOW)
    for number in range(15, 30):
        warn(later, number)
    assert warnings(ran(root)) == list(range(10, 30))
    assert warnings(ran(root, "-n", "3")) == [27, 28, 29]
    assert warnings(ran(root, "-n", "0")) == []
    assert warnings(ran(root, "-n", "999")) == list(range(30))


def test_filters_count_only_what_fits(root: Path, log: SessionLog) -> None:
    warn(log, 1, agent="tester")
    for number in range(2, 40):
        warn(log, number)
    assert warnings(ran(root, "--agent", "tester")) == [1]


def test_agents_are_found_as_recipient_as_sender_and_under_either_spelling(root: Path, log: SessionLog) -> None:
    warn(log, 1, agent="ignitian-1")
    warn(log, 2, NOW, **{"from": "ignitian_1"})
    warn(log, 3)
    assert warnings(ran(root, "--agent", "ignitian_1")) == [1, 2]


def test_messages_are_found_by_beginning_or_with_brackets(root: Path, log: SessionLog) -> None:
    warn(log, 1)
    warn(log, 2, message_id="1764.1.ff@x")
    put(log, "session_end", reason=ID)
    for text in (ID, f"<{ID}>", "1763.42"):
        assert warnings(ran(root, "--message", text)) == [1]
    assert warnings(ran(root, "--message", "176")) == [1, 2]


def test_messages_are_found_by_the_hash_that_narrow_lines_show(root: Path, log: SessionLog) -> None:
    warn(log, 1, message_id="1794794802.29247.7c1f00d00001@x")
    warn(log, 2, message_id="1794794802.29247.beef00000002@x")
    assert warnings(ran(root, "--message", "7c1f00d0")) == [1]


def test_several_types_are_alternatives(root: Path, log: SessionLog) -> None:
    put(log, "watch_overflow")
    put(log, "nudge", agent="a", message_id=ID, rung=1)
    warn(log, 1)
    result = ran(root, "--type", "nudge", "--type", "watch")
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["watch", "nudge"]


def test_since_shows_everything_from_then_on(root: Path, log: SessionLog) -> None:
    now = time.time()
    for number in range(50):
        warn(log, number, at=now - 2970 + number * 60)
    assert warnings(ran(root, "--since", "10m")) == list(range(40, 50))
    assert warnings(ran(root, "--since", "1d")) == list(range(50))
    assert warnings(ran(root, "--since", "1d", "-n", "2")) == [48, 49]
    assert ran(root, "--since", "yesterday").exit_code == 2


def test_since_takes_spans_and_iso_times() -> None:
    assert [parse_since(text, 100_000.0) for text in ("30s", "10m", "2h", "1d", "1.5h")] == [
        99_970,
        99_400,
        92_800,
        13_600,
        94_600,
    ]
    assert parse_since("1970-01-01T00:01:00Z", 0) == 60
    assert parse_since("1970-01-01T01:01:00+01:00", 0) == 60


def test_nothing_that_fits_is_said_on_stderr(root: Path, log: SessionLog) -> None:
    warn(log, 1)
    result = ran(root, "--agent", "user")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "ackd: no line of the session log fits\n")


def test_an_agent_that_never_was_is_67(root: Path, log: SessionLog) -> None:
    warn(log, 1)
    result = ran(root, "--agent", "nope")
    assert (result.exit_code, result.stdout) == (67, "")
    assert "no agent 'nope'" in result.stderr


def test_an_agent_that_has_left_the_team_is_found_in_the_log(root: Path, log: SessionLog) -> None:
    log.record("message_told", {"message_id": "1@x", "agent": "gone-by-now", "attempt": 1, "proof": "exit 0"}, 1.0)
    log.flush()
    result = ran(root, "--agent", "gone_by_now")
    assert (result.exit_code, "gone-by-now" in result.stdout) == (0, True)


def test_without_any_log_it_says_how_to_get_one(root: Path) -> None:
    result = ran(root)
    assert result.exit_code == 66
    assert result.stderr == f"ackd: no session log in {root / 'logs'} yet: start the daemon with `ackd run`\n"
    assert result.stdout == ""


# --- how they look ----------------------------------------------------------------------------------------------------
def test_json_is_the_raw_lines(root: Path, log: SessionLog) -> None:
    warn(log, 1)
    put(log, "progress", NOW, agent="leader", message_id=ID, stage="x", final=False, **{"from": "builder"})
    result = ran(root, "--json")
    assert result.stdout_bytes == log.path.read_bytes()
    assert [json.loads(line)["type"] for line in result.stdout.splitlines()] == ["message_warning", "progress"]


def test_no_colours_go_into_a_pipe_and_nothing_is_cut(root: Path, log: SessionLog) -> None:
    warn(log, 1, warning="x" * 500)
    put(log, "message_warning", message_id=ID, agent="builder", warning="y" * 500 + "\x1b[31m")
    result = ran(root)
    assert "\x1b" not in result.stdout
    assert "y" * 500 + "\\x1b[31m\n" in result.stdout


# --- following --------------------------------------------------------------------------------------------------------
def fact(type_: str, **data: Any) -> Line:
    return Line("2026-11-16T01:00:00.000000Z", "s", 1, "daemon", type_, data, b"{}")


def progress(number: int, who: str = "builder", *, final: bool = False) -> Line:
    return fact("progress", agent="leader", stage="s", percent=number, message="m", final=final, **{"from": who})


def watched(
    timed: list[tuple[float, Line | None]], capsys: pytest.CaptureFixture[str], *, as_json: bool = False
) -> list[str]:
    now = [0.0]

    def stream() -> Iterator[Line | None]:
        for at, line in timed:
            now[0] = at
            yield line

    watch(stream(), Printer(as_json, colour=False, width=0), lambda: now[0])
    return capsys.readouterr().out.splitlines()


def test_progress_is_shown_at_its_pace_and_the_newest_wins(capsys: pytest.CaptureFixture[str]) -> None:
    timed = [(0.0, progress(1)), (0.5, progress(2)), (1.0, progress(3)), (1.9, None), (2.0, None), (2.2, None)]
    assert watched(timed, capsys) == ["stage=s percent=1 message=m", "stage=s percent=3 message=m"]


def test_each_who_reports_has_a_pace_of_its_own_and_final_is_always_shown(capsys: pytest.CaptureFixture[str]) -> None:
    timed = [
        (0.0, progress(1)),
        (0.1, progress(2, "tester")),
        (0.2, progress(3)),
        (0.3, progress(100, final=True)),
        (9.0, None),
    ]
    assert [line.split()[1] for line in watched(timed, capsys)] == ["percent=1", "percent=2", "percent=100"]


def test_other_lines_and_json_are_never_held_back(capsys: pytest.CaptureFixture[str]) -> None:
    nudges: list[tuple[float, Line | None]] = [(0.0, fact("nudge", agent="a", rung=n)) for n in range(8)]
    assert len(watched(nudges, capsys)) == 8
    assert len(watched([(0.0, progress(n)) for n in range(8)], capsys, as_json=True)) == 8


class Followed:
    """A real `ackd tail -f`, its output line by line."""

    def __init__(self, root: Path, *options: str) -> None:
        command = (*ACKD, "tail", "-f", "--root", str(root), *options)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def complaint(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_it_waits_for_a_log_and_follows_over_a_restart_and_ends_quietly_by_ctrl_c(root: Path) -> None:
    with Followed(root) as followed:
        assert "no session log" in followed.complaint()
        first = SessionLog.open(root / "logs", started_at=NOW)
        warn(first, 1)
        assert followed.line().endswith("w1\n")
        first.close()
        second = SessionLog.open(root / "logs", started_at=NOW + 5)
        warn(second, 2)
        assert followed.line().endswith("w2\n")
        followed.process.send_signal(signal.SIGINT)
        out, err = followed.process.communicate(timeout=60)
        assert (followed.process.returncode, out, err) == (130, "", "")


def test_following_shows_the_last_lines_first_and_filters_what_comes(root: Path, log: SessionLog) -> None:
    for number in range(5):
        warn(log, number)
    with Followed(root, "-n", "1", "--agent", "builder") as followed:
        assert followed.line().endswith("w4\n")
        warn(log, 5, agent="tester")
        warn(log, 6)
        assert followed.line().endswith("w6\n")


def test_a_reader_that_goes_away_ends_it_without_a_word(root: Path, log: SessionLog) -> None:
    for number in range(3000):
        log.record("message_warning", {"message_id": ID, "agent": "a", "warning": "x" * 100 + str(number)}, NOW)
    log.flush()
    command = (*ACKD, "tail", "-n", "3000", "--root", str(root))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


def test_reading_the_log_imports_nothing_heavy() -> None:
    code = f"import sys, {module.__name__}, ackd.cli.explain; print([m for m in ('asyncio', 'anyio', 'pydantic', 'structlog', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_following_ends_when_nobody_reads_any_more_without_waiting_for_the_next_line(
    root: Path, log: SessionLog
) -> None:
    """As in `ackd tail -f | head -1`, where the next line may be hours away."""
    warn(log, 1)
    with Followed(root) as followed:
        assert followed.line().endswith("w1\n")
        assert followed.process.stdout is not None
        followed.process.stdout.close()
        assert followed.process.wait(60) == 0
        assert followed.process.stderr is not None
        assert followed.process.stderr.read() == ""
