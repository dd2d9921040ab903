"""What lies in the queues of the lead and of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters.spool import Spool
from ackd.dialects import ignite
from ackd.runtime.pipeline.boxes import Boxes

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


def boxes(place: Path) -> Boxes:
    return Boxes(Spool(place, max_message_bytes=100_000, durable=False), lambda name: name)


def test_mail_of_a_worker_that_the_lead_has_not_done_with_is_unheard(tmp_path: Path) -> None:
    assert not boxes(tmp_path).unheard("story-A-1-s0")
    put(tmp_path, "pipeline-lead", 1, "story_A-1_s0", "content: x\n")  # dashes and underscores are one name
    (tmp_path / "queue/pipeline-lead/message_9.mime").write_bytes(b"\xff")
    assert boxes(tmp_path).unheard("story-A-1-s0")
    assert not boxes(tmp_path).unheard("story-A-1-s1")


def test_open_mail_is_that_of_one_generation(tmp_path: Path) -> None:
    mine = [put(tmp_path, "story-A-1-s0", number, "pipeline-lead", "content: x\ngeneration: 2\n") for number in (1, 2)]
    put(tmp_path, "story-A-1-s0", 3, "pipeline-lead", "content: x\ngeneration: 3\n")
    put(tmp_path, "story-A-1-s0", 4, "user", "content: x\n")
    put(tmp_path, "story-A-1-s0", 5, "user", "{")
    assert sorted(boxes(tmp_path).open_mail("story-A-1-s0", 2)) == mine
