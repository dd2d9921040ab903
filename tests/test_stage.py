"""A stage worker's own side, from Python: who it is, what it may say, and the done flag that follows the ACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.config.site import find_site
from ackd.coordination.pipeline.rules.keepalive import Leave, Stay
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.stage_names import BadStory
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.coordination.pipeline.wire import BadStageText
from ackd.core.errors import UnknownStory, WrongStage
from ackd.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

FIRST = Try(3, 1, 10.0, executed=True, ended_at=11.0, result=Result.CRASHED, settled=True)
SECOND = Try(4, 1, 12.0, executed=True)
STORY = Story("A-1", StoryState.STAGE_1, 9.0, 1, 1, tries=(FIRST, SECOND), earlier=2)
TEXT = "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8."
ME = {"ACKD_STORY": "A-1", "ACKD_STAGE": "1", "ACKD_TRY": "4"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The team; its worker stands somewhere else."""
    (tmp_path / "team/.ackd").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "team/ackd.toml").write_text('[pipeline.worker]\ncommand = ["true"]\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name, given in {
        **ME,
        "ACKD_ROOT": str(tmp_path / "team/.ackd"),
        "ACKD_CONFIG": str(tmp_path / "team/ackd.toml"),
    }.items():
        monkeypatch.setenv(name, given)
    here = Stage.here()
    here.files.change("A-1", lambda _: STORY)
    return tmp_path


def test_a_worker_knows_itself_wherever_it_stands(home: Path) -> None:
    here = Stage.here()
    assert (here.story, here.stage, here.generation, here.agent) == ("A-1", 1, 4, "story-A-1-s1")
    here.report(TEXT, wait_s=0)
    assert len(list((home / "team/.ackd/queue/pipeline-lead").glob("*.mime"))) == 1
    assert not list((home / "elsewhere").iterdir())


def test_who_is_no_worker_is_told_so(home: Path) -> None:
    site = find_site(None, None)
    assert Stage.of(site, {}) is None
    assert Stage.of(site, {"ACKD_AGENT": "leader"}) is None
    assert Stage.of(site, {"ACKD_STORY": "A-1", "ACKD_STAGE": "7"}) is None
    by_name = Stage.of(site, {"ACKD_AGENT": "story-A-1-s1"})
    assert by_name is not None
    assert by_name.generation is None
    assert by_name.located()[1] == SECOND
    with pytest.raises(BadStory):
        Stage.of(site, ME | {"ACKD_STORY": "../x"})


def test_what_cannot_be_said_is_refused_before_it_is_sent(home: Path) -> None:
    here = Stage.here()
    for text, fault in (
        ("done", BadStageText),
        ("Stage 2 ERROR for A-1: x", WrongStage),
        ("Stage 1 ERROR for B-1: x", WrongStage),
        ("Status for A-1: Stage 1 WAITING. Current step: x.", WrongStage),
    ):
        with pytest.raises(fault):
            here.report(text, wait_s=0)
    with pytest.raises(ValueError, match="step"):
        here.status(" . ")
    assert not (home / "team/.ackd/queue/pipeline-lead").exists()


@pytest.mark.parametrize(("story", "generation"), [("Z-9", 4), ("A-1", 1), ("A-1", 9)])
def test_a_worker_that_never_was_says_nothing(home: Path, story: str, generation: int) -> None:
    nobody = Stage(find_site(None, None), story, 1, generation)
    with pytest.raises(UnknownStory, match=story):
        nobody.status("x")
    assert isinstance(nobody.may_stop(0), Leave)


def test_the_done_flag_follows_the_ack_and_nothing_else(home: Path) -> None:
    here = Stage.here()
    flag = here.files.flag("A-1", 1, 4, "done")
    assert not here.report(TEXT, wait_s=0).acknowledged
    assert isinstance(here.may_stop(0), Stay)
    processed = SECOND._replace(ended_at=13.0, result=Result.GO)
    here.files.change("A-1", lambda it: it.with_try(processed)._replace(state=StoryState.DONE, stage=3) if it else None)
    assert isinstance(here.may_stop(0), Stay)
    assert not flag.exists()
    here.files.change("A-1", lambda it: it.with_try(processed._replace(acked_at=14.0)) if it else None)
    assert here.report(TEXT, wait_s=1).acknowledged
    assert flag.exists()
    assert isinstance(here.may_stop(0), Leave)


def test_a_status_check_can_be_read_while_it_waits_for_an_answer(home: Path) -> None:
    here = Stage.here()
    assert here.status_check() is None
    asked = "Status check: are you still working on Stage 1 for A-1?"
    here.files.raise_flag("A-1", 1, 4, "asked", text=asked, at=1.0)
    assert here.status_check() == asked == Stage(find_site(None, None), "A-1", 1).status_check(wait_s=5)
    here.files.lower_flag("A-1", 1, 4, "asked")
    assert here.status_check(wait_s=0.01) is None


def test_a_readiness_beyond_the_teams_scale_is_no_report(home: Path) -> None:
    text = "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 85."
    assert Stage.here().report(text, wait_s=0).generation == 4
    config = home / "team/ackd.toml"
    config.write_text(f"[pipeline]\nreadiness_scale = 10\n{config.read_text()}")
    with pytest.raises(BadStageText, match="a score of 0 to 10"):
        Stage.here().report(text, wait_s=0)
