from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.config.agents import LivenessSettings
from ackd.coordination.pipeline.reconciler import SIGN_EACH_S
from ackd.coordination.pipeline.rules.record import Doubt
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.coordination.pipeline.worker_kinds import CommandProcess, PaneProcess, StdinProcess
from ackd.core.events import AgentWaits
from ackd.core.waits import Wait
from tests.coordination.pipeline.under_test import NEW, pipeline_under_test
from tests.live_config import config_with

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.coordination.pipeline.reconciler import Reconciler
    from ackd.coordination.pipeline.rules.record import Story
    from ackd.coordination.pipeline.worker_kinds import WorkerProcess
    from ackd.core.events import Event
    from tests.coordination.pipeline.under_test import PipelineUnderTest


async def test_a_story_that_cannot_be_written_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        pipeline.files.change("A-2", lambda _: NEW._replace(story_id="A-2"))
        decide, decided = pipeline.executor.decide, list[str]()

        async def refused(story_id: str, *words: Any, **more: Any) -> Any:
            if story_id == "A-1":
                raise OSError(40, "Too many levels of symbolic links")
            decided.append(story_id)
            return await decide(story_id, *words, **more)

        pipeline.executor.decide = refused  # type: ignore[method-assign]
        pipeline.workers.recovered.set()
        await pipeline.reconciler().look(None)
        pipeline.tasks.cancel_scope.cancel()
    assert decided == ["A-2"]
    assert [data["what"] for type_, data in pipeline.facts if type_ == "io_error"] == ["story A-1"]


# --- agents that wait for a story -------------------------------------------------------------------------------------
#: A story that waits for one that nobody has started, and so does not move.
ASKED = NEW._replace(after=("Z-1",), started_by="leader")


def put(pipeline: PipelineUnderTest, story: Story) -> None:
    with pipeline.files.locked():
        pipeline.files.write(story)


def said(pipeline: PipelineUnderTest) -> list[tuple[str, str, list[str]]]:
    """Return what the engine was told since the last call."""
    found = [
        (one.agent, one.source, [str(wait) for wait in one.waits])
        for one in pipeline.posted
        if isinstance(one, AgentWaits)
    ]
    assert len(found) == len(pipeline.posted)
    pipeline.posted.clear()
    return found


async def test_whoever_started_a_story_is_said_to_wait_until_it_is_over(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, ASKED) as pipeline:
        reconciler = pipeline.reconciler()
        for _ in range(2):  # each change is posted once
            await reconciler.look(None)
        assert pipeline.posted == [AgentWaits("leader", "pipeline", (Wait(None, "story A-1", "waiting 0"),))]
        assert said(pipeline) == [("leader", "pipeline", ["story A-1"])]
        put(pipeline, ASKED._replace(story_id="B-1"))
        await reconciler.look(None)
        assert said(pipeline) == [("leader", "pipeline", ["story A-1", "story B-1"])]
        put(pipeline, ASKED._replace(state=StoryState.DONE, ended_at=1_770_000_001.0))
        await reconciler.look(None)
        assert said(pipeline) == [("leader", "pipeline", ["story B-1"])]
        pipeline.files.path("B-1").unlink()
        await reconciler.look(None)
        assert said(pipeline) == [("leader", "pipeline", [])]


@pytest.mark.parametrize("state", [StoryState.DONE, StoryState.CANCELLED])
async def test_nobody_waits_for_a_story_that_is_over_or_a_persons_or_a_strangers(
    tmp_path: Path, state: StoryState
) -> None:
    async with pipeline_under_test(tmp_path, ASKED._replace(state=state, ended_at=1_770_000_001.0)) as pipeline:
        put(pipeline, ASKED._replace(story_id="B-1", started_by=None))
        put(pipeline, ASKED._replace(story_id="C-1", started_by="nobody"))
        await pipeline.reconciler().look(None)
        assert said(pipeline) == []


async def test_a_paused_story_is_still_waited_for(tmp_path: Path) -> None:
    """A paused story is not over, and a person was told, so its starter is not reminded."""
    paused = ASKED._replace(state=StoryState.PAUSED, reason="enough", pauses=1, escalated=1)
    async with pipeline_under_test(tmp_path, paused) as pipeline:
        await pipeline.reconciler().look(None)
        assert said(pipeline) == [("leader", "pipeline", ["story A-1"])]


async def test_after_a_restart_who_waits_is_said_before_workers_are_taken_up(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, ASKED) as pipeline:
        await pipeline.reconciler().look(None)
        pipeline.posted.clear()
        pipeline.workers.recovered = anyio.Event()
        asked_by_then: list[Event] = []
        pipeline.workers.discard_leftover_runs = lambda: asked_by_then.extend(pipeline.posted)  # type: ignore[method-assign]
        await pipeline.reconciler().look(None)
        assert asked_by_then
        assert said(pipeline) == [("leader", "pipeline", ["story A-1"])]


async def test_each_step_of_a_story_and_its_workers_life_are_moves_of_what_is_waited_for(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, ASKED._replace(after=())) as pipeline:
        reconciler = pipeline.reconciler()
        await reconciler.look(None)
        stands = [one.waits[0].stands for one in pipeline.posted if isinstance(one, AgentWaits)]
        assert stands == ["waiting 0", "stage_0 1"]
        while (worker := pipeline.workers.get("A-1", 1)) is None:
            await anyio.lowlevel.checkpoint()
        pipeline.posted.clear()
        await reconciler.look(None)
        assert len(pipeline.posted) == 1  # the worker is alive
        worker.seen_at += SIGN_EACH_S
        await reconciler.look(None)
        assert len(pipeline.posted) == 2
        pipeline.tasks.cancel_scope.cancel()


# --- workers that are quiet -------------------------------------------------------------------------------------------
async def looked(reconciler: Reconciler) -> None:
    """Let it look, and wait until it has attended to every story that it found."""
    await reconciler.look(None)
    with anyio.fail_after(10):
        while reconciler._in_progress:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("kind", "patience_s", "doubt"),
    [
        (StdinProcess, 3600, None),
        (StdinProcess, 5, Doubt.QUIET),
        (PaneProcess, 5, Doubt.QUIET),
        (CommandProcess, 5, None),  # it may just be working, and its own table does not say for how long
    ],
)
async def test_a_quiet_worker_is_asked_after_the_time_that_the_config_says_now(
    tmp_path: Path, kind: type[WorkerProcess], patience_s: float, doubt: Doubt | None
) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        reconciler = pipeline.reconciler()
        await looked(reconciler)
        worker = pipeline.workers.known["A-1", 1]
        worker.told, worker.seen_at = True, worker.seen_at - 10
        pipeline.workers.kind = kind
        reconciler.config.swap(config_with(liveness=LivenessSettings(heartbeat_timeout_s=patience_s)))
        await looked(reconciler)
        current = pipeline.story.current
        assert current is not None
        assert current.doubt is doubt
        pipeline.tasks.cancel_scope.cancel()
