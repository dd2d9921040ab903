"""What completes a message: its agent's word, or that it was seen.

Owns the difference between a task and a notice. A task is over when its agent says so; a notice has done its work when
it was read, and whoever was never taught to say ``ackd done`` must not lose its next mail for that. Values in, a value
out; refuses to know how something was seen. Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.message import MONITOR
from ackd.core.policy import CompletesOn

if TYPE_CHECKING:
    from ackd.core.message import Message
    from ackd.core.policy import AgentPolicy

#: Types that only inform, whoever sends them.
NOTICE_TYPES: Final = frozenset({"progress_update", "notification"})
#: Types that want something done, also when ackd sends them.
REQUEST_TYPES: Final = frozenset({"board_request", "status_check", "shutdown_request"})


def completes_on(message: Message, policy: AgentPolicy) -> CompletesOn:
    """What completes this message for an agent with this policy: a rule for its type, then whether it is a notice."""
    for type_, own in policy.completes_on_type:
        if type_ == message.type:
            return own
    return policy.notices_complete_on if is_notice(message) else policy.completes_on


def is_notice(message: Message) -> bool:
    """Whether it only informs: nobody waits for what its reader does about it."""
    if message.automatic or message.type in NOTICE_TYPES:
        return True
    return message.sender == MONITOR and message.type not in REQUEST_TYPES
