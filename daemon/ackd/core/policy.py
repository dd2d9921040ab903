"""The treatment of one agent: the numbers of the config, as the engine takes them, and what completes a message.

Endpoints differ by these values only; the engine never asks which kind it serves.

A task is over when its agent says so. A notice has done its work when it was read: an agent that was never taught to
say ``ackd done`` must not lose its next mail for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.names import MONITOR
from ackd.core.words import REPORT_TYPES, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.message import Message

UNLIMITED: Final = 1_000_000_000
#: The length of a time that has no end: no timer is started for it, because somebody other than the engine watches.
NEVER: Final = math.inf

#: Types that only inform, whoever sends them.
NOTICE_TYPES: Final = frozenset({"progress_update", "notification"})
#: Types that tell of trouble, whoever sends them.
ALARM_TYPES: Final = frozenset({"escalation", "dead_letter"})
#: Types that ask for something, also when ackd sends them.
REQUEST_TYPES: Final = frozenset({"board_request", "status_check", "shutdown_request"})


class OnDeadline(Word):
    """The action, besides telling somebody, about a message that is not completed by its deadline."""

    TELL = "tell"  # nothing else
    CANCEL = "cancel"


class CompletesOn(Word):
    """The event that completes a message, besides its agent's own word, which always does."""

    DONE = "done"  # nothing else. That word is a receipt, a report in reply, the deletion of its file, or its run's end
    SEEN = "seen"  # evidence that its agent has read it


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """The numbers and rules for one agent.

    A capability that watches an agent itself sets ``processing_timeout_s``, ``task_timeout_s`` and ``busy_timeout_s``
    to ``NEVER``: the engine then delivers the agent's mail and leaves its silence to that capability.
    """

    ack_timeout_s: float = 60
    processing_timeout_s: float = 300
    task_timeout_s: float = 1800
    busy_timeout_s: float = 900
    remind_after_s: float = 900
    #: An agent that was told that its message is cancelled has this long to let go of it.
    cancel_timeout_s: float = 60
    on_deadline: OnDeadline = OnDeadline.TELL
    retry_limit: int = 3
    backoff_base_s: float = 5
    backoff_cap_s: float = 300
    crash_limit: int = 10
    max_in_flight: int = 1
    aging_s: float = 300
    #: How many rungs follow the first telling; None: a silent agent is not woken (exec, handler, inbox).
    rungs: int | None = None
    #: The deed of each rung: 1 types the line again, 2 interrupts first, 3 clears the context. As long as ``rungs``.
    ladder: tuple[int, ...] = (1, 2, 3)
    #: An agent that is quiet for this long with work in hand is asked. None: nothing lives behind its endpoint.
    heartbeat_timeout_s: float | None = None
    #: An agent that was asked and gives no sign for this long hangs.
    probe_timeout_s: float = 60
    #: The share of its context that a worker may use before a fresh one takes over.
    context_threshold: float = 0.70
    #: True: its screen (or hook) says whether it works or waits for a line. It is reminded, and never asked.
    shows: bool = False
    #: An agent hangs if nothing but the busy rows of its screen changed for this long. 0: it never counts as hanging.
    hung_after_s: float = 1800
    #: True: an agent that hangs is restarted, and its work offered again. False: its ladder begins at rung 2.
    restarts: bool = False
    #: True: telling does not outlive the daemon (exec, handler): a told message without a living run is offered again.
    volatile: bool = False
    #: True: it takes messages without an ack (handler), so it is overdue after task_timeout_s as if it had acked.
    unwatched: bool = False
    #: True: mail waits to be read, and one reminder is given after remind_after_s (inbox).
    reminds: bool = False
    #: True: after a death it goes on with its work by itself, so a message of its pool stays with it.
    resumes: bool = False
    #: True: whoever sends it parts of a message is told once when all of them have ended. A message may say otherwise.
    notify_when_done: bool = False
    #: The rule by which its mail is completed: in general, for mail that only informs, and for single types.
    completes_on: CompletesOn = CompletesOn.DONE
    notices_complete_on: CompletesOn = CompletesOn.DONE
    completes_on_type: tuple[tuple[str, CompletesOn], ...] = ()


@dataclass(frozen=True, slots=True)
class EnginePolicy:
    escalate_to: str = "user"
    dedup_window_s: float = 86400
    loop_limit: int = 5
    #: The members of each group, by the group's name among the agents: mail to it is handed on to them.
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def completes_on(message: Message, policy: AgentPolicy) -> CompletesOn:
    """Return what completes this message: a rule for its type, else one for notices, else the general one."""
    for type_, own in policy.completes_on_type:
        if type_ == message.type:
            return own
    return policy.notices_complete_on if is_notice(message) else policy.completes_on


def is_notice(message: Message) -> bool:
    """Return whether it only informs: nobody waits for what its reader does about it."""
    if message.automatic or message.type in NOTICE_TYPES:
        return True
    return message.sender == MONITOR and message.type not in REQUEST_TYPES


def asks_for_work(sender: str, type_: str, *, automatic: bool) -> bool:
    """Return whether a message is somebody's work, and is cancelled with what it came of. Mail that tells of something
    stays: what it tells is so, whatever becomes of the work."""
    return not (
        automatic or sender == MONITOR or type_ in REPORT_TYPES or type_ in NOTICE_TYPES or type_ in ALARM_TYPES
    )
