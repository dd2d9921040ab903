"""The side of a stage worker, from Python: report to the lead, answer it, write checkpoints, and know when to stop.

    from ackd.stage import Stage

    stage = Stage.here()
    stage.checkpoint("the parser is written", done=["parser"], remaining=["docs"])
    stage.report(f"Stage 2 COMPLETE for {stage.story}. All tasks Done. Story set to To Review.")

A worker is identified by its environment (ACKD_STORY, ACKD_STAGE, ACKD_TRY, and ACKD_ROOT); its working directory does
not matter. Its reports are sent as mail. The done flag is written here, and only after the ACK, which is read from the
story's record. `ackd stage` and `ackd hook keepalive` use this module. Fails with ``BadStageText`` for a text that is
no report, ``WrongStage``, ``UnknownStory``, ``BadStory``, ``StoriesHeld``, and OSError.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.config.site import find_site
from ackd.coordination.pipeline.files import StoryFiles, reported_again, stayed
from ackd.coordination.pipeline.rules import stage_names
from ackd.coordination.pipeline.rules.keepalive import Leave, Stay, decide
from ackd.coordination.pipeline.rules.stage_names import LEAD, story_id, whose_worker, worker_name
from ackd.core.errors import UnknownStory, WrongStage
from ackd.storage import state_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.coordination.pipeline.rules.keepalive import KeepaliveDecision
    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.rules.stage_names import TextRules
    from ackd.coordination.pipeline.rules.stage_words import Report, StandsAt

_LOOK_S: Final = 0.1
WAIT_S: Final = 60.0


class Reported(NamedTuple):
    """A report that was sent. ``acknowledged`` False: not yet; send it again, once, after a status check."""

    message_id: str
    generation: int
    acknowledged: bool


def text_rules(site: Site) -> TextRules:
    given = site.tables.get("pipeline", {})
    return stage_names.text_rules(given.get("id_pattern"), given.get("readiness_scale"))


def id_pattern(site: Site) -> str:
    return text_rules(site).id_pattern


def files_of(site: Site) -> StoryFiles:
    """Return the team's stories on disk. Raises NewerState if a newer ackd writes them."""
    state_version.require(site.state)
    return StoryFiles(site.state / "stories", durable=site.fsync)


def checked_id(site: Site, text: str) -> str:
    """Return the text if it is a story's id; raise BadStory if not."""
    return story_id(text, id_pattern(site))


class Stage:
    """A stage worker. ``generation`` None: it stands for the newest worker of its stage."""

    def __init__(self, site: Site, story: str, stage: int, generation: int | None = None) -> None:
        self.site = site
        self.story = checked_id(site, story)
        self.stage = stage
        self.generation = generation
        self.agent = worker_name(self.story, stage)
        self.files = files_of(site)

    @classmethod
    def of(cls, site: Site, env: Mapping[str, str] = os.environ) -> Stage | None:
        """Make a worker from its environment, of which ACKD_AGENT alone is enough; None outside of a worker."""
        story, stage, generation = (env.get(f"ACKD_{name}", "") for name in ("STORY", "STAGE", "TRY"))
        if story and stage in ("0", "1", "2", "3"):
            known = generation.isascii() and generation.isdecimal()
            return cls(site, story, int(stage), int(generation) if known else None)
        whose = whose_worker(env.get("ACKD_AGENT", ""), id_pattern(site))
        return cls(site, *whose) if whose is not None else None

    @classmethod
    def here(cls) -> Stage:
        """Return this process's worker. RuntimeError in a process that is no stage worker."""
        found = cls.of(find_site(None, None))
        if found is None:
            raise RuntimeError("no stage worker: ACKD_STORY and ACKD_STAGE are not set")
        return found

    # --- the lead's question ------------------------------------------------------------------------------------------
    def status_check(self, wait_s: float = 0.0) -> str | None:
        """Return the status check that waits for an answer, in the lead's words; None if none came in ``wait_s``."""
        deadline = time.monotonic() + wait_s
        while True:
            story = self.files.read(self.story)
            generation = self.generation if self.generation is not None else _current(story, self.stage)
            asked = self.files.said(self.story, self.stage, generation, "asked").get("text")
            if isinstance(asked, str) or time.monotonic() >= deadline:
                return asked if isinstance(asked, str) else None
            time.sleep(_LOOK_S)

    # --- words --------------------------------------------------------------------------------------------------------
    def report(self, text: str, wait_s: float = WAIT_S) -> Reported:
        """Report the end of the stage in its exact text, wait for the ACK, and raise the done flag after it."""
        from ackd.coordination.pipeline import wire as stage_text  # noqa: PLC0415
        from ackd.coordination.pipeline.rules.stage_words import StandsAt  # noqa: PLC0415

        said = stage_text.read(text, *text_rules(self.site))
        if isinstance(said, StandsAt) or (said.story, said.stage) != (self.story, self.stage):
            raise WrongStage(self.agent, said.story, said.stage)
        return self.send_report(said, wait_s)

    def send_report(self, said: Report, wait_s: float = WAIT_S) -> Reported:
        _story, one = self.located()
        now = time.time()
        self.files.note(self.story, self.stage, one.generation, lambda notes: reported_again(notes, now))
        message_id = self._send(said)
        acked = wait_s > 0 and self._acknowledged(one.generation, wait_s)
        return Reported(message_id, one.generation, acked)

    def status(self, step: str, doing: str = "EXECUTING") -> str:
        """Answer a status check with what the worker is doing, and return the message's id."""
        from ackd.coordination.pipeline.rules.stage_words import StageDoing, StandsAt  # noqa: PLC0415

        words = step.strip().removesuffix(".")
        if not words:
            raise ValueError("the step is empty: say what the worker is doing")
        return self._send(StandsAt(self.story, self.stage, StageDoing(doing), words))

    def checkpoint(self, action: str, done: Iterable[str] = (), remaining: Iterable[str] = ()) -> Path:
        """Write a checkpoint of the stage. If the worker has to be replaced, the next one is told this."""
        _story, one = self.located()
        said = {
            "story": self.story,
            "stage": self.stage,
            "worker": self.agent,
            "generation": one.generation,
            "tasks_done": list(done),
            "tasks_remaining": list(remaining),
            "last_action": action,
            "at": time.time(),
        }
        return self.files.keep_checkpoint(self.story, said)

    # --- stopping -----------------------------------------------------------------------------------------------------
    def may_stop(self, wait_s: float = 5.0) -> KeepaliveDecision:
        """Decide whether the worker may stop; wait up to ``wait_s`` until it may. Each "stay" is counted, and their
        number is limited."""
        deadline = time.monotonic() + wait_s
        while True:
            story = self.files.read(self.story)
            generation = self.generation if self.generation is not None else _current(story, self.stage)
            notes = self.files.notes(self.story, self.stage, generation)
            decision = decide(story, generation, notes, time.time())
            if isinstance(decision, Leave):
                if decision.done:
                    self._done(generation)
                return decision
            if time.monotonic() >= deadline:
                return self._counted(generation, decision)
            time.sleep(_LOOK_S)

    def _counted(self, generation: int, decision: Stay) -> Stay:
        now = time.time()
        self.files.note(self.story, self.stage, generation, lambda notes: stayed(notes, now, asked=decision.asked))
        return decision

    # --- inside -------------------------------------------------------------------------------------------------------
    def located(self) -> tuple[Story, Try]:
        """Return the story's record, and this worker's try."""
        story = self.files.read(self.story)
        if story is None:
            raise UnknownStory(self.story)
        generation = self.generation if self.generation is not None else _current(story, self.stage)
        one = story.of(generation)
        if one is None or one.stage != self.stage:
            raise UnknownStory(self.story, self.stage, self.generation)
        return story, one

    def _send(self, said: Report | StandsAt) -> str:
        """Send a text to the lead, durably, and return the message's id."""
        # A hook that only asks whether its worker may stop sends nothing, and should start quickly.
        from ackd.coordination.pipeline import wire as stage_text  # noqa: PLC0415
        from ackd.coordination.pipeline.rules.ids import execute_id  # noqa: PLC0415
        from ackd.formats import ignite, yaml_body  # noqa: PLC0415
        from ackd.storage import maildrop  # noqa: PLC0415

        story, one = self.located()
        now_ns = time.time_ns()
        message_id = ignite.bare_id(ignite.new_message_id(now_ns / 1e9, os.getpid(), os.urandom(6)))
        body = {
            "content": stage_text.write(said),
            "summary": stage_text.summary(said),
            "generation": one.generation,
        }
        data = ignite.build(
            message_id=message_id,
            sender=self.agent,
            to=(LEAD,),
            date=ignite.rfc2822_date(now_ns / 1e9),
            type="message",
            priority="normal",
            body=yaml_body.dump(body),
            in_reply_to=execute_id(story, one.generation),
        )
        box = self.site.box_path(LEAD)
        maildrop.make_box(box, fsync=self.site.fsync)
        maildrop.drop(box, ignite.file_name("message", now_ns // 1000), data, fsync=self.site.fsync)
        return message_id

    def _acknowledged(self, generation: int, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while True:
            story = self.files.read(self.story)
            one = story.of(generation) if story is not None else None
            if one is not None and one.acked_at is not None:
                self._done(generation)
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)

    def _done(self, generation: int) -> None:
        self.files.raise_flag(self.story, self.stage, generation, "done", at=time.time())


def _current(story: Story | None, stage: int) -> int:
    tries = [one.generation for one in story.tries if one.stage == stage] if story is not None else []
    return tries[-1] if tries else 0
