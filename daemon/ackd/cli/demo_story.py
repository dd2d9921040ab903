"""The story of ``ackd demo``: sentences for somebody who has read nothing, each with the lines of the log it is about.

A sentence is said when the log first has the line that it explains, once. Of the lines only those are shown that belong
to the story: the goal, the tasks, what befalls the workers. The session log has all of them.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.agent_facts import child_restart, context_threshold, nudge
from ackd.core.message_facts import (
    escalation,
    message_acked,
    message_completed,
    message_dead,
    message_queued,
    message_retry,
    message_told,
)
from ackd.facts import agent_of, agent_width, paint, render
from ackd.facts.table import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.storage.session_log import Line

_WIDEST: Final = 80
_BOLD: Final = "1"

#: Lines that are shown whatever message they are about.
_EVENTS: Final = frozenset({child_restart.type, context_threshold.type, escalation.type, nudge.type})
#: Lines that are shown if they are about a message of the story.
_RECEIPTS: Final = frozenset(
    {
        message_queued.type,
        message_told.type,
        message_acked.type,
        message_completed.type,
        message_retry.type,
        message_dead.type,
        FACTS["keys_sent"].type,  # an endpoint kind declares it
    }
)
_STORY_MESSAGES: Final = frozenset("user_goal task_list task_assignment".split())


class Sentence(NamedTuple):
    """A sentence that is said when the first line of this type is written about this agent. ``attempt``: of this
    telling or a later one; a telling may come to nothing because the agent is just being started again."""

    type: str
    agent: str
    words: str
    attempt: int | None = None

    def fits(self, line: Line) -> bool:
        return (
            line.type == self.type
            and agent_of(line) == self.agent
            and (self.attempt is None or line.data.get("attempt", 0) >= self.attempt)
        )


SENTENCES: Final = (
    Sentence(
        message_queued.type,
        "leader",
        "You give the leader a goal: publish the release notes. The message is a file in the leader's queue, and it is "
        "on disk before anything else happens, so that no crash can lose it.",
    ),
    Sentence(
        message_told.type,
        "leader",
        'The leader is a command, and it has been started with the message. ackd writes "told" only when it has proof; '
        "here that is the number of the process.",
    ),
    Sentence(
        message_completed.type,
        "leader",
        "The leader has answered you with a plan, and that completes the message. Had it failed, ackd would have tried "
        "it again, and in the end told somebody.",
    ),
    Sentence(
        message_queued.type,
        "ignitian_1",
        "The coordinator gives a task to each worker, and all of them begin. Each worker has a queue of its own, so "
        "that a slow one delays nobody else.",
    ),
    Sentence(
        message_retry.type,
        "ignitian_2",
        "One worker has failed, and the reason is written down. Its task is tried again after a short random wait, at "
        "most three times. Without ackd you would have to notice that yourself.",
    ),
    Sentence(
        child_restart.type,
        "builder",
        "The builder has crashed in the middle of its task. ackd has seen the process die, and starts it again.",
    ),
    Sentence(
        message_told.type,
        "builder",
        "The new builder is given the same task, and with it how far the old one came: it goes on there, "
        "instead of at the beginning.",
        attempt=2,
    ),
    Sentence(
        context_threshold.type,
        "translator",
        "The translator says that its context, the memory of a language model, is 75 % full. It hands over before it "
        "begins to forget: a fresh worker does the steps that are left.",
    ),
    Sentence(
        message_completed.type,
        "ignitian_2",
        "The worker that failed twice has succeeded at its third try. Nobody had to look after it.",
    ),
    Sentence(
        escalation.type,
        "ignitian_3",
        "Another one has failed four times, which is enough. The leader is told, and so is the coordinator who sent "
        "the task. Only then does the task become a dead letter: it is kept, with the reason.",
    ),
    Sentence(
        message_told.type,
        "reviewer",
        "The reviewer lives in a terminal, as Claude Code and Codex do. ackd has typed one line there, and believes "
        "that it was told only because its screen shows a reaction.",
    ),
    Sentence(
        nudge.type,
        "reviewer",
        "The reviewer hangs: it looks busy, but nothing has moved for some seconds. Without ackd its task would wait "
        "until somebody looks; ackd interrupts it, as a person would.",
    ),
    Sentence(
        message_acked.type,
        "reviewer",
        "The reviewer is awake again, and says by `ackd ack` that it has the task. That is the strongest proof there "
        "is: the agent's own word.",
    ),
)


class DemoStory:
    """Turns lines of the log into text. ``width``: of the terminal; 0: there is none."""

    def __init__(self, *, agents: Iterable[str], colour: bool, width: int, quiet: bool) -> None:
        self._agents, self._colour, self._width, self._quiet = agent_width(agents), colour, width, quiet
        self._unsaid = list(SENTENCES)
        self._messages: set[str] = set()

    def told(self, line: Line) -> Iterator[tuple[str, bool]]:
        """Yield what is to be printed of a line: texts, and whether each is a sentence."""
        if line.type == message_queued.type and line.data.get("message_type") in _STORY_MESSAGES:
            self._messages.add(str(line.data.get("message_id")))
        for sentence in [one for one in self._unsaid if one.fits(line)]:
            self._unsaid.remove(sentence)
            yield "\n" + self.sentence(sentence.words), True
        if not self._quiet and self._belongs(line):
            yield render(line, colour=self._colour, width=self._width, agents=self._agents), False

    def sentence(self, words: str) -> str:
        lines = textwrap.wrap(words, min(_WIDEST, self._width or _WIDEST), break_on_hyphens=False)
        return "\n".join(paint(one, _BOLD) if self._colour else one for one in lines)

    def _belongs(self, line: Line) -> bool:
        if line.type in _EVENTS:
            return True
        return line.type in _RECEIPTS and str(line.data.get("message_id")) in self._messages
