from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackd.facts import render
from ackd.log import BadSessionId, EventType, NDJSONLogger
from ackd.storage.session_log import read_lines

SEED = (
    "task_start task_complete task_failed worker_assign worker_release review_start review_result "
    "escalation loop_detected session_start session_end"
).split()


def types(logger: NDJSONLogger) -> list[str]:
    return [line.type for line in read_lines(logger.path)]


def test_all_types_of_the_seed_are_known_and_any_other_is_written_as_it_is(tmp_path: Path) -> None:
    logger = NDJSONLogger(tmp_path)
    assert list(EventType) == SEED
    for type_ in (*SEED, EventType.TASK_START, "dispatch_instruction"):
        logger.log_event(type_, {"task_id": "task-001"})
    assert types(logger) == [*SEED, "task_start", "dispatch_instruction"]
    assert all("task-001" in render(line, colour=False) or line.type in SEED for line in read_lines(logger.path))


def test_a_line_says_who_when_and_in_which_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKD_AGENT", "worker-1")
    logger = NDJSONLogger(log_dir=str(tmp_path))
    logger.log_event("task_start", {"worker_id": 1})
    NDJSONLogger(tmp_path, logger.session_id).log_event("task_complete")
    NDJSONLogger(tmp_path, logger.session_id, writer="reviewer").log_event("review_start")
    lines = list(read_lines(logger.path))
    assert [(line.writer, line.seq, line.session_id) for line in lines] == [
        (f"worker-1:{os.getpid()}", 1, logger.session_id),
        (f"worker-1:{os.getpid()}", 2, logger.session_id),
        (f"reviewer:{os.getpid()}", 1, logger.session_id),
    ]
    assert lines[0].timestamp.endswith("Z")
    assert logger.path.name == f"session-{logger.session_id}.ndjson"


def test_sessions_that_begin_within_one_second_are_told_apart(tmp_path: Path) -> None:
    code = "import sys; from ackd.log import NDJSONLogger; print(NDJSONLogger(sys.argv[1]).session_id)"
    begun = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=-1, text=True) for _ in range(4)]
    ids = [process.communicate(timeout=60)[0].strip() for process in begun]
    ids += [NDJSONLogger(tmp_path).session_id for _ in range(20)]
    assert len(set(ids)) == len(ids) == len(list(tmp_path.iterdir()))


def test_a_session_is_joined_by_its_id_or_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = NDJSONLogger(tmp_path, session_id="run-7")
    monkeypatch.setenv("ACKD_SESSION_ID", "run-7")
    second = NDJSONLogger(tmp_path)
    first.log_event("session_start", {})
    second.log_event("session_end", {})
    assert types(first) == ["session_start", "session_end"]
    assert first.path == second.path == tmp_path / "session-run-7.ndjson"


@pytest.mark.parametrize("session_id", ["../../etc/passwd", "a/b", ".hidden", "a\nb", "x" * 101, "日本"])
def test_a_session_id_is_a_name_and_no_path(tmp_path: Path, session_id: str) -> None:
    with pytest.raises(BadSessionId, match="cannot be a session's id"):
        NDJSONLogger(tmp_path, session_id)


def test_what_json_has_no_place_for_is_written_as_text(tmp_path: Path) -> None:
    logger = NDJSONLogger(tmp_path)
    logger.log_event("task_failed", {"path": Path("a"), "name": "\ud800", "number": 1 << 70, "many": {1, 2}})
    (line,) = read_lines(logger.path)
    assert line.data == {"path": "a", "name": "\\ud800", "number": str(1 << 70), "many": [1, 2]}


# --- where
def test_it_writes_where_the_seed_says_if_nobody_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logger = NDJSONLogger()
    monkeypatch.chdir("/")  # it stays where it began
    logger.log_event("session_start")
    assert logger.path.parent == tmp_path / ".ensemble" / "logs"
    assert types(logger) == ["session_start"]


def test_a_config_or_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    config = tmp_path / "ackd.toml"
    config.write_text('[ensemble]\nlog_dir = "journal"\n')
    assert NDJSONLogger().log_dir == tmp_path / "journal"
    config.write_text("[ensemble]\n")
    assert NDJSONLogger().log_dir == Path.cwd() / ".ensemble" / "logs"
    config.write_text("[[[")
    assert NDJSONLogger().log_dir == Path.cwd() / ".ensemble" / "logs"
    monkeypatch.setenv("ACKD_LOG_DIR", str(tmp_path / "elsewhere"))
    assert NDJSONLogger().log_dir == tmp_path / "elsewhere"


def test_a_process_that_forks_speaks_for_itself(tmp_path: Path) -> None:
    code = (
        "import os, sys; from ackd.log import NDJSONLogger\n"
        "log = NDJSONLogger(sys.argv[1], 'run'); log.log_event('task_start')\n"
        "if (pid := os.fork()) == 0: log.log_event('task_complete'); os._exit(0)\n"
        "os.waitpid(pid, 0); log.log_event('session_end')\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], check=True)
    lines = list(read_lines(tmp_path / "session-run.ndjson"))
    assert [(line.type, line.seq) for line in lines] == [("task_start", 1), ("task_complete", 1), ("session_end", 2)]
    assert len({line.writer for line in lines}) == 2


def test_the_usual_facts_have_words_of_their_own_and_are_read_back(tmp_path: Path) -> None:
    logger = NDJSONLogger(tmp_path)
    assert (logger.read_events(), logger.get_log_path()) == ([], logger.path)
    logger.log_task_start("T-1", 1, ["a.py"])
    logger.log_task_complete("T-1", 1, "success", duration_seconds=1.5)
    logger.log_task_complete("T-2", "worker-2", "failed")
    logger.log_review_result("T-1", "reviewer", "approved", findings_count=2)
    logger.log_escalation(2, 3, "no ack")
    logger.log_loop_detected("T-2", 6, 5)
    logger.log_event("task_failed", {"task_id": "T-3"})
    with logger.path.open("a") as file:
        file.write("no line at all\n")
    events = logger.read_events()
    assert [event["type"] for event in events] == [
        *("task_start", "task_complete", "task_complete", "review_result", "escalation", "loop_detected", "task_failed")
    ]
    assert {event["session_id"] for event in events} == {logger.session_id}
    assert [event["data"] for event in logger.read_events("task_complete")] == [
        {"task_id": "T-1", "worker_id": 1, "status": "success", "duration_seconds": 1.5},
        {"task_id": "T-2", "worker_id": "worker-2", "status": "failed"},
    ]
    summary = logger.get_session_summary()
    assert 0 <= float(str(summary.pop("duration_seconds"))) < 60
    assert summary == {
        "session_id": logger.session_id,
        "total_events": 7,
        "task_count": 3,
        "success_count": 1,
        "failed_count": 2,
        "escalation_count": 1,
    }
