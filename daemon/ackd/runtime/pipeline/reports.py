"""The handler ``pipeline-lead``: what workers write to their lead.

Owns reading a mail into a word and whose word it is. Refuses to decide what it does to a story. Whoever is no worker of
a story is refused, with the reason; a disk that refuses puts the mail off. What is not understood is kept whole in the
log, with the form that it nearly has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters.story_files import StoriesHeld
from ackd.core import story_decisions as deciding
from ackd.core.errors import BadBody
from ackd.core.stage_words import StandsAt, agents_of, detail_of, result_of, score_of, whose_worker
from ackd.core.story_decisions import Hearing, Source
from ackd.core.story_ids import execute_id
from ackd.core.story_record import BadStoryRecord
from ackd.dialects import stage_text
from ackd.handlers import Defer, Refuse

if TYPE_CHECKING:
    from ackd.core.stage_words import Report
    from ackd.core.story_decisions import Decision
    from ackd.core.story_record import Story
    from ackd.handlers import Context, Mail
    from ackd.runtime.pipeline.conduct import Conduct

#: Of what is not understood, so much is in the log.
_RAW_CHARS: Final = 2_000


@dataclass(eq=False)
class Reports:
    conduct: Conduct

    async def __call__(self, mail: Mail, _ctx: Context) -> None:
        if mail.type == "dead_letter":
            return  # of what we wrote: the story's own watch sees to it
        whose = whose_worker(mail.sender, self.conduct.pipeline.id_pattern)
        if whose is None:
            raise Refuse(f"{mail.sender} is no worker of a story")
        if mail.type != "message":
            raise Refuse(f"pipeline-lead reads reports of type message, not {mail.type}")
        try:
            async with self.conduct.lock(whose[0]):
                await self._hear(mail, *whose)
        except StoriesHeld as held:
            raise Defer(str(held)) from None
        except BadStoryRecord as bad:
            raise Defer(str(bad)) from None

    async def _hear(self, mail: Mail, story_id: str, stage: int) -> None:
        story = self.conduct.files.read(story_id)
        if story is None:
            raise Refuse(f"there is no story {story_id}")
        content, generation = _content(mail)
        if generation is None:
            generation = _answered(story, mail.in_reply_to)
        of = Source(mail.sender, stage, mail.message_id, generation)
        self._note_life(story, of)
        try:
            said = stage_text.read(content, *self.conduct.pipeline.texts)
        except stage_text.BadStageText as bad:
            await self._garbled(story, of, content, str(bad))
            return
        if isinstance(said, StandsAt):
            await self._status(story, of, said)
        else:
            await self._report(story, of, said, content)

    def _note_life(self, story: Story, of: Source) -> None:
        one = deciding.spoken_for(story, of)
        room = self.conduct.workers.get(story.story_id, one.generation) if one is not None else None
        if room is not None:
            room.seen_at = anyio.current_time()

    # --- each word ----------------------------------------------------------------------------------------------------
    async def _report(self, story: Story, of: Source, said: Report, content: str) -> None:
        now, budgets = self.conduct.wall(), self.conduct.pipeline.budgets
        decision = await self.conduct.decide(story.story_id, lambda it: deciding.reported(it, said, of, now, budgets))
        if decision is None:
            return
        if decision.heard is Hearing.GARBLED:
            self._unparsed(story, of, content, f"it speaks of stage {said.stage} of {said.story}")
        else:
            self._record(story, of, said, decision)
        await self._finish(story, of, decision)

    async def _status(self, story: Story, of: Source, said: StandsAt) -> None:
        now = self.conduct.wall()
        decision = await self.conduct.decide(story.story_id, lambda it: deciding.status_heard(it, said, of, now))
        if decision is None:
            return
        self.conduct.around.record(
            "stage_status", {**_about(story, of), "doing": said.doing.value, "step": said.step[:_RAW_CHARS]}
        )
        one = decision.story.current
        if decision.heard is Hearing.PROCESSED and one is not None:
            await self.conduct.keep_checkpoint(decision.story, one, said.step[:_RAW_CHARS])
        await self._finish(story, of, decision)

    async def _garbled(self, story: Story, of: Source, content: str, problem: str) -> None:
        self._unparsed(story, of, content, problem)
        now = self.conduct.wall()
        decision = await self.conduct.decide(story.story_id, lambda it: deciding.garbled(it, of, problem, now, content))
        if decision is not None:
            await self._finish(story, of, decision)

    async def _finish(self, story: Story, of: Source, decision: Decision) -> None:
        if decision.heard is Hearing.STRANGER:
            raise Refuse(f"{of.sender} is no worker that {story.story_id} ever had")
        await self.conduct.carry_out(decision)

    # --- the log ------------------------------------------------------------------------------------------------------
    def _record(self, story: Story, of: Source, said: Report, decision: Decision) -> None:
        score = score_of(said)
        data = {**_about(story, of), "result": result_of(said), "heard": decision.heard.value}
        more = {"score": f"{score:f}" if score is not None else "", "detail": detail_of(said)[:_RAW_CHARS]}
        more["agents"] = agents_of(said)
        self.conduct.around.record("stage_report", data | {key: value for key, value in more.items() if value})

    def _unparsed(self, story: Story, of: Source, content: str, problem: str) -> None:
        self.conduct.around.record(
            "stage_unparsed", {**_about(story, of), "text": content[:_RAW_CHARS], "why": problem}
        )


def _about(story: Story, of: Source) -> dict[str, object]:
    about: dict[str, object] = {"story": story.story_id, "stage": of.stage, "agent": of.sender}
    return about | {"message_id": of.message_id} | ({"generation": of.generation} if of.generation is not None else {})


def _content(mail: Mail) -> tuple[str, int | None]:
    """Its text, and the generation that it says it is of. A body that is none has no text."""
    try:
        body = mail.body
    except BadBody:
        return "", None
    if not isinstance(body, dict):
        return "", None
    content, generation = body.get("content"), body.get("generation")
    whole = isinstance(generation, int) and not isinstance(generation, bool)
    return (content if isinstance(content, str) else ""), (generation if whole else None)


def _answered(story: Story, in_reply_to: str | None) -> int | None:
    """By the Execute that it answers."""
    ids = {execute_id(story, one.generation): one.generation for one in story.tries}
    return ids.get(in_reply_to or "")
