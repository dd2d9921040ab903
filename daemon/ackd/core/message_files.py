"""The names of message files: which files in a queue are messages, for the daemon and for every command.

A stray is a file that lies there under another name: a message that was saved as ``a.eml``, an editor's ``a.mime~``. It
is never read, so it must not be called queued. Hidden names belong to writers, while they write.
"""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".mime"
#: A stray is reported once it is this old: until then its writer may rename it.
STRAY_AFTER_S: Final = 60.0

#: Other names that may lie beside messages. A dispatch instruction is an Ensemble conductor's, and read by its gateway.
_KNOWN: Final = frozenset({"processed", "dispatch-instruction.yaml", "dispatch-instruction.yml"})

STRAY_WORDS: Final = f"its name does not end in {SUFFIX}, so it is never delivered"
STRAY_CURE: Final = f"Rename it so that it ends in {SUFFIX}, and it is delivered; or move it out of the queue"


def is_message_file(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


def is_stray(name: str) -> bool:
    return not name.startswith(".") and name not in _KNOWN and not is_message_file(name)
