"""The names of files inside a message bus, and of its event files.

Names of tasks and paths are hostile text and become parts of file names: ``event_name`` is the only way to make one.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import re
from typing import Final, NamedTuple

#: ``said_by`` in the payload of a line that ackd wrote about a worker, in place of the worker.
SAID_BY_ACKD: Final = "ackd"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_CHARS: Final = 80


class Track(NamedTuple):
    """``bus``: the directory with the files. ``name``: the name for people, from the directory around it."""

    bus: str
    name: str

    @property
    def queue(self) -> str:
        return f"{self.bus}/queue.jsonl"

    @property
    def locks(self) -> str:
        return f"{self.bus}/locks.json"

    @property
    def status(self) -> str:
        return f"{self.bus}/worker-status.json"

    @property
    def events(self) -> str:
        return f"{self.bus}/events"

    @property
    def board(self) -> str:
        return f"{self.bus}/board"


def event_name(type_: str, subject: str) -> str:
    """The seed's ``TYPE_subject.event``. A subject that cannot be part of a file name unchanged gets a few digits of
    its own, so that two subjects never share a file."""
    plain = _UNSAFE.sub("_", subject).lstrip(".")[:_MOST_CHARS]
    if plain != subject:
        import hashlib  # noqa: PLC0415 - most subjects are plain, and `ackd bus post` does not wait for it

        plain = f"{plain}-{hashlib.blake2b(subject.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
    return f"{type_}_{plain}.event"
