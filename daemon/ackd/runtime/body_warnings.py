"""What is wrong with the body of a message that came by file: delivered all the same, with a line in the log.

`ackd send` refuses such a body; who writes files by hand was never asked. Owns the words; the checks are the dialect's.
Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadBody
from ackd.core.message import MONITOR
from ackd.dialects import body_shapes, ignite

if TYPE_CHECKING:
    from ackd.core.message import Message

#: Types whose bodies have a shape; all others are free.
_SHAPED: Final = frozenset(body_shapes.SHAPES) | {"task_completed"}
#: Larger bodies are not looked at: whoever is told of them will.
_MOST_BYTES: Final = 65_536
_MOST_PROBLEMS: Final = 3


def body_warning(message: Message, data: bytes) -> str:
    """Empty, if there is nothing to say."""
    if message.type not in _SHAPED or message.sender == MONITOR or len(data) > _MOST_BYTES:
        return ""
    from ackd.dialects import yaml_body  # noqa: PLC0415 - a team without such types need not wait for it

    text = ignite.body_of(data)
    try:
        if body_shapes.quick_check(message.type, yaml_body.load(text)):
            return ""
        from ackd.dialects import bodies  # noqa: PLC0415

        problems = tuple(bodies.check(message.type, text))
    except BadBody as bad:
        problems = bad.problems
    said = "; ".join(str(problem) for problem in problems[:_MOST_PROBLEMS])
    return f"its body does not fit its type ({message.type}), delivered all the same: {said}"
