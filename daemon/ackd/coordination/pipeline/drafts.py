"""The messages that the lead writes, as drafts: each with an id that derives from its cause, its text and its summary.

Each body names the ``generation``, because workers of one stage share a name. Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.coordination.pipeline import wire as stage_text
from ackd.coordination.pipeline.rules import ids as story_ids
from ackd.coordination.pipeline.rules.stage_names import LEAD, worker_name
from ackd.coordination.pipeline.rules.stage_words import Acknowledge, Execute, StatusCheck
from ackd.core import escalations
from ackd.core.message import USER, Draft, Priority

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal
    from pathlib import Path

    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.rules.stage_words import Command
    from ackd.core.message import Message

#: A status check beyond this number is announced in a pane by the common line for mail.
_MOST_ASKS: Final = 100


def execute(story: Story, one: Try, checkpoint: Mapping[str, object] | None) -> Draft:
    more = {"checkpoint": dict(checkpoint)} if checkpoint is not None else {}
    word = Execute(story.story_id, one.stage)
    return _command(story_ids.execute_id(story, one.generation), word, one, Priority.NORMAL, more)


def status_check(story: Story, one: Try) -> Draft:
    ident = story_ids.ask_id(story, one.generation, one.asks)
    return _command(ident, StatusCheck(story.story_id, one.stage), one, Priority.HIGH)


def ack(story: Story, one: Try, to: str, report_id: str) -> Draft:
    ident = story_ids.ack_id(story, one.generation, report_id)
    word = Acknowledge(story.story_id, one.stage)
    return Draft(ident, LEAD, to, "message", Priority.HIGH, _body(word, one), in_reply_to=report_id)


def shutdown(story: Story, one: Try) -> Draft:
    worker = worker_name(story.story_id, one.stage)
    summary = stage_text.shutdown_summary(story.story_id, one.stage)
    body: dict[str, object] = {"content": f"shutdown_request for {worker}", "summary": summary}
    body |= {"story": story.story_id, "stage": one.stage, "generation": one.generation}
    ident = story_ids.shutdown_id(story, one.generation)
    return Draft(ident, LEAD, worker, "shutdown_request", Priority.NORMAL, body)


def printed_report(
    story: Story, one: Try, text: str, id_pattern: str, readiness_scale: Decimal | None = None, nth: int = 0
) -> Draft:
    """Return a printed report as the mail that its worker would have sent.

    ``nth``: the line's number, 0 for the last.
    """
    said = stage_text.read(text, id_pattern, readiness_scale)
    return _printed(story, one, text, stage_text.summary(said), nth)


def printed_near_miss(story: Story, one: Try, text: str, nth: int) -> Draft:
    """Return a printed line that only resembles a report as mail, so that the lead asks about it."""
    return _printed(story, one, text, f"{story.story_id} Stage {one.stage} not understood", nth)


def _printed(story: Story, one: Try, text: str, summary: str, nth: int) -> Draft:
    body: dict[str, object] = {"content": text, "summary": summary, "generation": one.generation}
    ident = story_ids.stdout_id(story, one.generation, nth)
    return Draft(ident, worker_name(story.story_id, one.stage), LEAD, "message", Priority.NORMAL, body)


def line_for(story: Story, one: Try, message: Message, path: Path) -> str:
    """Return the line that is typed to a worker in a pane for a message: for the lead's mail, the lead's own words."""
    from ackd.endpoints.tmux import lines  # noqa: PLC0415 - a team without panes need not wait

    about, generation, ident = (story.story_id, one.stage), one.generation, message.message_id
    if ident == story_ids.execute_id(story, generation):
        return lines.execute_stage(*about, message, path)
    if ident == story_ids.shutdown_id(story, generation):
        return lines.stage_is_over(*about)
    if message.in_reply_to and ident == story_ids.ack_id(story, generation, message.in_reply_to):
        return lines.ack_stage(*about)
    if any(ident == story_ids.ask_id(story, generation, number) for number in range(1, _MOST_ASKS)):
        return lines.check_stage(*about)
    return lines.mail(message, path)


def escalation(story: Story, wall: float) -> Draft:
    tries = [one for one in story.tries if one.stage == story.stage]
    summary = f"story {story.story_id} is paused at stage {story.stage}, after {len(tries)} tries of it: {story.reason}"
    action = f"ackd story show {story.story_id}; then ackd story resume {story.story_id}, or cancel"
    agent = worker_name(story.story_id, story.stage)
    return escalations.escalation(story_ids.pause_id(story), USER, agent, "story_paused", summary, action, None, wall)


def _command(
    ident: str, word: Command, one: Try, priority: Priority, more: Mapping[str, object] | None = None
) -> Draft:
    to = worker_name(word.story, word.stage)
    return Draft(ident, LEAD, to, "message", priority, _body(word, one) | dict(more or {}))


def _body(word: Command, one: Try) -> dict[str, object]:
    return {
        "content": stage_text.write(word),
        "summary": stage_text.summary(word),
        "story": word.story,
        "stage": word.stage,
        "generation": one.generation,
    }
