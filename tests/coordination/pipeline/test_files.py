"""Stories on disk: whole, private, one writer at a time."""

from __future__ import annotations

import json
import os
import stat
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.pipeline.files import StoriesHeld, StoryFiles, reported_again, stayed
from ackd.coordination.pipeline.rules.keepalive import Notes
from ackd.coordination.pipeline.rules.record import BadStoryRecord, Story
from ackd.coordination.pipeline.rules.story import StoryState

if TYPE_CHECKING:
    from pathlib import Path

STORY = Story("A-1", StoryState.WAITING, 1.0, 1)


@pytest.fixture
def files(tmp_path: Path) -> StoryFiles:
    return StoryFiles(tmp_path / "stories", durable=False)


def test_a_change_is_on_disk_and_private_when_it_returns(files: StoryFiles) -> None:
    assert files.change("A-1", lambda _: STORY) == (None, STORY)
    assert files.change("A-1", lambda it: it._replace(reason="x") if it else None)[1] == STORY._replace(reason="x")
    assert StoryFiles(files.directory, durable=True).read("A-1") == STORY._replace(reason="x")
    assert stat.S_IMODE(files.path("A-1").stat().st_mode) == 0o600
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert files.ids() == ["A-1"]


def test_what_is_the_same_is_not_written(files: StoryFiles) -> None:
    files.change("A-1", lambda _: STORY)
    before = files.signature("A-1")
    files.change("A-1", lambda it: it)
    assert files.signature("A-1") == before
    assert files.change("B-1", lambda it: it) == (None, None)
    assert files.signature("B-1") is None


def test_no_change_is_lost_when_several_write(files: StoryFiles) -> None:
    files.change("A-1", lambda _: STORY)

    def count() -> None:
        for _ in range(20):
            files.change("A-1", lambda it: it._replace(pauses=it.pauses + 1) if it else None)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = files.read("A-1")
    assert found is not None
    assert found.pauses == 80


def test_a_lock_that_is_held_is_named_and_never_unlinked(files: StoryFiles) -> None:
    with files.locked(), pytest.raises(StoriesHeld), files.locked(patience_s=0.02):
        pass
    assert (files.directory / ".lock").exists()


def test_what_is_no_record_is_named_and_the_others_are_read(files: StoryFiles) -> None:
    files.change("A-1", lambda _: STORY)
    files.path("B-1").write_text("{")
    files.path("C-1").symlink_to(files.path("A-1"))
    os.mkfifo(files.path("D-1"))
    stories, bad = files.all()
    assert stories == [STORY]
    assert [one.story for one in bad] == ["B-1", "C-1", "D-1"]
    with pytest.raises(BadStoryRecord, match="C-1"):
        files.read("C-1")


def test_flags_belong_to_one_generation(files: StoryFiles) -> None:
    files.raise_flag("A-1", 2, 3, "active", message_id="m")
    assert files.is_flagged("A-1", 2, 3, "active")
    assert not files.is_flagged("A-1", 2, 4, "active")
    assert files.flag("A-1", 2, 3, "active").name == "story-A-1-s2.g3.active"
    files.lower_flag("A-1", 2, 3, "active")
    files.lower_flag("A-1", 2, 3, "active")
    assert not files.is_flagged("A-1", 2, 3, "active")


def test_a_workers_notes_are_kept_and_damage_is_nothing(files: StoryFiles) -> None:
    assert files.notes("A-1", 0, 1) == Notes()
    files.note("A-1", 0, 1, lambda it: stayed(it, 5.0, asked=False))
    files.note("A-1", 0, 1, lambda it: stayed(it, 6.0, asked=True))
    assert files.notes("A-1", 0, 1) == Notes((), 2, 1, 5.0)
    files.note("A-1", 0, 1, lambda it: reported_again(it, 7.0))
    assert files.notes("A-1", 0, 1) == Notes((7.0,), 0, 0, None)
    files.note("A-1", 0, 1, lambda it: stayed(it, 8.0, asked=False))
    files.note("A-1", 0, 1, lambda it: reported_again(it, 9.0))
    assert files.notes("A-1", 0, 1) == Notes((7.0, 9.0), 0, 0, 8.0)
    files.flag("A-1", 0, 1, "notes").write_text('{"reports": 3}')
    assert files.notes("A-1", 0, 1) == Notes()


def test_what_a_killed_writer_left_is_swept(files: StoryFiles) -> None:
    files.change("A-1", lambda _: STORY)
    files.raise_flag("A-1", 0, 1, "done")
    files.keep_checkpoint("A-1", {"story": "A-1"})
    for path in (files.path("B-1"), files.flag("A-1", 0, 1, "active"), files.checkpoint_path("B-1")):
        path.with_name(f".{path.name}.tmp").write_text("{")
    files.sweep()
    assert not list(files.directory.rglob(".*.tmp"))
    assert files.ids() == ["A-1"]
    assert files.is_flagged("A-1", 0, 1, "done")
    assert (files.directory / ".lock").exists()


@pytest.mark.parametrize(("replaces", "action"), [(True, "the lead's"), (False, "the worker's")])
def test_what_a_worker_says_while_the_lead_is_about_to_note_something_is_kept(
    files: StoryFiles, *, replaces: bool, action: str
) -> None:
    """The lead waits for the lock, and a worker that is quicker has written its checkpoint."""
    lead = {"story": "A-1", "stage": 2, "last_action": "the lead's"}
    note = threading.Thread(target=partial(files.note_action, "A-1", 2, lead, replaces=replaces))
    with files.locked():
        note.start()
        said = {**lead, "last_action": "the worker's", "tasks_done": ["one"], "tasks_remaining": ["two"]}
        path = files.checkpoint_path("A-1")
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(said))
    note.join()
    assert files.checkpoint("A-1", 2) == {**said, "last_action": action}


def test_a_checkpoint_is_of_its_stage(files: StoryFiles) -> None:
    path = files.keep_checkpoint("A-1", {"story": "A-1", "stage": 2, "last_action": "x"})
    assert path.name == "checkpoint-A-1.json"
    assert files.checkpoint("A-1", 2) == {"story": "A-1", "stage": 2, "last_action": "x"}
    assert files.checkpoint("A-1", 3) is None
    assert files.checkpoint("B-1", 2) is None
