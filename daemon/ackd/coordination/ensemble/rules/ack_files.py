"""The name of the file by which a task is acknowledged: ``queue/ack/<task>.ack`` (ensemble-v3).

A task's id is free text and becomes part of a file name: ``ack_names`` is the only way to make one. Pure; never fails.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

SUFFIX: Final = ".ack"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_CHARS: Final = 80
_MOST_BYTES: Final = 255


def ack_names(task_id: str) -> tuple[str, ...]:
    """The name that ackd gives the file, then the name from an agent that uses the id unchanged, if that is possible.

    An id that cannot be a name unchanged gets a few digits of its own, so that two ids never share a file.
    """
    if _PLAIN.fullmatch(task_id):
        return (task_id + SUFFIX,)
    cut = _UNSAFE.sub("_", task_id).lstrip(".")[:_MOST_CHARS]
    digits = hashlib.blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    ours = f"{cut}-{digits}{SUFFIX}"
    return (ours, task_id + SUFFIX) if _can_be_a_name(task_id) else (ours,)


def _can_be_a_name(task_id: str) -> bool:
    """False for hidden names, and for ids with a slash: those are paths, and could lead anywhere."""
    if not task_id or task_id.startswith(".") or "/" in task_id or "\0" in task_id:
        return False
    try:
        return len(task_id.encode()) + len(SUFFIX) <= _MOST_BYTES
    except UnicodeEncodeError:
        return False
