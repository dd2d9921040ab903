"""`ackd stage` and `ackd hook keepalive`, without a daemon: what a worker sends, what is refused, when it may stop."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.rules.keepalive import RETRY_WAIT_S, Notes
from ackd.coordination.pipeline.rules.record import Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

Team = Any  # conftest.py's: test files do not import each other

ONE = Try(1, 2, 10.0, executed=True)
STORY = Story("A-1", StoryState.STAGE_2, 9.0, 1, 2, tries=(ONE,))
ME = {"ACKD_STORY": "A-1", "ACKD_STAGE": "2", "ACKD_TRY": "1"}
TEXT = "Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review."
KEEPALIVE = ("hook", "keepalive", "--wait", "0")


@pytest.fixture
def files(team: Team, monkeypatch: pytest.MonkeyPatch) -> StoryFiles:
    for name in ME:
        monkeypatch.delenv(name, raising=False)
    (team.home / "ackd.toml").write_text('[pipeline.worker]\ncommand = ["true"]\n')
    files = StoryFiles(team.root / "state/stories", durable=False)
    files.change("A-1", lambda _: STORY)
    return files


@pytest.fixture
def worker(team: Team, files: StoryFiles) -> Team:
    return team


def mail(team: Team) -> list[str]:
    return [path.read_text() for path in team.files("queue/pipeline-lead")]


def body(text: str) -> object:
    return yaml.safe_load(text.partition("\n\n")[2])


def test_a_report_is_mail_of_the_worker_with_its_exact_text_and_summary(worker: Team) -> None:
    said = worker.ackd("stage", "report", "--wait", "0", TEXT, env=ME)
    assert (said.exit_code, "not acknowledged yet" in said.stdout) == (0, True)
    (sent,) = mail(worker)
    assert "From: story-A-1-s2" in sent
    assert body(sent) == {"content": TEXT, "summary": "A-1 Stage 2 COMPLETE", "generation": 1}


def test_a_report_of_several_lines_comes_by_stdin(worker: Team) -> None:
    text = "Stage 2 ERROR for A-1: build\n  at a.c:3\n"
    assert worker.ackd("stage", "report", "--wait", "0", "-", stdin=text, env=ME).exit_code == 0
    assert body(mail(worker)[0]) == {"content": text.strip(), "summary": "A-1 Stage 2 ERROR", "generation": 1}


def test_who_is_only_named_by_its_agent_or_its_text_speaks_for_the_current_worker(worker: Team) -> None:
    assert worker.ackd("stage", "report", "--wait", "0", TEXT, env={"ACKD_AGENT": "story-A-1-s2"}).exit_code == 0
    assert worker.ackd("stage", "report", "--wait", "0", TEXT).exit_code == 0
    assert len(mail(worker)) == 2


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["report", "Stage 2 Complete for A-1."], 65, "closest is 'Stage 2 COMPLETE': at character 10"),
        (["report", "Stage 7 ERROR for A-1: x"], 65, "at character 7"),
        (["report", "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8."], 65, "cannot speak for another"),
        (["report", "Status for A-1: Stage 2 WAITING. Current step: x."], 2, "a status is no report"),
        (["status", " . "], 2, "STEP is empty"),
        (["status", "--doing", "SLEEPING", "x"], 2, "SLEEPING"),
    ],
)
def test_what_the_lead_would_not_understand_is_refused(worker: Team, words: list[str], code: int, why: str) -> None:
    said = worker.ackd("stage", *words, env=ME)
    assert (said.exit_code, why in said.stderr) == (code, True), said.stderr
    assert not mail(worker)


def test_who_is_no_worker_is_told_so(worker: Team) -> None:
    assert worker.ackd("stage", "status", "x").exit_code == 2
    assert worker.ackd("stage", "checkpoint", "x").exit_code == 2
    assert worker.ackd("stage", "status", "x", env=ME | {"ACKD_STORY": "Z-1"}).exit_code == 66
    assert worker.ackd("stage", "status", "x", env=ME | {"ACKD_TRY": "9"}).exit_code == 66
    assert worker.ackd("stage", "status", "x", env=ME | {"ACKD_STORY": "../x"}).exit_code == 65


def test_a_status_is_written_exactly(worker: Team) -> None:
    assert worker.ackd("stage", "status", "running", "the tests.", env=ME).exit_code == 0
    said = body(mail(worker)[0])
    assert isinstance(said, dict)
    assert said["content"] == "Status for A-1: Stage 2 EXECUTING. Current step: running the tests."


def test_a_status_check_is_printed_while_it_waits_and_else_the_answer_is_no(worker: Team, files: StoryFiles) -> None:
    none = worker.ackd("stage", "check", env=ME)
    assert (none.exit_code, none.stdout) == (1, "")
    asked = "Status check: are you still working on Stage 2 for A-1?"
    files.raise_flag("A-1", 2, 1, "asked", text=asked, at=1.0)
    there = worker.ackd("stage", "check", "--wait", "5", env=ME)
    assert (there.exit_code, there.stdout) == (0, f"{asked}\n")
    assert worker.json("stage", "check", env=ME) == {"asked": asked}
    assert worker.ackd("stage", "check").exit_code == 2


def test_a_checkpoint_has_all_that_the_next_worker_must_know(worker: Team, files: StoryFiles) -> None:
    said = worker.json("stage", "checkpoint", "--done", "a", "--remaining", "b", "half way", env=ME)
    assert said["file"].endswith("checkpoint-A-1.json")
    kept = files.checkpoint("A-1", 2)
    assert kept is not None
    assert {**kept, "at": 0} == {
        "story": "A-1",
        "stage": 2,
        "worker": "story-A-1-s2",
        "generation": 1,
        "tasks_done": ["a"],
        "tasks_remaining": ["b"],
        "last_action": "half way",
        "at": 0,
    }


# --- the stop hook ----------------------------------------------------------------------------------------------------
def test_exit_2_until_the_ack_and_0_after_it_and_then_the_flag(worker: Team, files: StoryFiles) -> None:
    early = worker.ackd(*KEEPALIVE, env=ME)
    worker.ackd("stage", "report", "--wait", "0", TEXT, env=ME)
    waits = worker.ackd(*KEEPALIVE, env=ME)
    assert not files.is_flagged("A-1", 2, 1, "done")
    files.change("A-1", lambda it: it.with_try(ONE._replace(acked_at=30.0)) if it else None)
    after = worker.ackd(*KEEPALIVE, env=ME)
    assert [(one.exit_code, one.stdout) for one in (early, waits, after)] == [(2, ""), (2, ""), (0, "")]
    assert "has no report yet" in early.stderr
    assert "not acknowledged yet" in waits.stderr
    assert files.is_flagged("A-1", 2, 1, "done")


def test_exit_0_once_the_one_retry_after_a_status_check_went_unanswered(worker: Team, files: StoryFiles) -> None:
    files.change("A-1", lambda it: it.with_try(ONE._replace(asked_at=100.0)) if it else None)
    files.note("A-1", 2, 1, lambda _: Notes(reports=(50.0,)))
    asked = worker.ackd(*KEEPALIVE, env=ME)
    assert (asked.exit_code, "run `ackd stage report` again, once" in asked.stderr) == (2, True)
    worker.ackd("stage", "report", "--wait", "0", TEXT, env=ME)
    assert worker.ackd(*KEEPALIVE, env=ME).exit_code == 2
    files.note("A-1", 2, 1, lambda it: it._replace(reports=(50.0, it.reports[-1] - RETRY_WAIT_S)))
    assert worker.ackd(*KEEPALIVE, env=ME).exit_code == 0
    assert not files.is_flagged("A-1", 2, 1, "done")


def test_exit_0_for_whoever_is_no_worker_or_of_a_story_that_is_gone(worker: Team) -> None:
    assert worker.ackd(*KEEPALIVE).exit_code == 0
    assert worker.ackd(*KEEPALIVE, env=ME | {"ACKD_STORY": "Z-9"}).exit_code == 0


def test_what_lies_there_damaged_neither_keeps_a_worker_nor_shows_a_traceback(worker: Team, files: StoryFiles) -> None:
    """Only exit 2 makes an agent go on."""
    files.path("A-1").write_text("{")
    said = worker.ackd(*KEEPALIVE, env=ME)
    assert (said.exit_code, said.stderr.startswith("ackd: the record of story A-1 cannot be read")) == (65, True)


def test_for_programs_the_answer_is_json(worker: Team) -> None:
    said = worker.ackd(*KEEPALIVE, "--json", env=ME)
    assert (said.exit_code, '"stay": true' in said.stdout) == (2, True)
