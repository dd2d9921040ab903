"""The handler of the agent ``pipeline-lead``: reads the reports and statuses that workers send.

Finds out which worker a mail is from and what it says, asks ``rules/decisions`` what follows, and has that carried out.
Mail of anyone who is no worker of a story is refused with the reason. If the story cannot be read or changed now, the
mail is deferred. A text that is not understood stands whole in the log, with the form that it comes closest to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from ackd.coordination.pipeline import wire as stage_text
from ackd.coordination.pipeline.facts import stage_report, stage_status, stage_unparsed
from ackd.coordination.pipeline.files import StoriesHeld
from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.decisions import Source, Treatment
from ackd.coordination.pipeline.rules.ids import execute_id
from ackd.coordination.pipeline.rules.record import BadStoryRecord
from ackd.coordination.pipeline.rules.stage_names import whose_worker
from ackd.coordination.pipeline.rules.stage_words import StandsAt, agents_of, detail_of, result_of, score_of
from ackd.core.errors import BadBody
from ackd.handlers import Defer, Refuse

if TYPE_CHECKING:
    from ackd.coordination.pipeline.executor import Executor
    from ackd.coordination.pipeline.rules.decisions import StoryDecision
    from ackd.coordination.pipeline.rules.record import Story
    from ackd.coordination.pipeline.rules.stage_words import Report
    from ackd.handlers import Context, Mail

#: The most characters of a text that stand in the log.
_RAW_CHARS: Final = 2_000


@dataclass(eq=False)
class Reports:
    executor: Executor

    async def __call__(self, mail: Mail, _ctx: Context) -> None:
        if mail.type == "dead_letter":
            return  # about mail of our own: the reconciler notices what comes of that
        whose = whose_worker(mail.sender, self.executor.pipeline.id_pattern)
        if whose is None:
            raise Refuse(f"{mail.sender} is no worker of a story")
        if mail.type != "message":
            raise Refuse(f"pipeline-lead reads reports of type message, not {mail.type}")
        try:
            async with self.executor.lock(whose[0]):
                await self._hear(mail, *whose)
        except StoriesHeld as held:
            raise Defer(str(held)) from None
        except BadStoryRecord as bad:
            raise Defer(str(bad)) from None

    async def _hear(self, mail: Mail, story_id: str, stage: int) -> None:
        story = self.executor.files.read(story_id)
        if story is None:
            raise Refuse(f"there is no story {story_id}")
        content, generation = _content(mail)
        if generation is None:
            generation = _answered(story, mail.in_reply_to)
        of = Source(mail.sender, stage, mail.message_id, generation)
        self._note_life(story, of)
        try:
            said = stage_text.read(content, *self.executor.pipeline.texts)
        except stage_text.BadStageText as bad:
            await self._garbled(story, of, content, str(bad))
            return
        if isinstance(said, StandsAt):
            await self._status(story, of, said)
        else:
            await self._report(story, of, said, content)

    def _note_life(self, story: Story, of: Source) -> None:
        one = decisions.spoken_for(story, of)
        worker = self.executor.workers.get(story.story_id, one.generation) if one is not None else None
        if worker is not None:
            worker.seen_at = anyio.current_time()

    # --- each kind of text --------------------------------------------------------------------------------------------
    async def _report(self, story: Story, of: Source, said: Report, content: str) -> None:
        now, budgets = self.executor.wall(), self.executor.pipeline.budgets
        decision = await self.executor.decide(story.story_id, lambda it: decisions.reported(it, said, of, now, budgets))
        if decision is None:
            return
        if decision.heard is Treatment.GARBLED:
            self._unparsed(story, of, content, f"it speaks of stage {said.stage} of {said.story}")
        else:
            self._record(story, of, said, decision)
        await self._finish(story, of, decision)

    async def _status(self, story: Story, of: Source, said: StandsAt) -> None:
        now = self.executor.wall()
        decision = await self.executor.decide(story.story_id, lambda it: decisions.status_heard(it, said, of, now))
        if decision is None:
            return
        self.executor.services.record(
            stage_status(**_about(story, of), doing=said.doing.value, step=said.step[:_RAW_CHARS])
        )
        one = decision.story.current
        if decision.heard is Treatment.PROCESSED and one is not None:
            await self.executor.keep_checkpoint(decision.story, one, said.step[:_RAW_CHARS])
        await self._finish(story, of, decision)

    async def _garbled(self, story: Story, of: Source, content: str, problem: str) -> None:
        self._unparsed(story, of, content, problem)
        now = self.executor.wall()
        decide = partial(decisions.garbled, of=of, problem=problem, now=now, text=content)
        decision = await self.executor.decide(story.story_id, decide)
        if decision is not None:
            await self._finish(story, of, decision)

    async def _finish(self, story: Story, of: Source, decision: StoryDecision) -> None:
        if decision.heard is Treatment.STRANGER:
            raise Refuse(f"{of.sender} is no worker that {story.story_id} ever had")
        await self.executor.carry_out(decision)

    # --- the log ------------------------------------------------------------------------------------------------------
    def _record(self, story: Story, of: Source, said: Report, decision: StoryDecision) -> None:
        score = score_of(said)
        data = {**_about(story, of), "result": result_of(said), "heard": decision.heard.value}
        more = {"score": f"{score:f}" if score is not None else "", "detail": detail_of(said)[:_RAW_CHARS]}
        more["agents"] = agents_of(said)
        self.executor.services.record(stage_report(**(data | {key: value for key, value in more.items() if value})))

    def _unparsed(self, story: Story, of: Source, content: str, problem: str) -> None:
        self.executor.services.record(stage_unparsed(**_about(story, of), text=content[:_RAW_CHARS], why=problem))


def _about(story: Story, of: Source) -> dict[str, Any]:
    about: dict[str, Any] = {"story": story.story_id, "stage": of.stage, "agent": of.sender}
    return about | {"message_id": of.message_id} | ({"generation": of.generation} if of.generation is not None else {})


def _content(mail: Mail) -> tuple[str, int | None]:
    """Return the mail's text and the generation that it names. A body that cannot be read has no text."""
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
    """Return the generation whose Execute the mail answers."""
    ids = {execute_id(story, one.generation): one.generation for one in story.tries}
    return ids.get(in_reply_to or "")
