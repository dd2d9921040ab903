"""The worker's side of a stage: who it is, what it sends its lead, and when it may stop.

Owns reading that from the environment (ACKD_STORY, ACKD_STAGE, ACKD_TRY, set for every worker, so that the
working directory does not matter), the report as mail, the wait for its ACK, and the done flag, which is written here
and only after the ACK. Refuses to know what a lead decides: it reads the story's record. Fails with ``Failure``.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.adapters.story_files import StoryFiles, reported_again, stayed
from ackd.core.keepalive import Leave, Stay, decide
from ackd.core.stage_words import DEFAULT_ID_PATTERN, LEAD, BadStory, story_id, whose_worker, worker_name
from ackd.frontends.cli.errors import BAD_DATA, NOT_FOUND, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.keepalive import KeepaliveDecision
    from ackd.core.stage_words import Report, StandsAt
    from ackd.core.story_record import Story, Try
    from ackd.site import Site

_LOOK_S: Final = 0.1


class Here(NamedTuple):
    """One worker, as it knows itself. ``generation`` None: it does not, and speaks for whoever is current."""

    story: str
    stage: int
    generation: int | None

    @property
    def agent(self) -> str:
        return worker_name(self.story, self.stage)


def id_pattern(site: Site) -> str:
    given = (site.pipeline or {}).get("id_pattern", DEFAULT_ID_PATTERN)
    return given if isinstance(given, str) else DEFAULT_ID_PATTERN


def files_of(site: Site) -> StoryFiles:
    return StoryFiles(site.state / "stories", durable=site.fsync)


def checked_id(site: Site, text: str) -> str:
    try:
        return story_id(text, id_pattern(site))
    except BadStory as bad:
        raise Failure(BAD_DATA, str(bad)) from None


def here(site: Site, env: Mapping[str, str] = os.environ) -> Here | None:
    """By the environment of a worker; None outside of one. An ACKD_AGENT alone will do."""
    story, stage, generation = (env.get(f"ACKD_{name}", "") for name in ("STORY", "STAGE", "TRY"))
    if story and stage in ("0", "1", "2", "3"):
        known = generation.isascii() and generation.isdecimal()
        return Here(checked_id(site, story), int(stage), int(generation) if known else None)
    whose = whose_worker(env.get("ACKD_AGENT", ""), id_pattern(site))
    return Here(*whose, None) if whose is not None else None


def located(site: Site, me: Here) -> tuple[StoryFiles, Story, Try]:
    """The record, and the try that is meant."""
    files = files_of(site)
    story = files.read(me.story)
    if story is None:
        raise Failure(NOT_FOUND, f"there is no story {me.story} here")
    tries = [one for one in story.tries if one.stage == me.stage]
    one = story.of(me.generation) if me.generation is not None else (tries[-1] if tries else None)
    if one is None or one.stage != me.stage:
        raise Failure(NOT_FOUND, f"stage {me.stage} of {me.story} has no worker {me.generation or ''}".rstrip())
    return files, story, one


def send(site: Site, me: Here, said: Report | StandsAt, generation: int) -> str:
    """To the lead, durably; the message's id."""
    from ackd.core.story_ids import execute_id
    from ackd.dialects import stage_text, yaml_body
    from ackd.frontends.cli.send import Outgoing, queue

    _files, story, one = located(site, me)
    body = {
        "content": stage_text.write(said),
        "summary": stage_text.summary(said),
        "generation": generation,
    }
    outgoing = Outgoing(
        sender=me.agent,
        to=(LEAD,),
        cc=(),
        type="message",
        priority="normal",
        body=yaml_body.dump(body),
        in_reply_to=execute_id(story, one.generation),
    )
    return queue(site, outgoing).message_id


def note_report(files: StoryFiles, me: Here, generation: int) -> None:
    now = time.time()
    files.note(me.story, me.stage, generation, lambda notes: reported_again(notes, now))


def acknowledged(site: Site, me: Here, generation: int, patience_s: float) -> bool:
    """Waits for the ACK, and then raises the done flag."""
    deadline = time.monotonic() + patience_s
    while True:
        files, _story, one = located(site, me._replace(generation=generation))
        if one.acked_at is not None:
            files.raise_flag(me.story, me.stage, generation, "done", at=time.time())
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_S)


def may_stop(site: Site, me: Here, patience_s: float) -> KeepaliveDecision:
    """Whether the worker may stop; waits a while for that. "Stay" is counted, and has an end."""
    deadline = time.monotonic() + patience_s
    files = files_of(site)
    while True:
        story = files.read(me.story)
        generation = me.generation if me.generation is not None else _current(story, me.stage)
        notes = files.notes(me.story, me.stage, generation)
        decision = decide(story, generation, notes, time.time())
        if isinstance(decision, Leave):
            if decision.done:
                files.raise_flag(me.story, me.stage, generation, "done", at=time.time())
            return decision
        if time.monotonic() >= deadline:
            return _counted(files, me, generation, decision)
        time.sleep(_LOOK_S)


def _counted(files: StoryFiles, me: Here, generation: int, decision: Stay) -> Stay:
    now = time.time()
    files.note(me.story, me.stage, generation, lambda notes: stayed(notes, now, asked=decision.asked))
    return decision


def _current(story: Story | None, stage: int) -> int:
    tries = [one.generation for one in story.tries if one.stage == stage] if story is not None else []
    return tries[-1] if tries else 0
