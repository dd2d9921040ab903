"""README's first steps, typed as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ackd.config.model import Config, load
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.pipeline.settings import PipelineSettings
from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.tmux.screen import load_profile
from ackd.storage.session_log import read_lines
from tests.acceptance.teams import Team, running
from tests.worker.children import child

README = Path(__file__).parents[2] / "README.md"


def blocks_of(section: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    inside = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", inside, flags=re.DOTALL)


def python_of(task: str) -> str:
    """The one program below a task's heading."""
    inside = README.read_text(encoding="utf-8").split(f"### {task}\n", 1)[1].split("\n##", 1)[0]
    (code,) = re.findall(r"```python\n(.*?)```", inside, flags=re.DOTALL)
    return str(code)


def test_the_first_steps_do_what_the_readme_says(tmp_path: Path) -> None:
    _install, steps, later = blocks_of("First steps")
    listing = later.replace("kill %1", "kill %1; wait")
    environment = Team(tmp_path / "unused").environment
    here = tmp_path / "team"
    here.mkdir()
    typed = subprocess.run(
        ["bash", "-c", f"{steps}\n{listing}"],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = typed.stdout + typed.stderr
    assert "completed: builder" in said, said
    assert "not completed within 2 s: builder: retrying after: exit 1" in said, said
    assert re.search(r"^builder +exec +(available|busy)", said, re.MULTILINE), said  # perhaps at its next try
    assert '"session_end"' in (here / "run.log").read_text()


def config_of(task: str, place: Path) -> Config:
    """The tables below a task's heading, as one config."""
    inside = README.read_text(encoding="utf-8").split(f"### {task}\n", 1)[1].split("\n##", 1)[0]
    tables = re.findall(r"```toml\n(.*?)```", inside, flags=re.DOTALL)
    (place / "ackd.toml").write_text("\n".join(tables), encoding="utf-8")
    return load(place / "ackd.toml")


def test_the_ensemble_team_of_the_readme_is_a_config_that_runs(tmp_path: Path) -> None:
    config = config_of("An Ensemble team", tmp_path)
    assert config.settings(EnsembleSettings) is not None
    assert set(config.agents) == {"conductor", "dispatch", "worker-1", "worker-2"}


def test_the_terminals_of_the_readme_are_a_config_that_runs(tmp_path: Path) -> None:
    config = config_of("Agents in tmux", tmp_path)
    assert set(config.agents) == {"leader", "coder"}
    assert load_profile("mine", config.profiles).reset.type == "/new"


def test_the_pipeline_of_the_readme_is_a_config_that_runs(tmp_path: Path) -> None:
    pipeline = config_of("Stories through four stages", tmp_path).settings(PipelineSettings)
    assert pipeline is not None
    assert (pipeline.max_parallel, pipeline.worker.endpoint) == (3, "exec")


async def test_the_handler_of_the_readme_runs() -> None:
    from ackd.core.message import Draft, Priority
    from ackd.handlers import Context, Mail, Refuse

    code = python_of("Be an agent")
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


def test_the_worker_of_the_readme_has_15_lines_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    code = python_of("A worker in 15 lines")
    assert len(code.splitlines()) <= 15
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
        exec(python_of("Use a team from Python"), defined)
    assert capsys.readouterr().out == f"{defined['sent'].message_id} done\ncompleted True\n"
    team.fact("message_completed", message=defined["message"].message_id)
    assert defined["team"].board is not None


def test_the_program_that_locks_logs_and_waits_for_an_ack_does_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {}
    exec(python_of("Lock, log and acknowledge from Python"), defined)
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


def test_every_command_of_the_readme_exists() -> None:
    from tests.cli.runner import run

    text = README.read_text(encoding="utf-8")
    commands = set(re.findall(r"^ackd ([a-z]+)", text, flags=re.MULTILINE)) | set(re.findall(r"`ackd ([a-z]+)", text))
    assert {"send", "explain", "dead", "lint", "message"} <= commands
    for command in sorted(commands):
        assert run([command, "--help"]).exit_code == 0, command
