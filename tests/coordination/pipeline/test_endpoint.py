"""The endpoint of a stage worker: an Execute is told once, and mail reaches the generation it was written to."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import pytest

from ackd.coordination.pipeline.endpoint import StageEndpoint
from ackd.coordination.pipeline.files import StoriesHeld, StoryFiles
from ackd.coordination.pipeline.rules.decisions import turn
from ackd.coordination.pipeline.rules.ids import execute_id
from ackd.coordination.pipeline.settings import PipelineSettings, StageWorker
from ackd.coordination.pipeline.workers import LiveWorker
from ackd.core.effects import NudgeAgent, TellAgent
from ackd.core.errors import BadMessage
from ackd.core.events import EndpointAway, Hindered, NotTold, Outcome, RunEnded, Told
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.ports import Services
from ackd.system.clock import SystemClock
from tests.coordination.pipeline.under_test import NEW, FakeProcess, FakeWorkers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.coordination.pipeline.workers import StageWorkers
    from ackd.core.events import Event

STORY = turn(NEW, 2.0).story
FLAG = ("A-1", 0, 1, "active")


class StageEndpointUnderTest:
    """The endpoint of one worker, in its first try."""

    def __init__(self, place: Path, tasks: TaskGroup, process: FakeProcess) -> None:
        self.files = StoryFiles(place, durable=False)
        self.files.change("A-1", lambda _: STORY)
        self.workers = FakeWorkers(self.files, [])
        self.workers.recovered = anyio.Event()
        self.workers.recovered.set()
        self.workers.pipeline = PipelineSettings(worker=StageWorker(command=("x",)))  # type: ignore[attr-defined]
        self.generation: int | None = 1
        self.files_of_mail = SimpleNamespace(body=lambda *_: {"generation": self.generation})
        self.workers.offered = SimpleNamespace(files=self.files_of_mail)  # type: ignore[attr-defined]
        self.process = process
        self.worker = LiveWorker("A-1", 0, 1, "story-A-1-s0", process)
        self.workers.known[self.worker.key] = self.worker
        self.posted: list[Event] = []
        self.endpoint = StageEndpoint(
            agent="story-A-1-s0",
            workers=cast("StageWorkers", self.workers),
            services=Services(SystemClock(), self.posted.append, lambda *_: None, tasks),
        )

    async def tell(self, message_id: str | None = None) -> object:
        ident = message_id or execute_id(STORY, 1)
        message = Message(ident, "pipeline-lead", "story-A-1-s0", "message", Priority.NORMAL, "")
        return await self.endpoint.tell(TellAgent("a", 7, message, Place("story-A-1-s0", Folder.PROCESSED, "x"), 1))


async def test_an_execute_is_told_once_whatever_comes_after(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess())
        assert isinstance(await worker.tell(), Told)
        again = await worker.tell()
        assert isinstance(again, Told)
        assert again.proof == "told before, and never again"
        assert worker.process.told == [execute_id(STORY, 1)]


async def test_the_flag_stands_for_a_telling_that_a_crash_cut_off(tmp_path: Path) -> None:
    """A daemon that died while it told cannot know whether the worker heard: it is not told again."""
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess())
        worker.files.raise_flag(*FLAG)
        await worker.tell()
        assert worker.process.told == []


async def test_a_worker_that_may_have_heard_is_not_tried_again(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(answer=NotTold(7, "the pipe broke", attempt=1)))
        await worker.tell()
    assert worker.workers.failed == ["the pipe broke"]
    assert not worker.files.is_flagged(*FLAG)
    assert isinstance(worker.posted[0], RunEnded)


async def test_one_that_is_away_may_be_told_later(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        away = EndpointAway(7, "no pane", attempt=1)
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(answer=away))
        assert await worker.tell() is away
        assert not worker.files.is_flagged(*FLAG)
        worker.process.answer = None
        assert isinstance(await worker.tell(), Told)


async def test_mail_for_a_generation_that_is_gone_is_completed_untold(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(reads_mail=True))
        worker.generation = 9
        await worker.tell("ack")
    assert worker.process.told == []
    assert worker.posted == [RunEnded(7, Outcome.DONE, "its worker is gone", 1)]


async def test_a_pane_reads_its_mail_and_a_command_asks_for_it(tmp_path: Path) -> None:
    for reads_mail, told in ((True, ["ack"]), (False, [])):
        async with anyio.create_task_group() as tasks:
            worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(reads_mail=reads_mail))
            worker.generation = None  # mail that is not the lead's goes to the newest worker
            await worker.tell("ack")
        assert worker.process.told == told


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
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(reads_mail=True))
        worker.files_of_mail.body = refuse(error)
        said = await worker.tell("ack")
    assert isinstance(said, answer)
    assert said.reason == f"could not be told: {error}"  # type: ignore[attr-defined]
    assert (worker.process.told, worker.posted) == ([], [])


async def test_a_damaged_record_is_answered(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess())
        worker.files.path("A-1").write_text("no record")
        said = await worker.tell()
    assert isinstance(said, NotTold)
    assert "the record of story A-1 cannot be read" in said.reason
    assert worker.process.told == []


@pytest.mark.parametrize(("error", "answer"), REFUSALS)
@pytest.mark.parametrize("stands", [True, False])
async def test_a_flag_that_the_disk_refused_is_raised_again_and_then_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, answer: type, stands: bool
) -> None:
    """Raising a flag may fail and leave it there all the same, if only its directory could not be flushed."""

    def raise_in_vain(files: StoryFiles, *flag: object, **said: object) -> None:
        if stands:
            raise_flag(files, *flag, **said)  # type: ignore[arg-type]
        raise error

    raise_flag = StoryFiles.raise_flag
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess())
        with monkeypatch.context() as broken:
            broken.setattr(StoryFiles, "raise_flag", raise_in_vain)
            assert isinstance(await worker.tell(), answer)
        assert worker.process.told == []
        assert isinstance(await worker.tell(), Told)
        assert worker.files.is_flagged(*FLAG)
    assert worker.process.told == [execute_id(STORY, 1)]


async def test_a_flag_that_the_disk_keeps_does_not_hide_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = EndpointAway(7, "no pane", attempt=1)
    monkeypatch.setattr(StoryFiles, "lower_flag", refuse(OSError(errno.EROFS, os.strerror(errno.EROFS))))
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess(answer=away))
        assert await worker.tell() is away
        worker.process.answer = NotTold(7, "the pipe broke", attempt=1)
        await worker.tell()
    assert worker.workers.failed == ["the pipe broke"]


async def test_it_has_no_ladder(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        worker = StageEndpointUnderTest(tmp_path, tasks, FakeProcess())
        message = Message("m", "pipeline-lead", "story-A-1-s0", "message", Priority.NORMAL, "")
        place = Place("story-A-1-s0", Folder.PROCESSED, "x")
        assert isinstance(await worker.endpoint.nudge(NudgeAgent("a", 7, message, place, 1, 1)), NotTold)
