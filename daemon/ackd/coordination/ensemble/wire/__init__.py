"""The files of an Ensemble team: their names, and what is in them.

names: the meaning of names, and the routes · content: tasks and reports, and the bodies that they become.
"""

from ackd.coordination.ensemble.wire.content import (
    Content,
    assignees,
    body,
    is_under_way,
    priority,
    reporters,
    task_ids,
    understood,
    verdict,
)
from ackd.coordination.ensemble.wire.names import (
    ACK,
    Called,
    Owner,
    ReportKind,
    Routes,
    is_instruction,
    is_passing,
    is_yaml,
    kind_of,
    owner,
    recipient,
    reported_task,
    routes,
    stem,
)

__all__ = [
    "ACK",
    "Called",
    "Content",
    "Owner",
    "ReportKind",
    "Routes",
    "assignees",
    "body",
    "is_instruction",
    "is_passing",
    "is_under_way",
    "is_yaml",
    "kind_of",
    "owner",
    "priority",
    "recipient",
    "reported_task",
    "reporters",
    "routes",
    "stem",
    "task_ids",
    "understood",
    "verdict",
]
