"""What the file is called by which a task is acknowledged: ``queue/ack/<task>.ack`` (ensemble-v3).

A task's id is anyone's words, and becomes a file's name: ``ack_names`` is the only way to make one. Pure; cannot fail.
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
    """The name that we give it; then the one that an agent gives it who puts the id there as it stands, if it can.

    An id that cannot stand in a name as it is gets a few digits of its own, so that two are never one.
    """
    if _PLAIN.fullmatch(task_id):
        return (task_id + SUFFIX,)
    cut = _UNSAFE.sub("_", task_id).lstrip(".")[:_MOST_CHARS]
    digits = hashlib.blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    ours = f"{cut}-{digits}{SUFFIX}"
    return (ours, task_id + SUFFIX) if _can_be_a_name(task_id) else (ours,)


def _can_be_a_name(task_id: str) -> bool:
    """Hidden names are nobody's answer, and what has a slash is a path: it could lead anywhere."""
    if not task_id or task_id.startswith(".") or "/" in task_id or "\0" in task_id:
        return False
    try:
        return len(task_id.encode()) + len(SUFFIX) <= _MOST_BYTES
    except UnicodeEncodeError:
        return False
