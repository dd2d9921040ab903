"""The programs and teams of the README and docs/, each used for what its page says. test_pages.py runs the rest."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ackd.config.model import Config, load
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.pipeline.settings import PipelineSettings
from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.tmux.screen import load_profile
from ackd.storage.session_log import read_lines
from tests.acceptance.pages import DOCS, README, blocks_of, python_of, run_page
from tests.acceptance.teams import Team, running
from tests.worker.children import child

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = DOCS / "python.md"


def test_the_five_minutes_end_as_the_readme_says(tmp_path: Path) -> None:
    place = tmp_path / "team"
    place.mkdir()
    said = run_page(README, place)
    assert "completed: planner" in said
    assert re.search(r"^tester +exec +\w+", said, re.MULTILINE)
    assert "dead: tester (timed out after 3 s)" in said
    assert re.search(r"queue_monitor +escalation +critical .*tester did not complete 1 message", said)
    assert re.search(r"^dead +\S+ +tester .*timed out after 3 s", said, re.MULTILINE)
    assert re.search(r"told .*\(attempt 2\)", said)
    assert re.search(r"^requeued ", said, re.MULTILINE)
    assert "completed: tester" in said
    assert '"session_end"' in (place / "run.log").read_text()
    bodies = [path.read_text() for path in (place / ".ackd/queue/user/processed").iterdir()]
    assert any("it is built" in body for body in bodies)


def config_of(page: Path, place: Path) -> Config:
    """The page's first table that is no file, as a config."""
    table = next(block.text for block in blocks_of(page, "toml") if block.file is None)
    (place / "ackd.toml").write_text(table, encoding="utf-8")
    return load(place / "ackd.toml")


def test_the_ensemble_team_of_its_page_is_a_config_that_runs(tmp_path: Path) -> None:
    config = config_of(DOCS / "protocols/ensemble.md", tmp_path)
    assert config.settings(EnsembleSettings) is not None
    assert set(config.agents) == {"conductor", "dispatch", "worker-1", "worker-2"}


def test_the_terminals_of_their_page_are_a_config_that_runs(tmp_path: Path) -> None:
    page = DOCS / "agents/tmux.md"
    assert set(config_of(page, tmp_path).agents) == {"leader", "coder"}
    (profile,) = [block.text for block in blocks_of(page, "toml") if "[profiles" in block.text]
    (tmp_path / "ackd.toml").write_text(profile, encoding="utf-8")
    assert load_profile("mine", load(tmp_path / "ackd.toml").profiles).reset.type == "/new"


def test_the_pipeline_of_its_page_is_a_config_that_runs(tmp_path: Path) -> None:
    (table,) = blocks_of(DOCS / "protocols/pipeline.md", "toml")
    (tmp_path / "ackd.toml").write_text(table.text, encoding="utf-8")
    pipeline = load(tmp_path / "ackd.toml").settings(PipelineSettings)
    assert pipeline is not None
    assert (pipeline.max_parallel, pipeline.worker.endpoint) == (3, "exec")


async def test_the_handler_of_its_page_runs() -> None:
    from ackd.core.message import Draft, Priority
    from ackd.handlers import Context, Mail, Refuse

    code = python_of(DOCS / "agents/handler.md", "handler: a Python function inside the daemon")
    defined: dict[str, Any] = {}
    exec(code, defined)
    written: list[Draft] = []

    async def write(draft: Draft) -> None:
        written.append(draft)

    def asked(body: str) -> tuple[Mail, Context]:
        mail = Mail("1.1.a@x", "user", "greeter", "message", Priority.NORMAL, body)
        return mail, Context("greeter", mail, write)

    await defined["greet"](*asked("name: Ada\n"))
    assert [(draft.recipient, draft.in_reply_to, draft.body) for draft in written] == [
        ("user", "1.1.a@x", {"content": "Hello, Ada!"})
    ]
    with pytest.raises(Refuse, match="whom"):
        await defined["greet"](*asked("content: hello\n"))


def test_the_worker_of_its_page_has_15_lines_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    name, *lines = python_of(DOCS / "agents/process.md", "A worker in 15 lines").splitlines()
    assert name == "# worker.py"
    assert len(lines) <= 15
    code = "\n".join(lines)
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "make $1"; echo "$1" >> notes; [ "$1" != build ] || rm broken\n')
    make.chmod(0o700)
    (tmp_path / "broken").touch()
    script = f"os.environ['PATH'] = {str(tmp_path)!r} + ':' + os.environ['PATH']\n{code}"
    with child(tmp_path, script, run="") as worker:
        worker.assign("task_1")
        assert worker.hear(worker_json.Failed).error == "I only make releases"
        worker.body = "content: release 1.0\n"
        worker.assign("task_2")
        assert worker.hear(worker_json.Completed).verification_output == "make test passed"
        worker.assign("task_3")
        failed = worker.hear(worker_json.Failed)
        assert (failed.recoverable, failed.checkpoint and failed.checkpoint.step) == (True, 1)
        (tmp_path / "broken").touch()
        worker.assign("task_3", attempt=2, checkpoint=failed.checkpoint)
        worker.hear(worker_json.Completed)
        worker.shut_down()
        assert worker.ended() == 0
        assert worker.done() == "clean build test clean build build test".split()
        assert "make test" in worker.stderr()


def test_the_program_that_uses_a_team_does_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = Team(tmp_path, '[agents.builder]\nendpoint = "exec"\ncommand = ["true"]\n[agents.reviewer]\n')
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {}
    with running(team):
        team.post("reviewer")
        exec(python_of(PYTHON, "Messages and agents"), defined)
    assert capsys.readouterr().out == f"{defined['sent'].message_id} done\ncompleted True\n"
    team.fact("message_completed", message=defined["message"].message_id)
    assert defined["team"].board is not None


def test_the_program_that_locks_logs_and_waits_for_an_ack_does_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {}
    exec(python_of(PYTHON, "Lock, log and acknowledge"), defined)
    stale = tmp_path / "queue" / "ack" / "task-001.ack"
    stale.parent.mkdir(parents=True, exist_ok=True)  # the constructor made it
    stale.touch()
    os.utime(stale, (0, 0))
    task = tmp_path / "queue" / "tasks" / "worker-1-task-001.yaml"
    worker = subprocess.Popen(["sh", "-c", f"until [ -s {task} ]; do sleep 0.1; done; touch {stale}"])
    defined["hand_out"]("task-001", 1, "%0", "title: tests\n")
    assert worker.wait(60) == 0
    defined["add"]("- more\n")
    summary = (tmp_path / "queue" / "reports" / "completion-summary.yaml").read_text()
    assert summary == "- {task: task-001, worker: 1, acked: true, phase: 0}\n- more\n"
    (log,) = (tmp_path / ".ensemble" / "logs").glob("session-*.ndjson")
    assert [line.type for line in read_lines(log)] == ["task_start"]


def test_the_lease_of_its_page_is_held_while_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".ackd/bus").mkdir(parents=True)
    exec(python_of(DOCS / "protocols/leases.md", "From Python"), {})
    assert "it is ours" in capsys.readouterr().out
