"""Which files in a queue are messages, by their names: one answer for the daemon and for every command.

A stray is a file that lies there under another name: a message that was saved as ``a.eml``, an editor's ``a.mime~``.
Nobody will ever read it, so nobody may call it queued. Hidden names are writers' own, while they write.
"""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".mime"
#: A writer may yet rename what it has just written; what is older is named.
STRAY_AFTER_S: Final = 60.0

#: What else may lie beside messages. The second is an Ensemble conductor's, and read by its gateway.
_KNOWN: Final = frozenset({"processed", "dispatch-instruction.yaml", "dispatch-instruction.yml"})

STRAY_WORDS: Final = f"its name does not end in {SUFFIX}, so it is never delivered"
STRAY_CURE: Final = f"Rename it so that it ends in {SUFFIX}, and it is delivered; or move it out of the queue"


def is_message_file(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


def is_stray(name: str) -> bool:
    return not name.startswith(".") and name not in _KNOWN and not is_message_file(name)
