"""A stage worker's own side, from Python: report to the lead, answer it, say where the work stands, know when to stop.

    from ackd.stage import Stage

    stage = Stage.here()
    stage.checkpoint("the parser is written", done=["parser"], remaining=["docs"])
    stage.report(f"Stage 2 COMPLETE for {stage.story}. All tasks Done. Story set to To Review.")

Owns who a worker is, by its environment (ACKD_STORY, ACKD_STAGE, ACKD_TRY, and ACKD_ROOT: its working directory does
not matter), its words as mail, the wait for the ACK, and the done flag, which is written here and only after the ACK.
`ackd stage` and `ackd hook keepalive` are made of this. Refuses to know what a lead decides: it reads the record. Fails
with ``BadStageText`` for what is no report, ``UnknownStory``, ``BadStory``, ``StoriesHeld``, and OSError.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd import state_version
from ackd.adapters import maildrop
from ackd.adapters.story_files import StoryFiles, reported_again, stayed
from ackd.core import stage_words
from ackd.core.errors import UnknownStory, WrongStage
from ackd.core.keepalive import Leave, Stay, decide
from ackd.core.stage_words import LEAD, Doing, StandsAt, story_id, whose_worker, worker_name
from ackd.core.story_ids import execute_id
from ackd.dialects import ignite, stage_text, yaml_body
from ackd.site import find_site

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.core.keepalive import KeepaliveDecision
    from ackd.core.stage_words import Report, TextRules
    from ackd.core.story_record import Story, Try
    from ackd.site import Site

_LOOK_S: Final = 0.1
WAIT_S: Final = 60.0


class Reported(NamedTuple):
    """``acknowledged`` False: not yet. It is sent again after a status check, and once only."""

    message_id: str
    generation: int
    acknowledged: bool


def text_rules(site: Site) -> TextRules:
    given = site.pipeline or {}
    return stage_words.text_rules(given.get("id_pattern"), given.get("readiness_scale"))


def id_pattern(site: Site) -> str:
    return text_rules(site).id_pattern


def files_of(site: Site) -> StoryFiles:
    """``NewerState``: a newer ackd writes its stories here."""
    state_version.require(site.state)
    return StoryFiles(site.state / "stories", durable=site.fsync)


def checked_id(site: Site, text: str) -> str:
    """BadStory."""
    return story_id(text, id_pattern(site))


class Stage:
    """One worker, as it knows itself. ``generation`` None: it does not, and speaks for whoever is current."""

    def __init__(self, site: Site, story: str, stage: int, generation: int | None = None) -> None:
        self.site = site
        self.story = checked_id(site, story)
        self.stage = stage
        self.generation = generation
        self.agent = worker_name(self.story, stage)
        self.files = files_of(site)

    @classmethod
    def of(cls, site: Site, env: Mapping[str, str] = os.environ) -> Stage | None:
        """By the environment of a worker; None outside of one. An ACKD_AGENT alone will do."""
        story, stage, generation = (env.get(f"ACKD_{name}", "") for name in ("STORY", "STAGE", "TRY"))
        if story and stage in ("0", "1", "2", "3"):
            known = generation.isascii() and generation.isdecimal()
            return cls(site, story, int(stage), int(generation) if known else None)
        whose = whose_worker(env.get("ACKD_AGENT", ""), id_pattern(site))
        return cls(site, *whose) if whose is not None else None

    @classmethod
    def here(cls) -> Stage:
        """For a worker that ackd started. RuntimeError for anyone else."""
        found = cls.of(find_site(None, None))
        if found is None:
            raise RuntimeError("no stage worker: ACKD_STORY and ACKD_STAGE are not set")
        return found

    # --- the lead's question ------------------------------------------------------------------------------------------
    def status_check(self, wait_s: float = 0.0) -> str | None:
        """The status check that waits for an answer, in the lead's words; None if there is none, for so long."""
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
        """The end of the stage, in its exact text; waits so long for the ACK, and then raises the done flag."""
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
        """The answer to a status check: what it is doing. The message's id."""
        words = step.strip().removesuffix(".")
        if not words:
            raise ValueError("what is it doing? The step is empty")
        return self._send(StandsAt(self.story, self.stage, Doing(doing), words))

    def checkpoint(self, action: str, done: Iterable[str] = (), remaining: Iterable[str] = ()) -> Path:
        """Where the stage stands: a worker that has to be replaced is followed by one that is told so."""
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
        """Whether the worker may stop; waits a while for that. "Stay" is counted, and has an end."""
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

    # --- how ----------------------------------------------------------------------------------------------------------
    def located(self) -> tuple[Story, Try]:
        """The record, and the try that is meant."""
        story = self.files.read(self.story)
        if story is None:
            raise UnknownStory(self.story)
        generation = self.generation if self.generation is not None else _current(story, self.stage)
        one = story.of(generation)
        if one is None or one.stage != self.stage:
            raise UnknownStory(self.story, self.stage, self.generation)
        return story, one

    def _send(self, said: Report | StandsAt) -> str:
        """To the lead, durably; the message's id."""
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
