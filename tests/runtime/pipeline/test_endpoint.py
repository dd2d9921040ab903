"""The endpoint of a stage worker: an Execute is told once, and mail reaches the generation it was written to."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import pytest

from ackd.adapters.story_files import StoriesHeld, StoryFiles
from ackd.config import Config
from ackd.config_pipeline import Pipeline, StageWorker
from ackd.core.effects import NudgeAgent, TellAgent
from ackd.core.errors import BadMessage
from ackd.core.events import EndpointAway, Hindered, NotTold, Outcome, RunEnded, Told
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.story_decisions import turn
from ackd.core.story_ids import execute_id
from ackd.runtime.pipeline.endpoint import StageEndpoint
from ackd.runtime.pipeline.rooms import Over, Room
from tests.runtime.pipeline.lectern import NEW, Life, Workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.core.events import Event
    from ackd.runtime.pipeline.workers import StageWorkers

STORY = turn(NEW, 2.0).story
FLAG = ("A-1", 0, 1, "active")


class Desk:
    """One worker, in its first try."""

    def __init__(self, place: Path, tasks: TaskGroup, life: Life) -> None:
        self.files = StoryFiles(place, durable=False)
        self.files.change("A-1", lambda _: STORY)
        self.workers = Workers(self.files, [])
        self.workers.settled_in = anyio.Event()
        self.workers.settled_in.set()
        self.workers.config = Config(pipeline=Pipeline(worker=StageWorker(command=("x",))))  # type: ignore[attr-defined]
        self.generation: int | None = 1
        self.workers.read = lambda *_: {"generation": self.generation}  # type: ignore[attr-defined]
        self.life = life
        self.room = Room("A-1", 0, 1, "story-A-1-s0", life)
        self.workers.lives[self.room.key] = self.room
        self.posted: list[Event] = []
        self.failed: list[Over] = []
        self.endpoint = StageEndpoint(
            agent="story-A-1-s0",
            workers=cast("StageWorkers", self.workers),
            tasks=tasks,
            post=self.posted.append,
            failed=lambda _, over: self.failed.append(over),
        )

    async def tell(self, message_id: str | None = None) -> object:
        ident = message_id or execute_id(STORY, 1)
        message = Message(ident, "pipeline-lead", "story-A-1-s0", "message", Priority.NORMAL, "")
        return await self.endpoint.tell(TellAgent("a", 7, message, Place("story-A-1-s0", Folder.PROCESSED, "x"), 1))


async def test_an_execute_is_told_once_whatever_comes_after(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life())
        assert isinstance(await desk.tell(), Told)
        again = await desk.tell()
        assert isinstance(again, Told)
        assert again.proof == "told before, and never again"
        assert desk.life.told == [execute_id(STORY, 1)]


async def test_the_flag_stands_for_a_telling_that_a_crash_cut_off(tmp_path: Path) -> None:
    """A daemon that died while it told cannot know whether the worker heard: it is not told again."""
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life())
        desk.files.raise_flag(*FLAG)
        await desk.tell()
        assert desk.life.told == []


async def test_a_worker_that_may_have_heard_is_not_tried_again(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life(answer=NotTold(7, "the pipe broke", attempt=1)))
        await desk.tell()
    assert [over.why for over in desk.failed] == ["the pipe broke"]
    assert not desk.files.is_flagged(*FLAG)
    assert isinstance(desk.posted[0], RunEnded)


async def test_one_that_is_away_may_be_told_later(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        away = EndpointAway(7, "no pane", attempt=1)
        desk = Desk(tmp_path, tasks, Life(answer=away))
        assert await desk.tell() is away
        assert not desk.files.is_flagged(*FLAG)
        desk.life.answer = None
        assert isinstance(await desk.tell(), Told)


async def test_mail_for_a_generation_that_is_gone_is_completed_untold(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life(reads_mail=True))
        desk.generation = 9
        await desk.tell("ack")
    assert desk.life.told == []
    assert desk.posted == [RunEnded(7, Outcome.DONE, "its worker is gone", 1)]


async def test_a_pane_reads_its_mail_and_a_command_asks_for_it(tmp_path: Path) -> None:
    for reads_mail, told in ((True, ["ack"]), (False, [])):
        async with anyio.create_task_group() as tasks:
            desk = Desk(tmp_path, tasks, Life(reads_mail=reads_mail))
            desk.generation = None  # someone else's mail: for whoever is there
            await desk.tell("ack")
        assert desk.life.told == told


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
GONE = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x.mime")
REFUSALS = [
    (FULL, Hindered),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), Hindered),
    (OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)), Hindered),
    (StoriesHeld("state/stories"), Hindered),
    (GONE, NotTold),
    (OSError(errno.EIO, os.strerror(errno.EIO)), NotTold),
]


def refuse(error: Exception) -> Callable[..., NoReturn]:
    def refused(*_: object, **__: object) -> NoReturn:
        raise error

    return refused


@pytest.mark.parametrize(("error", "answer"), [*REFUSALS, (BadMessage("bad_id", "another message"), NotTold)])
async def test_mail_that_cannot_be_read_is_answered(tmp_path: Path, error: Exception, answer: type) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life(reads_mail=True))
        desk.workers.read = refuse(error)  # type: ignore[attr-defined]
        said = await desk.tell("ack")
    assert isinstance(said, answer)
    assert said.reason == f"could not be told: {error}"  # type: ignore[attr-defined]
    assert (desk.life.told, desk.posted) == ([], [])


async def test_a_damaged_record_is_answered(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life())
        desk.files.path("A-1").write_text("no record")
        said = await desk.tell()
    assert isinstance(said, NotTold)
    assert "the record of story A-1 cannot be read" in said.reason
    assert desk.life.told == []


@pytest.mark.parametrize(("error", "answer"), REFUSALS)
@pytest.mark.parametrize("stands", [True, False])
async def test_a_flag_that_the_disk_refused_is_raised_again_and_then_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, answer: type, stands: bool
) -> None:
    """It may stand all the same, if only its directory could not be flushed."""

    def raise_in_vain(files: StoryFiles, *flag: object, **said: object) -> None:
        if stands:
            raise_flag(files, *flag, **said)  # type: ignore[arg-type]
        raise error

    raise_flag = StoryFiles.raise_flag
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life())
        with monkeypatch.context() as broken:
            broken.setattr(StoryFiles, "raise_flag", raise_in_vain)
            assert isinstance(await desk.tell(), answer)
        assert desk.life.told == []
        assert isinstance(await desk.tell(), Told)
        assert desk.files.is_flagged(*FLAG)
    assert desk.life.told == [execute_id(STORY, 1)]


async def test_a_flag_that_the_disk_keeps_does_not_hide_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = EndpointAway(7, "no pane", attempt=1)
    monkeypatch.setattr(StoryFiles, "lower_flag", refuse(OSError(errno.EROFS, os.strerror(errno.EROFS))))
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life(answer=away))
        assert await desk.tell() is away
        desk.life.answer = NotTold(7, "the pipe broke", attempt=1)
        await desk.tell()
    assert [over.why for over in desk.failed] == ["the pipe broke"]


async def test_it_has_no_ladder(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        desk = Desk(tmp_path, tasks, Life())
        message = Message("m", "pipeline-lead", "story-A-1-s0", "message", Priority.NORMAL, "")
        place = Place("story-A-1-s0", Folder.PROCESSED, "x")
        assert isinstance(await desk.endpoint.nudge(NudgeAgent("a", 7, message, place, 1, 1)), NotTold)
