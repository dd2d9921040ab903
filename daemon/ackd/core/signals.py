"""Signals: news that parts of the daemon tell each other inside the process.

A signal is emitted by the part that knows the news, right after the line about it was recorded in the session log.
Every subscriber to its type hears it at once (runtime/signals.py), in the same turn. Subscribers only take note: they
do no I/O and wait for nothing. The log is for people and for the next daemon; nothing in the running daemon depends on
it.

A capability may define signals of its own: any subclass of ``Signal`` can be emitted and subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ackd.core.values import value
from ackd.core.words import MessageEnd


class Signal:
    """The base of all signals."""

    __slots__ = ()


@value
class MessageMet(Signal):
    """The engine knows of this message from now on, and nothing has been done with it yet."""

    message_id: str
    agent: str


@value
class MessageEnded(Signal):
    """The message is through, and its end is in the log."""

    message_id: str
    agent: str
    end: MessageEnd


@value
class TaskEnded(Signal):
    """A task of this agent was completed, or has failed for good."""

    agent: str


@value
class AgentChanged(Signal):
    """An agent can be reached again or no longer, or its signs of life came or stopped. ``down``: it is given up."""

    agent: str
    down: bool


@value
class RunStarted(Signal):
    """A command was started for one message of this agent, or a running one was taken over from the last daemon."""

    agent: str


@value
class RunFinished(Signal):
    """A command for one message of this agent has ended."""

    agent: str


Emit: TypeAlias = Callable[[Signal], None]


def unheard(_signal: Signal) -> None:
    """Emit to nobody: for parts that are used without a daemon around them."""
