"""The queues of the lead and of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.config.site import Site
from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.mailbox import Mailboxes, remove_empty_queues
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.stage_names import DEFAULT_ID_PATTERN
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.formats import ignite
from ackd.storage.spool import Spool

if TYPE_CHECKING:
    from pathlib import Path


def put(place: Path, box: str, number: int, sender: str, body: str) -> str:
    message_id = f"177000000{number}.1.abc@x"
    data = ignite.build(message_id=message_id, sender=sender, to=(box,), date=ignite.rfc2822_date(1.0), type="message",
                        priority="normal", body=body)  # fmt: skip
    directory = place / "queue" / box
    (directory / "processed").mkdir(parents=True, exist_ok=True)
    (directory / ("processed" if number % 2 else ".") / ignite.file_name("message", number)).write_bytes(data)
    return message_id


def mailboxes(place: Path) -> Mailboxes:
    return Mailboxes(Spool(place, max_message_bytes=100_000, durable=False), lambda name: name)


def test_mail_of_a_worker_that_the_lead_has_not_done_with_is_unheard(tmp_path: Path) -> None:
    assert not mailboxes(tmp_path).has_unread_from("story-A-1-s0")
    put(tmp_path, "pipeline-lead", 1, "story_A-1_s0", "content: x\n")  # dashes and underscores are one name
    (tmp_path / "queue/pipeline-lead/message_9.mime").write_bytes(b"\xff")
    assert mailboxes(tmp_path).has_unread_from("story-A-1-s0")
    assert not mailboxes(tmp_path).has_unread_from("story-A-1-s1")


def test_open_mail_is_that_of_one_generation(tmp_path: Path) -> None:
    mine = [put(tmp_path, "story-A-1-s0", number, "pipeline-lead", "content: x\ngeneration: 2\n") for number in (1, 2)]
    put(tmp_path, "story-A-1-s0", 3, "pipeline-lead", "content: x\ngeneration: 3\n")
    put(tmp_path, "story-A-1-s0", 4, "user", "content: x\n")
    put(tmp_path, "story-A-1-s0", 5, "user", "{")
    assert sorted(mailboxes(tmp_path).open_mail("story-A-1-s0", 2)) == mine


ENDED = Try(1, 0, 1.0, ended_at=2.0, result=Result.COMPLETE, settled=True)
DONE = Story("A-1", StoryState.DONE, 1.0, tries=(ENDED,))


def test_what_is_over_and_empty_goes_and_nothing_else(tmp_path: Path) -> None:
    files = StoryFiles(tmp_path / "stories", durable=False)
    for story in (DONE, DONE._replace(story_id="B-1", state=StoryState.PAUSED), DONE._replace(story_id="C-1"),
                  DONE._replace(story_id="D-1", tries=(ENDED._replace(settled=False),))):  # fmt: skip
        files.change(story.story_id, lambda _, new=story: new)  # type: ignore[misc]
    files.path("E-1").write_text("{")
    names = [f"story-{letter}-1-s0" for letter in "ABCDEF"] + ["leader"]
    for name in names:
        (tmp_path / "queue" / name / "processed").mkdir(parents=True)
    (tmp_path / "queue/story-C-1-s0/processed/message_1.mime").touch()
    remove_empty_queues(Site(None, tmp_path), files, DEFAULT_ID_PATTERN)
    assert sorted(path.name for path in (tmp_path / "queue").iterdir()) == sorted(set(names) - {"story-A-1-s0"})
